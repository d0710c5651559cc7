"""The memory plan in a browser: who lies where on the page of a job, and how full memories are on its timeline."""

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from playwright.sync_api import Browser, Page, expect

from examples.single import Conv, conv_model
from tests.helpers.chromium import Visit, visiting
from tests.helpers.marking import rest_all

pytestmark = pytest.mark.slow
WIDE = {"width": 1200, "height": 900}
HOSTILE = '<img src="/x" onerror="throw 1">&amp;'
BOXES = """picture => [...picture.querySelectorAll("rect")].map(box => {
  const { x, y, width, height } = box.getBBox();
  return { kind: box.getAttribute("class"), box: [x, y, width, height], title: box.textContent };
})"""
LEAST_HIGH, LEAST_WIDE = 1.5, 0.5
# how many pixels of a column, from a lane's bottom up, have the colour of what is in use
HEIGHTS = """([columns, top, height]) => {
  const canvas = document.querySelector("canvas");
  const pen = canvas.getContext("2d");
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = "var(--accel)";
  const wanted = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
  probe.remove();
  return columns.map(x => {
    const { data } = pen.getImageData(x, top, 1, height);
    let found = 0;
    for (let at = 0; at < data.length; at += 4) {
      found += wanted.every((part, place) => Math.abs(data[at + place] - part) < 3) ? 1 : 0;
    }
    return found;
  });
}"""


@pytest.fixture(scope="module")
def job(service: Any) -> dict:
    model = conv_model(Conv(channels=16, filters=32, height=14, width=14, kernel=(3, 3), pads=(1, 1, 1, 1)))
    for number, node in enumerate(model.graph.node):
        node.name = f"{HOSTILE}{number}"
    job = service.wait(service.submit(model.SerializeToString()))
    assert job["state"] == "succeeded", job
    return job


@pytest.fixture(scope="module")
def plan(service: Any, job: dict) -> dict:
    return service.client.get(f"/v1/jobs/{job['id']}/memory").json()


@pytest.fixture
def visit(browser: Browser, service: Any) -> Iterator[Visit]:
    with visiting(browser, service.url, viewport=WIDE) as visit:
        yield visit


def shown(page: Page, job: dict) -> None:
    """The page of a job, with the picture, which comes as somebody comes near."""
    page.goto(f"/jobs/{job['id']}")
    page.locator("#memory").scroll_into_view_if_needed()
    page.wait_for_selector("[data-island=memory][data-mounted] #memory-picture")


def test_every_buffer_is_drawn_where_the_plan_says(visit: Visit, job: dict, plan: dict) -> None:
    shown(visit.page, job)
    boxes = visit.page.locator("#memory-picture").evaluate(BOXES)
    panels = [each["box"] for each in boxes if each["kind"] == "held-none"]
    assert len(panels) == len(plan["memories"])
    cycles = plan["layers"][-1]["end_cycle"]
    expected = []
    for layer in plan["layers"]:
        for each in layer["allocations"]:
            number = next(n for n, memory in enumerate(plan["memories"]) if memory["name"] == each["memory"])
            (left, top, width, height), memory = panels[number], plan["memories"][number]
            high = max((each["end"] - each["begin"]) / memory["elements"] * height, LEAST_HIGH)
            bottom = top + height * (1 - each["begin"] / memory["elements"])
            wide = max((each["end_cycle"] - each["begin_cycle"]) / cycles * width, LEAST_WIDE)
            box = [left + each["begin_cycle"] / cycles * width, bottom - high, wide, high]
            expected.append((each["role"], box, each))
    drawn = [each for each in boxes if (each["kind"] or "").startswith("held") and each["kind"] != "held-none"]
    assert len(drawn) == len(expected) > 3
    for role, box, each in expected:
        (found,) = [
            one for one in drawn if one["kind"].endswith(f"held-{role}") and one["box"] == pytest.approx(box, abs=0.11)
        ]
        for tensor in each["tensors"]:
            assert tensor in found["title"]
        assert f"cycles {each['begin_cycle']:,} to {each['end_cycle']:,}" in found["title"]
    assert (
        len(
            {
                visit.page.locator(f"#memory-picture .held-{role}").first.evaluate("e => getComputedStyle(e).fill")
                for role in {each[0] for each in expected}
            }
        )
        > 2
    )
    assert any(
        HOSTILE in name for each in plan["layers"] for name in (each["name"], *each["allocations"][0]["tensors"])
    )
    assert visit.page.locator("main img").count() == 0


def test_a_layer_leads_to_its_part_of_the_timeline(visit: Visit, job: dict, plan: dict) -> None:
    page, layer = visit.page, plan["layers"][0]
    shown(page, job)
    page.locator("#memory-picture a rect").first.click()
    page.wait_for_selector('canvas[data-detail="fine"]')
    begin, end = map(float, page.locator("canvas").get_attribute("data-window").split())
    assert (begin, end) == (layer["begin_cycle"], layer["end_cycle"])
    shown(page, job)
    page.locator("#memory-plan summary").click()
    page.locator("#memory-plan tbody a").first.click()
    page.wait_for_url(re.compile("#layer-1$"))


def test_the_picture_can_be_saved(visit: Visit, job: dict) -> None:
    page = visit.page
    shown(page, job)
    buttons = page.locator("section:has(#memory) .figure-tools")
    with page.expect_download() as download:
        buttons.get_by_role("button", name="Save the picture as SVG").click()
    assert download.value.suggested_filename == f"{job['id'][:12]}-memory.svg"
    saved = ET.parse(download.value.path()).getroot()
    drawn = page.locator("#memory-picture rect").count()
    assert len(saved.findall(".//{http://www.w3.org/2000/svg}rect")) == drawn + 1  # and the ground
    with page.expect_download() as download:
        buttons.get_by_role("button", name="Save the picture as PNG").click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("width", "scheme"), rest_all([(390, "dark"), (1280, "light")]))
def test_everybody_can_read_it(browser: Browser, service: Any, job: dict, plan: dict, width: int, scheme: Any) -> None:
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with visiting(browser, service.url, **options) as visit:
        shown(visit.page, job)
        for path in (None, f"/jobs/{job['id']}/memory"):
            if path is not None:
                visit.page.goto(path)
            visit.page.locator("#memory-plan summary").click()
            visit.assert_accessible()
            assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    with visiting(browser, service.url, java_script_enabled=False) as visit:
        visit.page.goto(f"/jobs/{job['id']}")
        for memory in plan["memories"]:
            expect(visit.page.locator("section:has(#memory) tbody")).to_contain_text(memory["name"])
        visit.page.get_by_role("link", name="Who lies where in each memory, and when").click()
        rows = visit.page.locator("#memory-plan tbody tr")
        assert rows.count() == sum(len(layer["allocations"]) for layer in plan["layers"])
        expect(visit.page.locator("#memory-picture")).to_be_visible()


def full(plan: dict, memory: str, cycle: int) -> int:
    """The elements of a memory whose buffers are in use in a cycle."""
    return sum(
        each["end"] - each["begin"]
        for layer in plan["layers"]
        for each in layer["allocations"]
        if each["memory"] == memory and each["begin_cycle"] <= cycle < each["end_cycle"]
    )


def opened(page: Page, job: dict, begin: int, end: int) -> dict[str, tuple[int, int, int]]:
    """Shows cycles of the timeline; of each memory the top and the height of its lane, and what it says is drawn."""
    page.goto(f"/jobs/{job['id']}/timeline?begin={begin}&end={end}")
    page.wait_for_selector('canvas[data-detail="fine"]')
    said = page.locator("canvas").get_attribute("data-memories")
    parts = (lane.split(":") for lane in said.split())
    return {name: (int(top), int(height), int(most)) for name, top, height, most in parts}


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_a_memory_is_as_high_as_it_is_full(visit: Visit, job: dict, plan: dict, share: float) -> None:
    """The whole, and the cycles around the end of a first use, one by one."""
    page, last = visit.page, plan["layers"][-1]["end_cycle"]
    first = min(each["begin_cycle"] for each in plan["layers"][0]["allocations"])
    begin = 0 if share == 1.0 else max(first - 20, 0)
    end = last if share == 1.0 else begin + 300
    lanes = opened(page, job, begin, end)
    assert list(lanes) == [memory["name"] for memory in plan["memories"]]
    width = page.locator("canvas").evaluate("canvas => canvas.width")
    for memory in plan["memories"]:
        top, height, most = lanes[memory["name"]]
        assert most == max(full(plan, memory["name"], cycle) for cycle in range(begin, end))
        # where nothing changes within a column or beside it, which its bin may show too
        step = (end - begin) / width
        columns = list(range(10, width - 10, 7))
        values = []
        for x in columns:
            cycles = range(int(begin + (x - 2) * step), int(begin + (x + 3) * step) + 1)
            values.append({full(plan, memory["name"], cycle) for cycle in cycles})
        drawn = page.evaluate(HEIGHTS, [columns, top, height])
        checked = [(found, one.pop()) for found, one in zip(drawn, values, strict=True) if len(one) == 1]
        assert len(checked) > 50
        for found, elements in checked:
            high = max(elements / memory["elements"] * height, 1 if elements else 0)
            assert abs(found - high) <= 1, (memory["name"], found, high)


def test_what_a_memory_holds_is_said_under_the_pointer_and_in_a_table(visit: Visit, job: dict, plan: dict) -> None:
    page, layer = visit.page, plan["layers"][0]
    memory = next(memory for memory in plan["memories"] if memory["name"] == "acc")
    middle = (layer["begin_cycle"] + layer["end_cycle"]) // 2
    top, height, _ = opened(page, job, middle - 50, middle + 50)["acc"]
    x = 50.5 / 100 * page.locator("canvas").bounding_box()["width"]
    page.locator("canvas").hover(position={"x": x, "y": top + height / 2})
    elements = full(plan, "acc", middle)
    kib = elements * memory["element_bytes"] / 1024
    size = memory["elements"] * memory["element_bytes"] / 1024
    said = f"{kib + 1e-9:.1f} KiB of {size:.1f} KiB in use, {elements / memory['elements']:.1%}".replace("%", " %")
    expect(page.get_by_role("status")).to_have_text(f"acc, cycle {middle:,}, {layer['name']}: {said}")
    row = page.get_by_role("row", name="acc")
    peak = max(full(plan, "acc", each["begin_cycle"]) for each in layer["allocations"])
    expect(row).to_contain_text(f"{peak / memory['elements']:.1%}".replace("%", "\N{NO-BREAK SPACE}%"))
    page.locator("canvas").click(position={"x": x, "y": top + height / 2})
    page.wait_for_selector(f'canvas[data-window="{layer["begin_cycle"]} {layer["end_cycle"]}"]')
