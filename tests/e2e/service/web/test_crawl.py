"""Every link of every page, from the start page on, in a service with jobs that have run."""

from collections import Counter, deque
from urllib.parse import urldefrag, urljoin, urlsplit

import httpx2
import pytest

from examples.single import Conv, conv_model
from tests.conftest import Service
from tests.helpers.html_pages import HERE, read_page

BROWSER = {"Accept": "text/html,*/*;q=0.8"}
# of other tests, which share the service, there may be hundreds
MOST = 400
# a page for each function, pass, call and nest; and of another page, for what is selected on it
MOST_PASSES, MOST_SELECTIONS = 200, 6


@pytest.mark.slow
def test_every_link_leads_somewhere(service: Service) -> None:
    job = service.wait(service.submit(conv_model(Conv(16, 16, 8, 8)).SerializeToString()))
    program = service.client.get("/v1/programs").json()["items"][-1]["id"]
    request = {"program": program, "fresh": True}
    of_program = service.client.post("/v1/jobs", json=request).headers["Location"]
    untimed = service.client.post("/v1/jobs", json=request | {"options": {"engine": "function"}}).headers["Location"]
    assert service.wait(of_program)["state"] == service.wait(untimed)["state"] == "succeeded"
    home = f"/jobs/{job['id']}"
    waiting, asked = deque(["/", home, of_program.removeprefix("/v1"), untimed.removeprefix("/v1")]), {}
    fragments: list[tuple[str, str]] = []
    shown: Counter[str] = Counter()
    while waiting:
        path = waiting.popleft()
        if path in asked or (len(asked) >= MOST and not path.startswith(home)):
            continue
        page_path = path.partition("?")[0]
        shown[page_path] += 1
        if shown[page_path] > (MOST_PASSES if page_path == f"{home}/passes" else MOST_SELECTIONS):
            continue
        answer = get(service.client, path)
        if answer.status_code == 303:  # of a layer, to what it is in another view
            waiting.append(answer.headers["location"])
            asked[path] = set()
            continue
        assert answer.status_code == 200, f"{path}: {answer.status_code}"
        asked[path] = set()
        if not answer.headers["content-type"].startswith("text/html") or path == "/docs":
            continue
        page = read_page(answer.text, alone=path.endswith("/report.html"))
        assert page.faults == [], path
        asked[path] = set(page.ids)
        for link in sorted(page.links):
            if link.startswith("data:"):  # of the report's file, which carries its tables: it leads nowhere
                assert "," in link.partition(",")[2], path
                continue
            whole, fragment = urldefrag(urljoin(f"{HERE}{path}", link))
            parts = urlsplit(whole)
            found = parts.path + (f"?{parts.query}" if parts.query else "")
            if found not in asked:
                waiting.append(found)
            if fragment:
                fragments.append((found, fragment))
    assert len(asked) > 60
    assert {
        f"/v1{home}/report",
        f"/v1{home}/report/layers.csv",
        f"/v1{home}/tir/flatten",
        "/jobs",
        "/models",
        "/accelerators/gemmini",
    } <= asked.keys()
    assert shown[f"{home}/passes"] > MOST_PASSES
    missing = [(path, name) for path, name in fragments if asked.get(path) and name not in asked[path]]
    assert missing == []


def get(client: httpx2.Client, path: str) -> httpx2.Response:
    """The answer's head, and a page's body: traces and models are large."""
    with client.stream("GET", path, headers=BROWSER) as answer:
        if answer.headers.get("content-type", "").startswith("text/html"):
            answer.read()
        return answer
