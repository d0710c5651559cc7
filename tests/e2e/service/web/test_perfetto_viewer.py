"""A trace is handed over to the copy of Perfetto's viewer on this host; without one it is a download."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from service.web.templating import perfetto_viewer
from tests.helpers.idle_service import Quiet, quiet_service

pytestmark = pytest.mark.slow
LOADED = 60_000  # ms


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    with quiet_service(tmp_path_factory.mktemp("quiet"), auth="keys", content_security_policy="") as made:
        yield made


@pytest.fixture(scope="module")
def job_id(quiet: Quiet, tmp_path_factory: pytest.TempPathFactory) -> str:
    return quiet.run_small_program(tmp_path_factory.mktemp("out"))


@pytest.fixture(scope="module")
def share(quiet: Quiet, job_id: str) -> str:
    token: str = quiet.client.post(f"/v1/jobs/{job_id}/share").json()["token"]
    return token


@dataclass
class Visitor:
    """Somebody with a link and no key: a page of the timeline, and what his browser has asked for."""

    page: Page
    home: str
    asked: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    """Addresses of other hosts, for which a connection was tried."""

    def watch(self) -> None:
        context = self.page.context
        context.on("request", lambda request: self.asked.append(request.url))
        context.on("requestfinished", self._told)
        context.on("requestfailed", lambda request: request.failure == "csp" or self._told(request))

    def _told(self, request: Request) -> None:
        if not request.url.startswith((self.home, "data:", "blob:")):
            self.sent.append(request.url)


@pytest.fixture
def visitor(browser: Browser, quiet: Quiet, job_id: str, share: str) -> Iterator[Visitor]:
    home = str(quiet.client.base_url).rstrip("/")
    with browser.new_context(base_url=home, viewport={"width": 1200, "height": 900}) as context:
        page = context.new_page()
        found = Visitor(page, home)
        found.watch()
        yield found


def opened(visitor: Visitor, job_id: str, share: str, part: str = "") -> Page:
    visitor.page.goto(f"/jobs/{job_id}/timeline?share={share}{part}")
    visitor.page.wait_for_selector('canvas[data-detail="fine"]')
    return visitor.page


def viewed(visitor: Visitor, link: str) -> Page:
    """The viewer, once it has the trace that a link leads to."""
    with visitor.page.context.expect_page() as popup:
        visitor.page.get_by_role("link", name=link).click()
    expect(visitor.page.get_by_role("status")).to_have_text("Perfetto's viewer has the trace.", timeout=LOADED)
    return popup.value


def test_the_whole_trace_opens_in_the_viewer_and_nothing_leaves_this_host(
    visitor: Visitor, quiet: Quiet, job_id: str, share: str
) -> None:
    page = opened(visitor, job_id, share)
    viewer = viewed(visitor, "Open in Perfetto")
    tracks = quiet.client.get(f"/v1/jobs/{job_id}/timeline/tracks").json()
    for unit in ("launches", *(track["unit"] for track in tracks["tracks"] if track["cycles"]["busy"])):
        expect(viewer.get_by_text(re.compile(rf"^{unit} ")).first).to_be_visible(timeout=LOADED)
    expect(viewer).to_have_title(re.compile(job_id[:12]))
    (trace,) = [url for url in visitor.asked if f"/v1/jobs/{job_id}/trace" in url]
    assert f"share={share}" in trace
    assert visitor.sent == []
    # it does try: the policy is what stops it
    assert any(not url.startswith((visitor.home, "data:", "blob:")) for url in visitor.asked)
    assert len(page.context.pages) == 2


@pytest.mark.all  # without the viewer it is a download of the same
def test_what_is_in_view_opens_in_the_viewer(visitor: Visitor, job_id: str, share: str) -> None:
    opened(visitor, job_id, share, "&begin=10&end=60")
    with visitor.page.expect_response(re.compile("format=perfetto")) as answer:
        viewer = viewed(visitor, "this view in Perfetto")
    said = json.loads(answer.value.text())["otherData"]
    assert (said["begin"], said["end"]) == (10, 60)
    expect(viewer.get_by_text(re.compile("^launches ")).first).to_be_visible(timeout=LOADED)


def test_a_trace_that_is_refused_is_said_and_no_window_stays(visitor: Visitor, job_id: str, share: str) -> None:
    page = opened(visitor, job_id, share)
    problem = '{"detail": "<b>gone"}'
    page.route(
        re.compile("format=perfetto"),
        lambda route: route.fulfill(status=404, content_type="application/problem+json", body=problem),
    )
    with page.context.expect_page() as popup:
        page.get_by_role("link", name="Open in Perfetto").click()
    said = "Perfetto's viewer has not got the trace: <b>gone"
    expect(page.get_by_role("status")).to_have_text(said, timeout=LOADED)
    if not popup.value.is_closed():
        popup.value.wait_for_event("close")


def test_where_windows_are_refused_it_is_a_download(visitor: Visitor, job_id: str, share: str) -> None:
    visitor.page.add_init_script("window.open = () => null")
    page = opened(visitor, job_id, share)
    with page.expect_download() as download:
        page.get_by_role("link", name="Open in Perfetto").click()
    assert '"traceEvents"' in download.value.path().read_text()


@pytest.fixture
def without_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfetto_viewer, "viewer_files", dict)


@pytest.mark.usefixtures("without_viewer")
def test_without_a_copy_it_is_a_download(visitor: Visitor, quiet: Quiet, job_id: str, share: str) -> None:
    page = opened(visitor, job_id, share, "&begin=10&end=60")
    expect(page.locator("main")).to_contain_text("drop the downloaded file on ui.perfetto.dev")
    for link, begin in (("Open in Perfetto", 0), ("this view for Perfetto", 10)):
        with page.expect_download() as download:
            page.get_by_role("link", name=link).click()
        assert download.value.suggested_filename.endswith(".perfetto.json")
        assert json.loads(download.value.path().read_text())["otherData"]["begin"] == begin
    assert len(page.context.pages) == 1
    answer = quiet.client.get("/perfetto/", headers={"Authorization": ""})
    assert (answer.status_code, answer.json()["detail"]) == (404, "no copy of Perfetto's viewer is installed here")


def test_the_viewer_needs_no_key_and_may_ask_this_host_alone(quiet: Quiet) -> None:
    ask: Callable[..., Any] = lambda path: quiet.client.get(path, headers={"Authorization": ""})  # noqa: E731
    page = ask("/perfetto/")
    (script,) = re.findall(r"<script[^>]*>(.*?)</script>", page.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    names = [name for name in perfetto_viewer.viewer_files() if name.endswith(("engine_bundle.js", ".wasm"))]
    assert len(names) > 2
    for answer in (page, *(ask(f"/perfetto/{name}") for name in names)):
        assert answer.status_code == 200
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert policy.pop("script-src") == f"'self' 'wasm-unsafe-eval' 'sha256-{digest}'"
        assert policy["frame-ancestors"] == "'none'"
        sources = {source for part in policy.values() for source in part.split()}
        assert sources == {"'none'", "'self'", "'unsafe-inline'", "data:", "blob:"}
    assert ask(f"/perfetto/{names[-1]}").headers["content-type"] in (
        "application/wasm",
        "text/javascript; charset=utf-8",
    )
    for path in (
        "service_worker.js",
        "trace_processor",
        "../pyproject.toml",
        "%2e%2e/__init__.py",
        "..%2f__init__.py",
        "v",
    ):
        assert ask(f"/perfetto/{path}").status_code in (401, 404), path
