"""Every link of every page, from the start page on, in a service with jobs that have run."""

import re
from collections import Counter, deque
from urllib.parse import parse_qs, urldefrag, urljoin, urlsplit

import httpx2
import pytest

from examples.single import Conv, conv_model
from tests.conftest import Service
from tests.helpers.html_pages import HERE, read_page

BROWSER = {"Accept": "text/html,*/*;q=0.8"}
MOST_OF_A_KIND = 2  # there is a page for each function, pass, call, nest and selection, and other tests make more
_UPLOADED = re.compile(r"(?<=/)[0-9a-f]{32,}(?=/|$)")
_PRESET = re.compile(r"(?<=/accelerators/)[a-z][^/?]*")
_ACCELERATOR = re.compile(r"^/jobs/[^/?]+(?=/accelerator$)")  # all jobs' are of one document, and show it alike
_NUMBER = re.compile(r"(?<=/)\d+(?=/|$)")


def kind_of(path: str, jobs: list[str]) -> str:
    """What pages of one kind have in common: their path, but for ids that are not of our jobs, and their selections."""
    parts = urlsplit(path)
    page = _ACCELERATOR.sub("/jobs/*", _NUMBER.sub("*", _PRESET.sub("preset", parts.path)))
    if not any(job in page for job in jobs):
        page = _UPLOADED.sub("*", page)
    return "&".join([page, *sorted(parse_qs(parts.query, keep_blank_values=True))])


@pytest.mark.slow
def test_every_link_leads_somewhere(service: Service) -> None:
    job = service.wait(service.submit(conv_model(Conv(16, 16, 8, 8)).SerializeToString()))
    program = service.client.get("/v1/programs").json()["items"][-1]["id"]
    request = {"program": program, "fresh": True}
    of_program = service.client.post("/v1/jobs", json=request).headers["Location"]
    untimed = service.client.post("/v1/jobs", json=request | {"options": {"engine": "function"}}).headers["Location"]
    assert service.wait(of_program)["state"] == service.wait(untimed)["state"] == "succeeded"
    home = f"/jobs/{job['id']}"
    jobs = [home, of_program.removeprefix("/v1"), untimed.removeprefix("/v1")]
    waiting, asked = deque(["/", *jobs]), {}
    fragments: list[tuple[str, str]] = []
    shown: Counter[str] = Counter()
    while waiting:
        path = waiting.popleft()
        if path in asked:
            continue
        kind = kind_of(path, jobs)
        shown[kind] += 1
        if shown[kind] > MOST_OF_A_KIND:
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
            if fragment and "view=editor" not in found:  # whose lines a script draws
                fragments.append((found, fragment))
    assert len(asked) > 60
    assert {
        f"/v1{home}/report",
        f"/v1{home}/report/layers.csv",
        f"/v1{home}/tir/flatten",
        "/jobs",
        "/models",
    } <= asked.keys()
    assert shown["/accelerators/preset"] > MOST_OF_A_KIND
    assert shown[f"{home}/passes&function&pass"] > MOST_OF_A_KIND
    missing = [(path, name) for path, name in fragments if asked.get(path) and name not in asked[path]]
    assert missing == []


def get(client: httpx2.Client, path: str) -> httpx2.Response:
    """The answer's head, and a page's body: traces and models are large."""
    with client.stream("GET", path, headers=BROWSER) as answer:
        if answer.headers.get("content-type", "").startswith("text/html"):
            answer.read()
        return answer
