"""The graph in the report as one file, opened from the disk: what Chromium has drawn is what the API says."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.service.web.test_graph_page import network
from tests.helpers.chromium import visiting
from tests.helpers.marking import rest_slow

BOXES = """() => [...document.querySelectorAll(".graph-box")].map(box => {
  const place = part => {
    const { left, right, top, bottom } = part.getBoundingClientRect();
    return { left, right, top, bottom };
  };
  return {
    rect: place(box.querySelector("rect")),
    texts: [...box.querySelectorAll("text")].map(place),
    words: [...box.querySelectorAll("text")].map(text => text.textContent),
    fill: getComputedStyle(box.querySelector("rect")).fill,
    href: box.parentElement.getAttribute("href"),
  };
})"""
STEPS = (4, 10, 16, 23, 30, 37, 45, 52, 60)  # percent of the colour of the accelerator, by cycles
SHADES = """steps => {
  const probe = document.body.appendChild(document.createElement("i"));
  return steps.map(share => {
    probe.style.color = `color-mix(in srgb, var(${share[0]}) ${share[1]}%, var(--card))`;
    return getComputedStyle(probe).color;
  });
}"""


@pytest.fixture(scope="module")
def job(service: Any) -> dict[str, Any]:
    job: dict[str, Any] = service.wait(service.submit(network()))
    assert job["state"] == "succeeded", job
    return job


@pytest.fixture(scope="module")
def graph(service: Any, job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = service.client.get(f"/v1/jobs/{job['id']}/graph").json()
    assert {"launch", "host"} <= {box["kind"] for box in found["boxes"]}
    return found


@pytest.fixture(scope="module")
def file(service: Any, job: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_bytes(service.client.get(f"/v1/jobs/{job['id']}/report.html").content)
    return path


def shade(page: Page, colour: str, percent: int) -> str:
    (found,) = page.evaluate(SHADES, [[colour, percent]])
    return str(found)


@pytest.mark.parametrize("scheme", rest_slow(["light", "dark"]))
@pytest.mark.parametrize("script", rest_slow([True, False]))
def test_boxes_are_drawn_apart_with_their_words_in_them(
    browser: Browser, file: Path, graph: dict[str, Any], scheme: Any, script: bool
) -> None:
    """Catches a box without its text, with text beyond its edge, of another colour, or that leads to no row."""
    options = {"viewport": {"width": 1200, "height": 900}, "color_scheme": scheme, "java_script_enabled": script}
    with visiting(browser, file.parent.as_uri(), **options) as visit:
        page = visit.page
        page.goto(file.as_uri())
        assert page.locator("img").count() == 0
        drawn = page.evaluate(BOXES)
        most = max(box["cost"]["cycles"] for box in graph["boxes"] if box["cost"])
        assert len(drawn) == len(graph["boxes"])
        for each, box in zip(drawn, graph["boxes"], strict=True):
            rect = each["rect"]
            for text in each["texts"]:
                assert rect["left"] < text["left"] <= text["right"] < rect["right"], each["words"]
                assert rect["top"] <= text["top"] <= text["bottom"] <= rect["bottom"], each["words"]
            assert each["words"][1].startswith(box["op"] or box["kind"])
            if box["kind"] == "launch":
                assert f"{box['cost']['cycles']:,} cycles" in each["words"][1]
                assert each["href"] == f"#layer-{box['launches'][0]}"
                assert page.locator(each["href"]).count() == 1
                assert each["fill"] == shade(page, "--accel", STEPS[round(8 * box["cost"]["cycles"] / most)])
            elif box["kind"] == "host":
                assert each["fill"] == shade(page, "--host", 28)
        tops = [each["rect"]["top"] for each in drawn]
        assert all(tops[edge["source"]] < tops[edge["target"]] for edge in graph["edges"])
        assert page.locator(".graph-edge").count() == page.locator(".graph-head").count() == len(graph["edges"])


def test_a_box_leads_to_its_layer_and_colours_change_without_a_script(browser: Browser, file: Path) -> None:
    with visiting(browser, file.parent.as_uri(), java_script_enabled=False) as visit:
        page = visit.page
        page.goto(file.as_uri())
        page.get_by_label("by where it runs").check()
        assert page.locator(".legend .graph-scale").first.is_hidden()
        assert page.locator(".legend .graph-place").first.is_visible()
        page.locator(".graph-picture a").first.click()
        assert re.search(r"#layer-1$", page.url)
