"""Arrows of the timeline on machines that wait for addresses: who is waited for, drawn, said, and led to."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from examples.single import Conv, conv_model
from tests.conftest import keep_machine_code
from tests.e2e.service.web.test_timeline_page import COLOUR, PIXELS, WIDE, lanes, opened, place, settled
from tests.helpers.chromium import Visit, visiting
from tests.helpers.marking import rest_all

HEAD = 3  # pixels from an arrow's point to the middle of its head


@pytest.fixture(scope="module", params=rest_all(["gemmini", "output-stationary"]))
def job(service: Any, request: pytest.FixtureRequest) -> dict:
    keep_machine_code(request.param)
    layer = Conv(channels=16, filters=16, height=14, width=14, kernel=(3, 3), pads=(1, 1, 1, 1))
    job = service.wait(service.submit(conv_model(layer).SerializeToString(), accelerator=request.param))
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


def waits(records: list[dict]) -> list[tuple[dict, dict]]:
    """Every instruction that waited for addresses, and whom it waited for."""
    return [
        (record, records[wait["instruction"]])
        for record in records
        for wait in record["waited_for"]
        if "instruction" in wait
    ]


def drawn(page: Page) -> set[tuple[str, ...]]:
    return {tuple(arrow.split(":")) for arrow in page.locator("canvas").get_attribute("data-arrows").split()}


@pytest.mark.slow
def test_the_selection_has_an_arrow_from_whom_it_waits_for(
    visit: Visit, job: dict, api: Callable[[str], Any], records: list[dict]
) -> None:
    """Catches an arrow that is missing, that begins or ends at another cycle or lane, or that is not painted."""
    page, (waiting, awaited) = visit.page, waits(records)[0]
    opened(page, job, select=waiting["index"], begin=awaited["start"], end=waiting["end"] + 50)
    page.wait_for_selector(f'canvas[data-selected="{waiting["index"]}"]')
    settled(page)
    units = [track["unit"] for track in api("/timeline/tracks")["tracks"]]
    lane = {unit: str(number) for number, unit in enumerate(units)}
    expected = {
        (lane[awaited["unit"]], str(awaited["end"]), lane[waiting["unit"]], str(waiting["start"]))
        for one, awaited in waits(records)
        if one is waiting
    } | {
        (lane[waiting["unit"]], str(waiting["end"]), lane[one["unit"]], str(one["start"]))
        for one, other in waits(records)
        if other is waiting
    }
    assert drawn(page) == expected
    text = page.evaluate(COLOUR, "--text")
    said = dict(part.rsplit(":", 2)[0::2] for part in page.locator("canvas").get_attribute("data-lanes").split())
    height = int(said[waiting["unit"]])
    down = units.index(waiting["unit"]) > units.index(awaited["unit"])
    edge = lanes(page)[waiting["unit"]] + (-height // 2 - HEAD if down else height // 2 + HEAD)
    (head,) = page.evaluate(PIXELS, [[round(place(page, waiting["start"])), edge]])
    assert head == pytest.approx(text, abs=16)  # its edges are smoothed


@pytest.mark.slow
def test_the_panel_says_who_is_waited_for_and_leads_there_and_back(
    visit: Visit, job: dict, records: list[dict]
) -> None:
    page, (waiting, awaited) = visit.page, waits(records)[-1]
    opened(page, job, select=waiting["index"])
    panel = page.get_by_role("region", name="Selected instruction")
    name = f"instruction {awaited['index']} ({awaited['op']})"
    link = panel.get_by_role("link", name=name, exact=True)
    line = panel.get_by_role("listitem").filter(has=page.get_by_role("link", name=name, exact=True))
    expect(line.first).to_contain_text(f"for its addresses: it ended at cycle {awaited['end']:,}")
    expect(link.first).to_have_attribute("href", re.compile(rf"/jobs/{job['id']}/timeline\?select={awaited['index']}$"))
    link.first.click()
    page.wait_for_selector(f'canvas[data-selected="{awaited["index"]}"]')
    back = panel.get_by_role("link", name=f"instruction {waiting['index']} ({waiting['op']})", exact=True)
    back.first.click()
    page.wait_for_selector(f'canvas[data-selected="{waiting["index"]}"]')
    page.wait_for_url(re.compile(rf"select={waiting['index']}"))


def test_the_api_and_perfetto_say_the_same(
    service: Any, job: dict, api: Callable[[str], Any], records: list[dict]
) -> None:
    pairs = {(awaited["index"], waiting["index"]) for waiting, awaited in waits(records)}
    assert pairs
    waiting, awaited = waits(records)[0]
    said = [
        each for each in api(f"/timeline/instructions/{waiting['index']}")["dependences"] if each["role"] == "waits_for"
    ]
    assert (awaited["index"], awaited["op"], awaited["end"]) in [(d["instruction"], d["op"], d["end"]) for d in said]
    events = api("/trace?format=perfetto")["traceEvents"]
    ends: dict[int, dict[str, int]] = {}
    last: dict[int, int] = {}
    for event in events:
        if event.get("cat") == "instruction":
            last[event["tid"]] = event["args"]["index"]
        elif event.get("cat") == "address":
            ends.setdefault(event["id"], {})[event["ph"]] = last[event["tid"]]
    assert {(end["s"], end["f"]) for end in ends.values()} == pairs
