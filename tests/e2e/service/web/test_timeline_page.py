"""The timeline in a browser: the picture shows what the API says, and does what hands, keys and links ask for."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from examples.single import Conv, conv_model
from tests.helpers.chromium import Visit, visiting
from tests.helpers.marking import rest_all
from tests.reference.timeline import painted

WIDE = {"width": 1200, "height": 900}
COLOURS = {"busy": "--busy", "memory": "--wait-memory", "token": "--wait-token", "fetch": "--wait-fetch"}
HOSTILE = '<img src="/x" onerror="throw 1">&amp;'
# what a custom property of the style sheet is as the bytes of a pixel
COLOUR = """name => {
  const pen = document.createElement("canvas").getContext("2d");
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = `var(${name})`;
  pen.fillStyle = getComputedStyle(probe).color;
  probe.remove();
  pen.fillRect(0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data];
}"""
TWO_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
PIXELS = """places => {
  const pen = document.querySelector("canvas").getContext("2d");
  return places.map(([x, y]) => [...pen.getImageData(x, y, 1, 1).data]);
}"""


@pytest.fixture(scope="module")
def job(service: Any) -> dict:
    layer = Conv(channels=16, filters=16, height=14, width=14, kernel=(3, 3), pads=(1, 1, 1, 1))
    model = conv_model(layer)
    for number, node in enumerate(model.graph.node):
        node.name = f"{HOSTILE}{number}"
    job = service.wait(service.submit(model.SerializeToString()))
    assert job["state"] == "succeeded", job
    return job


@pytest.fixture(scope="module")
def api(service: Any, job: dict) -> Callable[[str], Any]:
    return lambda part: service.client.get(f"/v1/jobs/{job['id']}{part}").json()


@pytest.fixture(scope="module")
def records(api: Callable[[str], Any]) -> list[dict]:
    return api("/trace?limit=1000")["items"]


@pytest.fixture
def visit(browser: Browser, service: Any) -> Iterator[Visit]:
    with visiting(browser, service.url, viewport=WIDE) as visit:
        yield visit


def opened(page: Page, job: dict, **query: int) -> None:
    page.goto(f"/jobs/{job['id']}/timeline?" + "&".join(f"{name}={value}" for name, value in query.items()))
    settled(page)


def settled(page: Page) -> None:
    """The picture is as fine as it gets; two frames later it shows what has been asked for."""
    page.evaluate(TWO_FRAMES)
    page.wait_for_selector('canvas[data-detail="fine"]')


def window_of(page: Page) -> tuple[float, float]:
    begin, end = page.locator("canvas").get_attribute("data-window").split()
    return float(begin), float(end)


def lanes(page: Page) -> dict[str, int]:
    """The middle of each unit's lane."""
    said = page.locator("canvas").get_attribute("data-lanes")
    parts = (lane.split(":") for lane in said.split())
    return {unit: int(top) + int(height) // 2 for unit, top, height in parts}


def place(page: Page, cycle: float) -> float:
    begin, end = window_of(page)
    return (cycle - begin) / (end - begin) * page.locator("canvas").bounding_box()["width"]


def click(page: Page, cycle: float, y: float, **options: Any) -> None:
    page.locator("canvas").click(position={"x": place(page, cycle), "y": y}, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "scale"), rest_all([("light", 1), ("dark", 2)]))
def test_every_pixel_of_a_lane_has_the_colour_of_what_its_unit_does(
    browser: Browser, service: Any, job: dict, api: Callable[[str], Any], records: list[dict], scheme: str, scale: int
) -> None:
    tracks = api("/timeline/tracks")
    kinds = {category["name"]: category["kind"] for category in tracks["categories"]}
    begin, end = 0, 300
    options = {"viewport": WIDE, "color_scheme": scheme, "device_scale_factor": scale}
    with visiting(browser, service.url, **options) as visit:
        opened(visit.page, job, begin=begin, end=end)
        colours = {kind: visit.page.evaluate(COLOUR, name) for kind, name in [*COLOURS.items(), ("idle", "--idle")]}
        assert len({tuple(colour) for colour in colours.values()}) == len(colours)
        seen, width = set(), visit.page.locator("canvas").bounding_box()["width"]
        # below the names, in the middle of the cycle, right of the line that sets slices apart
        columns = [round((cycle + 0.6 - begin) / (end - begin) * width * scale) for cycle in range(begin, end)]
        for unit, y in lanes(visit.page).items():
            cycles = painted(
                records, unit, tuple(kinds)[1:], tracks["cycles"], [each["begin"] for each in tracks["launches"]]
            )
            places = [[column, (y + 12) * scale] for column in columns]
            said = [kinds.get(category, "idle") for category, _ in cycles[begin:end]]
            assert visit.page.evaluate(PIXELS, places) == [colours[kind] for kind in said], unit
            seen.update(said)
        assert len(seen) > 2


@pytest.mark.slow
def test_a_coarse_lane_is_as_high_as_its_unit_is_busy(visit: Visit, job: dict, api: Callable[[str], Any]) -> None:
    """The whole job: the area of a category is its cycles."""
    opened(visit.page, job)
    busy = visit.page.evaluate(COLOUR, "--busy")
    tracks = api("/timeline/tracks")
    for track in tracks["tracks"]:
        middle = lanes(visit.page)[track["unit"]]
        share = visit.page.evaluate(
            """([top, height, wanted]) => {
              const canvas = document.querySelector("canvas");
              const { data } = canvas.getContext("2d").getImageData(0, top, canvas.width, height);
              let found = 0;
              for (let at = 0; at < data.length; at += 4) {
                found += wanted.every((part, place) => data[at + place] === part) ? 1 : 0;
              }
              return found / (canvas.width * height);
            }""",
            [middle + 9, 6, busy],
        )
        assert share == pytest.approx(track["cycles"]["busy"] / tracks["cycles"], abs=0.03), track["unit"]


def test_a_click_selects_and_the_link_shows_the_same(
    visit: Visit, browser: Browser, service: Any, job: dict, records: list[dict]
) -> None:
    page = visit.page
    opened(page, job, begin=500, end=900)
    gemm = next(r for r in records if r["op"] == "gemm" and r["start"] > 500)
    click(page, (gemm["start"] + gemm["end"]) / 2, lanes(page)["compute"])
    panel = page.get_by_role("region", name="Selected instruction")
    expect(panel).to_contain_text(f"gemm on compute, instruction {gemm['index']}")
    for wait in gemm["waited_for"]:
        expect(panel).to_contain_text(f"for {wait['on']}")
    expect(panel).to_contain_text(gemm["does"])
    assert any(name.startswith(HOSTILE) for name in gemm["origin"]["nodes"])
    expect(panel).to_contain_text(", ".join(gemm["origin"]["nodes"]))
    assert page.locator("main img").count() == 0
    expect(panel).to_contain_text(f"{next(iter(gemm['fields']))}=")
    expect(panel.get_by_role("link", name="its record as JSON")).to_have_attribute(
        "href", re.compile(rf"/v1/jobs/{job['id']}/trace\?cursor={gemm['index']}&limit=1$")
    )
    page.wait_for_url(re.compile(rf"select={gemm['index']}"))
    with visiting(browser, service.url, viewport=WIDE) as other:
        other.page.goto(page.url)
        other.page.wait_for_selector(f'canvas[data-selected="{gemm["index"]}"][data-detail="fine"]')
        assert window_of(other.page) == window_of(page)
        shots = [each.evaluate("document.querySelector('canvas').toDataURL()") for each in (page, other.page)]
        page.mouse.move(0, 0)  # the pointer's line is of this reader alone
        settled(page)
        shots[0] = page.evaluate("document.querySelector('canvas').toDataURL()")
        assert shots[0] == shots[1]


@pytest.mark.slow
def test_a_token_leads_to_who_sent_it_and_back(visit: Visit, job: dict, api: Callable[[str], Any]) -> None:
    page = visit.page
    waiting = next(
        index
        for index in range(100)
        if any(d["instruction"] for d in api(f"/timeline/instructions/{index}")["dependences"])
    )
    token = next(d for d in api(f"/timeline/instructions/{waiting}")["dependences"] if d["instruction"])
    opened(page, job, select=waiting)
    page.get_by_role("link", name=f"instruction {token['instruction']} ({token['op']})", exact=True).first.click()
    page.wait_for_selector(f'canvas[data-selected="{token["instruction"]}"]')
    begin, end = window_of(page)
    assert begin <= token["start"] <= token["end"] <= end


@pytest.mark.slow
def test_wheel_drag_and_keys_move_the_view(visit: Visit, job: dict, api: Callable[[str], Any]) -> None:
    page, last = visit.page, api("/timeline/tracks")["cycles"]
    opened(page, job)
    assert window_of(page) == (0, last)
    canvas = page.locator("canvas")
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 60)
    page.mouse.wheel(0, -400)
    settled(page)
    begin, end = window_of(page)
    assert end - begin < last / 1.5
    assert begin + (end - begin) / 4 == pytest.approx(last / 4, abs=2)  # what is under the pointer stays there
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 4 - 100, box["y"] + 60)
    page.mouse.up()
    settled(page)
    moved, _ = window_of(page)
    assert moved - begin == pytest.approx(100 / box["width"] * (end - begin), abs=2)
    assert canvas.get_attribute("data-selected") == ""  # a drag is no click
    canvas.focus()
    for key, expected in (
        ("+", lambda old: ((3 * old[0] + old[1]) / 4, (old[0] + 3 * old[1]) / 4)),
        ("ArrowRight", lambda old: (old[0] + (old[1] - old[0]) / 8, old[1] + (old[1] - old[0]) / 8)),
        ("ArrowLeft", lambda old: (old[0] - (old[1] - old[0]) / 8, old[1] - (old[1] - old[0]) / 8)),
        ("-", lambda old: ((3 * old[0] - old[1]) / 2, (3 * old[1] - old[0]) / 2)),
        ("End", lambda old: (last - (old[1] - old[0]), last)),
        ("Home", lambda _: (0, last)),
    ):
        before = window_of(page)
        page.keyboard.press(key)
        settled(page)
        assert window_of(page) == pytest.approx(expected(before), abs=2), key


@pytest.mark.slow
def test_two_markers_measure(visit: Visit, job: dict) -> None:
    page = visit.page
    opened(page, job, begin=500, end=900)
    y = lanes(page)["load"]
    for cycle in (520, 760):
        click(page, cycle + 0.2, y, modifiers=["Shift"])
    expect(page.locator(".timeline-measure")).to_have_text("m 520 to n 760: 240 cycles, 2.4 µs")
    page.wait_for_url(re.compile(r"m=520&n=760"))
    page.locator("canvas").focus()
    page.keyboard.press("Escape")
    expect(page.locator(".timeline-measure")).to_have_text("")


@pytest.mark.slow
def test_search_by_operation_layer_and_number(visit: Visit, job: dict, records: list[dict]) -> None:
    page = visit.page
    opened(page, job)
    field = page.get_by_role("searchbox")
    loads = [record["index"] for record in records if record["op"] == "load_wgt"]
    field.fill("LOAD_WGT")
    for index in loads[:2]:
        field.press("Enter")
        page.wait_for_selector(f'canvas[data-selected="{index}"]')
    begin, end = window_of(page)
    assert begin <= records[loads[1]]["start"] < end
    field.fill("7")
    page.get_by_role("button", name="Next", exact=True).first.click()
    page.wait_for_selector('canvas[data-selected="7"]')
    field.fill("<b>nothing")
    field.press("Enter")
    expect(page.get_by_role("status")).to_have_text("No operation, layer or node has “<b>nothing” in its name.")


@pytest.mark.slow
def test_what_is_under_the_pointer_is_said(visit: Visit, job: dict, records: list[dict]) -> None:
    page = visit.page
    gemm = next(r for r in records if r["op"] == "gemm" and r["end"] - r["start"] > 20)
    opened(page, job, begin=gemm["start"] - 100, end=gemm["end"] + 100)
    middle = (gemm["start"] + gemm["end"]) / 2
    page.locator("canvas").hover(position={"x": place(page, middle), "y": lanes(page)["compute"]})
    length = gemm["end"] - gemm["start"]
    said = f"compute, cycle {int(middle):,}, {gemm['launch']}: gemm {gemm['index']}, {length} cycles, {length * 10} ns"
    expect(page.get_by_role("status")).to_have_text(said)


@pytest.mark.slow
def test_by_keyboard_alone(visit: Visit, job: dict, records: list[dict]) -> None:
    page = visit.page
    opened(page, job)
    page.locator("canvas").focus()
    page.keyboard.press("]")
    page.wait_for_selector('canvas[data-selected="0"]')
    page.keyboard.press("]")
    following = next(r["index"] for r in records[1:] if r["unit"] == records[0]["unit"])
    page.wait_for_selector(f'canvas[data-selected="{following}"]')
    page.keyboard.press("m")
    page.keyboard.press("n")
    expect(page.locator(".timeline-measure")).to_contain_text(f"to n {records[following]['end']:,}")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "viewport"), rest_all([("light", {"width": 360, "height": 740}), ("dark", WIDE)]), ids=["phone", "dark"]
)
def test_everybody_can_use_it(browser: Browser, service: Any, job: dict, scheme: str, viewport: dict[str, int]) -> None:
    with visiting(browser, service.url, viewport=viewport, color_scheme=scheme) as visit:
        opened(visit.page, job, select=3)
        visit.page.wait_for_selector('canvas[data-selected="3"]')
        visit.assert_accessible()
        assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
def test_the_policy_is_strict_and_the_table_needs_no_script(
    browser: Browser, service: Any, job: dict, api: Callable[[str], Any]
) -> None:
    with visiting(browser, service.url, java_script_enabled=False) as visit:
        response = visit.page.goto(f"/jobs/{job['id']}/timeline")
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        for track in api("/timeline/tracks")["tracks"]:
            expect(visit.page.get_by_role("columnheader", name=track["unit"])).to_be_visible()
            expect(visit.page.get_by_role("table").first).to_contain_text(f"{track['cycles']['busy']:,}")


@pytest.mark.slow
def test_two_fingers_zoom(browser: Browser, service: Any, job: dict) -> None:
    with visiting(browser, service.url, viewport={"width": 390, "height": 800}, has_touch=True) as visit:
        page = visit.page
        opened(page, job)
        begin, end = window_of(page)
        box = page.locator("canvas").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + 60
        session = page.context.new_cdp_session(page)
        for kind, apart in (("touchStart", 40), ("touchMove", 60), ("touchMove", 80), ("touchEnd", None)):
            fingers = [] if apart is None else [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})
        settled(page)
        zoomed = window_of(page)
        assert zoomed[1] - zoomed[0] == pytest.approx((end - begin) / 2, rel=0.05)
        assert sum(zoomed) == pytest.approx(begin + end, rel=0.05)
        assert page.locator("canvas").get_attribute("data-selected") == ""


@pytest.mark.slow
def test_a_share_link_opens_the_picture_too(visit: Visit, job: dict) -> None:
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url))
    opened(visit.page, job, share=123)
    assert window_of(visit.page)[0] == 0
    assert all("share=123" in url for url in asked if "/v1/" in url)
    assert any("/v1/" in url for url in asked)


@pytest.mark.slow
def test_a_jobs_page_leads_to_its_timeline(visit: Visit, job: dict) -> None:
    visit.page.goto(f"/jobs/{job['id']}")
    visit.page.get_by_role("link", name="Timeline", exact=True).click()
    visit.page.wait_for_selector('canvas[data-detail="fine"]')


@pytest.mark.slow
def test_a_window_that_is_refused_for_now_is_asked_for_again(visit: Visit, job: dict) -> None:
    answers = iter([429])

    def refuse(route: Route) -> None:
        status = next(answers, None)
        if status is None:
            route.continue_()
        else:
            route.fulfill(status=status, content_type="application/problem+json", body='{"detail": "too many"}')

    visit.page.route(re.compile(r"/timeline\?begin=0"), refuse)
    visit.page.goto(f"/jobs/{job['id']}/timeline")
    expect(visit.page.get_by_role("status")).to_have_text("The timeline cannot be loaded: too many")
    visit.page.wait_for_selector('canvas[data-detail="fine"]')
    expect(visit.page.get_by_role("status")).to_have_text("")
    visit.faults = [fault for fault in visit.faults if "429" not in fault]


@pytest.mark.slow
def test_a_job_that_is_gone_meanwhile_is_not_asked_for_again(visit: Visit, job: dict) -> None:
    asked = []

    def gone(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=404, content_type="application/problem+json", body='{"detail": "there is no job"}')

    opened(visit.page, job)
    visit.page.route(re.compile(r"/timeline\?begin="), gone)
    visit.page.locator("canvas").focus()
    visit.page.keyboard.press("+")
    expect(visit.page.get_by_role("status")).to_have_text("The timeline cannot be loaded: there is no job")
    visit.page.keyboard.press("+")
    visit.page.evaluate(TWO_FRAMES)
    assert len(asked) == 1
    visit.faults = [fault for fault in visit.faults if "404" not in fault]
