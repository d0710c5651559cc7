"""Two jobs on one page: it shows what ``/v1/compare`` says, and both timelines from where a layer begins."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from examples.single import Conv, conv_model
from tests.conftest import Service
from tests.helpers.chromium import visiting
from tests.helpers.marking import rest_slow

HOSTILE = '<img src="/x" onerror="throw 1">&amp;'
SPAN = "canvas => canvas.dataset.window.split(' ').map(Number)"


@pytest.fixture(scope="module")
def jobs(service: Any) -> tuple[str, str]:
    """The same model on ``vta``, and with a slower bus and less memory for data."""
    model = conv_model(Conv(channels=16, filters=32, height=28, width=28, kernel=(3, 3), pads=(1, 1, 1, 1)))
    for number, node in enumerate(model.graph.node):
        node.name = f"{HOSTILE}{number}"
    document = service.client.get("/v1/accelerators/vta").json()
    document["dram"]["read_latency"] += 50
    document["name"], document["title"] = "slower", HOSTILE
    next(memory for memory in document["memories"] if memory["name"] == "inp")["depth"] //= 16
    slower = service.client.post("/v1/accelerators", content=json.dumps(document)).json()["id"]
    uploaded = service.client.post("/v1/models", content=model.SerializeToString()).json()["id"]
    asked = ({"model": uploaded, "accelerator": each, "fresh": True} for each in ("vta", slower))
    ended = [service.wait(service.client.post("/v1/jobs", json=job).headers["Location"]) for job in asked]
    assert [job["state"] for job in ended] == ["succeeded"] * 2, ended
    return ended[0]["id"], ended[1]["id"]


@pytest.fixture(scope="module")
def found(service: Service, jobs: tuple[str, str]) -> dict[str, Any]:
    answer: dict[str, Any] = service.client.get("/v1/compare", params={"a": jobs[0], "b": jobs[1]}).json()
    return answer


@pytest.mark.slow
def test_figures_and_bars_are_those_of_the_api(
    service: Service, browser: Browser, jobs: tuple[str, str], found: dict[str, Any]
) -> None:
    with visiting(browser, service.url) as visit:
        page = visit.page
        page.goto(f"/compare?a={jobs[0]}")
        page.get_by_label("After, b").select_option(jobs[1])
        page.get_by_role("button", name="Compare").click()
        expect(page.locator("#result")).to_contain_text(f"{abs(found['difference']):,} cycles more than a")
        for field in found["document"]:
            row = page.get_by_role("row", name=field["field"])
            expect(row).to_contain_text(str(field["after"])[:60])
        for layer in found["layers"]:
            row = page.get_by_role("row").filter(has=page.get_by_role("link", name=layer["name"], exact=True))
            expect(row).to_contain_text(f"{layer['a']['cycles']:,}")
            expect(row).to_contain_text(f"{layer['b']['cycles']:,}")
            lengths = row.locator("svg").evaluate_all(
                "bars => bars.map(bar => [...bar.querySelectorAll('rect')]"
                ".reduce((sum, part) => sum + part.getBoundingClientRect().width, 0))"
            )
            ratio = layer["a"]["cycles"] / layer["b"]["cycles"]
            assert lengths[0] / lengths[1] == pytest.approx(ratio, rel=0.02)
        visit.assert_accessible()


@pytest.mark.slow
def test_jobs_of_different_work_are_told_apart(service: Service, jobs: tuple[str, str]) -> None:
    """Catches a page that calls one model faster than another, and says nothing."""
    other = service.wait(service.submit(conv_model(Conv(16, 16, 6, 6), seed=19).SerializeToString()))["id"]

    def page(a: str, b: str) -> str:
        answer = service.client.get("/compare", params={"a": a, "b": b}, headers={"Accept": "text/html"})
        assert answer.status_code == 200
        return str(answer.text)

    said, same = "They ran different models", "a and b are the same job."
    assert said in page(jobs[0], other)
    assert said not in page(*jobs)
    assert same not in page(*jobs)
    assert same in page(other, other)


@pytest.mark.slow
def test_both_timelines_begin_with_the_layer_and_move_together(
    service: Service, browser: Browser, jobs: tuple[str, str], found: dict[str, Any]
) -> None:
    begins = []
    for job, side in zip(jobs, ("a", "b"), strict=True):
        launches = service.client.get(f"/v1/jobs/{job}/timeline/tracks").json()["launches"]
        begins.append(next(each["begin"] for each in launches if each["name"] in found["layers"][0][side]["names"]))
    with visiting(browser, service.url, viewport={"width": 1200, "height": 900}) as visit:
        page = visit.page
        page.goto(f"/compare?a={jobs[0]}&b={jobs[1]}")
        page.get_by_role("link", name=found["layers"][0]["name"], exact=True).click()
        pictures = page.locator("canvas")
        page.locator("[data-island]").last.scroll_into_view_if_needed()
        expect(pictures).to_have_count(2)
        expect(pictures.first).to_have_attribute("data-window", re.compile(r"\d"))
        expect(pictures.last).to_have_attribute("data-window", re.compile(r"\d"))
        before = [pictures.nth(number).evaluate(SPAN) for number in (0, 1)]
        assert [begin for begin, _ in before] == begins
        address = page.url
        page.get_by_role("button", name="Zoom in").first.click()
        page.wait_for_function(
            "before => [...document.querySelectorAll('canvas')]"
            ".every((one, at) => Number(one.dataset.window.split(' ')[0]) > before[at][0])",
            arg=before,
        )
        after = [pictures.nth(number).evaluate(SPAN) for number in (0, 1)]
        moved = [(now[0] - begin, now[1] - now[0]) for now, begin in zip(after, begins, strict=True)]
        assert moved[0] == pytest.approx(moved[1])
        assert page.url == address


@pytest.mark.parametrize("script", rest_slow([False, True]))
def test_texts_of_a_layer_stand_side_by_side_at_any_width(
    service: Service, browser: Browser, jobs: tuple[str, str], found: dict[str, Any], *, script: bool
) -> None:
    options = {"viewport": {"width": 390, "height": 800}, "java_script_enabled": script, "color_scheme": "dark"}
    with visiting(browser, service.url, **options) as visit:
        page = visit.page
        page.goto(f"/compare?a={jobs[0]}&b={jobs[1]}")
        page.get_by_role("link", name=found["layers"][0]["name"], exact=True).click()
        page.get_by_role("link", name="schedule", exact=True).click()
        expect(page.locator("td.old").first).to_be_attached()
        expect(page.locator("td.new").first).to_be_attached()
        if script:
            beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert beyond == 0
            visit.assert_accessible()
        # a page that is left drops the windows of its timelines that are on their way
        visit.faults[:] = [one for one in visit.faults if "/timeline" not in one or "net::ERR_ABORTED" not in one]


def test_what_cannot_be_compared_is_said(service: Service, jobs: tuple[str, str]) -> None:
    browser = {"Accept": "text/html"}
    same = service.client.get(f"/compare?a={jobs[0]}&b={jobs[0]}", headers=browser)
    assert "b takes as many cycles as a" in same.text
    for query, status in (
        (f"a={jobs[0]}&b={'0' * 32}", 404),
        (f"a={jobs[0]}&b={jobs[1]}&layer=nothing", 404),
        ("a=nothing", 422),
        (f"a={jobs[0]}&b={jobs[1]}&stage=nothing", 422),
    ):
        assert service.client.get(f"/compare?{query}", headers=browser).status_code == status, query
