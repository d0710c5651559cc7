"""The pages as people use them, in Chromium."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from service.backend import listen
from service.server import serving_in_thread
from tests.conftest import Service
from tests.helpers.chromium import PROGRAM, visiting
from tests.helpers.idle_service import quiet_service
from worker.config.settings import Settings
from worker.identity.api_keys import ApiKeys
from worker.records.job_record import Stage
from worker.storage.object_store import Store

pytestmark = pytest.mark.slow
JOB_MILLISECONDS = 120_000
SEED = "170017"  # no other test's, so that no earlier job answers


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_from_the_empty_page_to_a_finished_job(service: Service, browser: Browser, *, script: bool) -> None:
    with visiting(browser, service.url, java_script_enabled=script) as visit:
        page = visit.page
        page.goto("/")
        page.get_by_label("One convolution").check()
        page.get_by_label("Seed of random inputs").fill(f"{SEED}{int(script)}")
        page.get_by_role("button", name="Plan").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Plan of")
        expect(page.get_by_role("row", name="conv Conv on the accelerator")).to_be_visible()
        page.get_by_role("button", name="Run").click()
        expect(page.locator("#result")).to_contain_text("verified", timeout=JOB_MILLISECONDS)
        job_id = page.url.rpartition("/")[2]
        report = service.client.get(f"/v1/jobs/{job_id}/report").json()
        expect(page.locator(".figures")).to_contain_text(f"{report['cycles']:,}")
        if script:
            # a page that has seen the job's end leaves the stream of its events
            visit.forgive("/(events|plan) net::ERR_ABORTED")
            shown = page.locator('svg.bar[aria-label^="compute:"]').evaluate(
                "bar => [...bar.querySelectorAll('.busy')].map(one => one.getBoundingClientRect().width)"
                ".reduce((sum, width) => sum + width) / bar.getBoundingClientRect().width"
            )
            compute = report["units"]["compute"]
            busy = compute["busy"] - compute["stalled"].get("memory", 0)
            assert shown == pytest.approx(busy / report["cycles"], abs=0.01)
            colour = page.locator("rect.busy").first.evaluate("bar => getComputedStyle(bar).fill")
            assert colour == "rgb(0, 158, 115)"


def event(kind: str, began: datetime, **data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps(data | {'time': began.isoformat()})}\n\n"


def test_a_running_job_shows_its_stages_with_their_times_and_its_log(browser: Browser, tmp_path: Path) -> None:
    """Catches a page that lists stages without how long each took, or lets the time of one that has ended run on."""
    now = datetime.now(UTC)
    taken, first, second = (now - timedelta(seconds=seconds) for seconds in (100, 28.5, 20))
    told = "retry: 600000\n\n" + "".join(
        (
            event("state", taken, state="running", attempt=1),
            event("log", taken, line="what simulates the family gemmini is not compiled yet"),
            event("stage", first, name="quantize", step=1, total=13),
            event("stage", second, name="import", step=2, total=13),
        )
    )
    with quiet_service(tmp_path) as quiet, visiting(browser, str(quiet.client.base_url)) as visit:
        job = quiet.post(quiet.request())["id"]
        quiet.jobs.progress(job, 1, now, Stage(name="import", step=2, total=13))
        page = visit.page
        page.route("**/events", lambda route: route.fulfill(body=told, headers={"Content-Type": "text/event-stream"}))
        page.goto(f"/jobs/{job}")
        steps = page.locator("#steps li")
        expect(steps).to_have_count(3)
        assert steps.all_inner_texts()[:2] == ["start 1 min 11 s", "quantize 8.5 s"]
        expect(page.locator("#doing")).to_have_text("Stage 2 of 13: import")
        expect(page.locator("#log")).to_contain_text("gemmini is not compiled yet")
        running = steps.nth(2)
        before = running.inner_text()
        expect(running).not_to_have_text(before)
        assert float(running.inner_text().split()[1]) > float(before.split()[1]) >= 20
        visit.forgive("/events net::ERR_ABORTED")


def test_what_can_be_done_by_keyboard_alone(service: Service, browser: Browser) -> None:
    with visiting(browser, service.url) as visit:
        page = visit.page
        page.goto("/jobs")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "New job"
        page.keyboard.press("Enter")
        page.wait_for_url("/")


def tab_to(page: Page, wanted: str) -> None:
    """Presses Tab until what has the focus is as wanted: an expression in which ``one`` is the element."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate(f"(one => Boolean({wanted}))(document.activeElement)"):
            return
    raise AssertionError(f"nothing that Tab reaches is like {wanted}")


def test_a_job_is_run_and_looked_at_by_keyboard_alone(service: Service, browser: Browser) -> None:
    with visiting(browser, service.url) as visit:
        page = visit.page
        page.goto("/")
        tab_to(page, "one.name === 'model'")
        for _ in range(10):
            if page.evaluate("document.activeElement.labels[0].textContent").startswith("One convolution"):
                break
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_url("**/jobs/*")
        expect(page.locator("#result")).to_contain_text("verified", timeout=JOB_MILLISECONDS)
        tab_to(page, "one.textContent === 'Timeline'")
        page.keyboard.press("Enter")
        page.wait_for_url("**/timeline")
        canvas = page.locator("canvas[data-detail=fine]")
        expect(canvas).to_be_visible()
        before = canvas.get_attribute("data-window") or ""
        tab_to(page, "one.tagName === 'CANVAS'")
        page.keyboard.press("+")
        expect(canvas).not_to_have_attribute("data-window", before)
        visit.forgive("/(events|plan) net::ERR_ABORTED")


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of an api that needs keys, and a key."""
    data = tmp_path_factory.mktemp("locked")
    settings = Settings(data=data, redis_url="unix:///nowhere", auth="keys")
    key = ApiKeys(Store(settings.store_dir)).add("one", "one")[1]
    with listen("127.0.0.1", 0) as bound, serving_in_thread(settings, bound) as url:
        yield url, key


@pytest.fixture(scope="module")
def by_name(locked: tuple[str, str], browser: Browser) -> Iterator[Browser]:
    """A Chromium to which the api is another host: it does not say ``Sec-Fetch-Site`` to it over plain HTTP."""
    rules = "--host-resolver-rules=MAP cyclops.example 127.0.0.1"
    with browser.browser_type.launch(executable_path=PROGRAM, args=["--no-sandbox", rules]) as other:
        yield other


@pytest.mark.parametrize("host", ["127.0.0.1", "cyclops.example"])
def test_logging_in_and_out(
    locked: tuple[str, str], browser: Browser, request: pytest.FixtureRequest, host: str
) -> None:
    url, key = locked
    chosen = browser if host == "127.0.0.1" else request.getfixturevalue("by_name")
    with visiting(chosen, url.replace("127.0.0.1", host)) as visit:
        page = visit.page
        page.goto("/accelerators/vta")
        expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
        visit.assert_accessible()
        page.get_by_label("Key").fill(key)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/accelerators/vta")
        expect(page.get_by_role("heading", level=1)).to_have_text("VTA 16x16")
        [cookie] = page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["secure"]) == (True, "Lax", False)
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url("**/login")
        assert page.context.cookies() == []
