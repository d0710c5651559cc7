"""Many runs of a model: the API says what their reports say, and the page draws what the API says."""

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from accel.catalog.load_accelerator import load_accelerator
from examples.single import Conv, conv_model
from tests.conftest import Service
from tests.helpers.chromium import visiting
from tests.helpers.idle_service import quiet_service

TAG = "drawn-together"  # no other test's jobs have it
HOSTILE = '{b|x}<img src="/x" onerror="throw 1">&amp;'
LABELS = {"vta": HOSTILE, "vta-8": "=1+1", "vta-32": "large", "vta-small": "small"}
CHART = f"/jobs/chart?tag={TAG}"
# places of the points, which ECharts draws as paths of unit size, with what colours say of each
DRAWN = """[...document.querySelectorAll("#pareto svg path[transform^='matrix(6']")].map((path) => {
  const [x, y] = path.getAttribute("transform").split(",").slice(-2).map(parseFloat);
  const number = (name) => Number(path.getAttribute(name));
  return { x, y, marked: number("stroke-width") > 0.3, faint: number("fill-opacity") < 0.5 };
})"""


@pytest.fixture(scope="module")
def found(service: Service) -> dict[str, Any]:
    """What the API says of four runs, each on another accelerator."""
    model = conv_model(Conv(channels=32, filters=32, height=8, width=8)).SerializeToString()
    uploaded = service.client.post("/v1/models", content=model).json()["id"]
    for accelerator, label in LABELS.items():
        asked = {"model": uploaded, "accelerator": accelerator, "label": label, "tags": [TAG], "fresh": True}
        ended = service.wait(service.client.post("/v1/jobs", json=asked).headers["Location"])
        assert ended["state"] == "succeeded", ended
    answer: dict[str, Any] = service.client.get("/v1/figures", params={"tag": TAG}).json()
    return answer


def test_figures_are_those_of_each_report(service: Service, found: dict[str, Any]) -> None:
    assert [run["label"] for run in found["runs"]] == list(reversed(LABELS.values()))
    assert found["left_out"] == []
    for run in found["runs"]:
        report = service.client.get(f"/v1/jobs/{run['job']}/report").json()
        memories = load_accelerator(report["accelerator"]).memories
        moved = sum(layer["bytes_read"] + layer["bytes_written"] for layer in report["layers"])
        peak = report["machine"]["peak_macs_per_cycle"]
        assert run["figures"]["cycles"] == report["cycles"]
        assert run["figures"]["seconds"] == report["seconds"]
        assert run["figures"]["dram_bytes"] == moved
        assert run["figures"]["on_chip_bytes"] == sum(each.depth * each.element_bytes for each in memories)
        assert run["figures"]["utilisation"] == report["macs"]["accelerator"] / (report["cycles"] * peak)
        assert run["parameters"]["peak_macs_per_cycle"] == peak
    table = list(csv.DictReader(io.StringIO(service.client.get(f"/v1/figures.csv?tag={TAG}").text)))
    assert [int(row["cycles [cycles]"]) for row in table] == [run["figures"]["cycles"] for run in found["runs"]]
    assert {row["label"] for row in table} >= {"'=1+1", HOSTILE}  # a spreadsheet computes none of it


def test_jobs_that_are_left_out_are_counted_and_those_of_others_are_not_seen(tmp_path: Path) -> None:
    with quiet_service(tmp_path, auth="keys") as quiet:
        unfinished, canceled, unreadable = (quiet.post(quiet.request(seed=seed))["id"] for seed in range(3))
        quiet.client.post(f"/v1/jobs/{canceled}/cancel")
        (tmp_path / "out").mkdir()
        quiet.succeed(unreadable, tmp_path / "out")
        answer = quiet.client.get("/v1/figures").json()
        assert answer["models"] == [{"id": quiet.model, "label": None, "runs": 1}]
        assert answer["runs"] == []
        reasons = {each["reason"]: each["jobs"] for each in answer["left_out"]}
        assert reasons == {"unfinished": 1, "failed": 1, "unreadable": 1}
        others = quiet.client.get("/v1/figures?verified=null").json()["left_out"]
        assert {"reason": "result", "jobs": 1} in others
        assert quiet.client.get("/v1/figures", headers={"Authorization": "Bearer nobody"}).status_code == 401
        page = quiet.client.get("/jobs/chart", headers={"Accept": "text/html"}).text
        assert "1 not finished" in page
        assert unfinished not in page


def front_of(points: Mapping[str, tuple[float, float]]) -> set[str]:
    """By all pairs: less is better in both."""
    return {
        name
        for name, (x, y) in points.items()
        if not any(a <= x and b <= y and (a, b) != (x, y) for a, b in points.values())
    }


def opened(page: Page, address: str) -> list[dict[str, Any]]:
    page.goto(address)
    page.wait_for_selector("[data-island=chart][data-mounted]")
    drawn: list[dict[str, Any]] = page.evaluate(DRAWN)
    return drawn


@pytest.mark.slow
def test_what_is_drawn_is_what_the_api_says(service: Service, browser: Browser, found: dict[str, Any]) -> None:
    runs = found["runs"]
    with visiting(browser, service.url, viewport={"width": 1280, "height": 900}) as visit:
        page = visit.page
        drawn = opened(page, f"{CHART}&x=on_chip_bytes&y=cycles")
        assert len(drawn) == len(runs)
        for axis, name in (("x", "on_chip_bytes"), ("y", "cycles")):
            values = np.array([run["figures"][name] for run in runs], float)
            scaled = np.log10(values) if values.max() > 20 * values.min() else values
            places = np.array([each[axis] for each in drawn])
            slope, offset = np.polyfit(scaled, places, 1)
            np.testing.assert_allclose(slope * scaled + offset, places, atol=0.1)
            assert (slope > 0) == (axis == "x")
        points = {run["job"]: (run["figures"]["on_chip_bytes"], run["figures"]["cycles"]) for run in runs}
        front = front_of(points)
        assert {run["job"] for run, each in zip(runs, drawn, strict=True) if each["marked"]} == front
        marked = page.locator("#runs tr", has=page.locator("[data-front] .badge"))
        assert {row.get_attribute("data-job") for row in marked.all()} == front

        page.get_by_label("Pareto: across").select_option("dram_bytes")
        points = {run["job"]: (run["figures"]["dram_bytes"], run["figures"]["cycles"]) for run in runs}
        assert {row.get_attribute("data-job") for row in marked.all()} == front_of(points)
        assert parse_qs(urlsplit(page.url).query)["x"] == ["dram_bytes"]
        assert page.locator("#parallel svg path[stroke^=rgb]").count() >= len(runs)

        page.locator("#pareto .chart-host").focus()
        by_x = sorted(runs, key=lambda run: points[run["job"]][0])
        page.keyboard.press("ArrowRight")
        expect(page.locator("#pareto [role=status]")).to_contain_text(by_x[0]["label"])
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/jobs/{by_x[0]['job']}")
        visit.forgive("net::ERR_ABORTED")


@pytest.mark.slow
def test_a_range_filters_both_charts_and_the_table_and_stands_in_the_address(
    service: Service, browser: Browser, found: dict[str, Any]
) -> None:
    cycles = sorted(run["figures"]["cycles"] for run in found["runs"])
    inside = {run["job"] for run in found["runs"] if run["figures"]["cycles"] <= cycles[1]}
    with visiting(browser, service.url, viewport={"width": 390, "height": 800}) as visit:
        page = visit.page
        opened(page, CHART)
        page.get_by_label("Filter by", exact=True).select_option("cycles")
        page.get_by_label("to", exact=True).fill(str(cycles[1]))
        page.get_by_label("to", exact=True).press("Enter")
        for _ in range(2):
            expect(page.locator("#runs-shown")).to_have_text(f"{len(inside)} of 4 runs are within.")
            shown = {row.get_attribute("data-job") for row in page.locator("#runs tr[data-job]:visible").all()}
            assert shown == inside
            drawn = page.evaluate(DRAWN)
            assert {run["job"] for run, each in zip(found["runs"], drawn, strict=True) if not each["faint"]} == inside
            opened(page, page.url)  # a link shows the same
        page.get_by_role("button", name=re.compile("Filter no more by cycles")).click()
        expect(page.locator("#runs tr[data-job]:visible")).to_have_count(4)
        assert "within" not in page.url


@pytest.mark.slow
def test_brushing_an_axis_is_the_same_as_its_range(service: Service, browser: Browser, found: dict[str, Any]) -> None:
    with visiting(browser, service.url, viewport={"width": 1280, "height": 900}) as visit:
        page = visit.page
        opened(page, CHART)
        host = page.locator("#parallel .chart-host")
        host.scroll_into_view_if_needed()
        name = page.locator("#parallel text", has_text=re.compile("^MACs at best$")).bounding_box()
        box = host.bounding_box()
        assert name is not None
        assert box is not None
        x, top = name["x"] + name["width"] / 2, box["y"] + 45
        page.mouse.move(x, top)
        page.mouse.down()
        page.mouse.move(x, top + 60, steps=4)
        page.mouse.up()
        [text] = parse_qs(urlsplit(page.url).query)["within"]
        column, low, high = text.split("~")
        assert column == "peak_macs_per_cycle"
        inside = {run["job"] for run in found["runs"] if float(low) <= run["parameters"][column] <= float(high)}
        assert 0 < len(inside) < 4
        shown = {row.get_attribute("data-job") for row in page.locator("#runs tr[data-job]:visible").all()}
        assert shown == inside


def test_without_a_script_the_table_has_the_same_figures(service: Service, found: dict[str, Any]) -> None:
    """Catches a table that is sorted otherwise than it says, or has no front of its own."""
    page = service.client.get(f"{CHART}&x=on_chip_bytes&y=cycles&sort=-cycles", headers={"Accept": "text/html"}).text
    rows = re.findall(r'<tr data-job="(\w+)">.*?</tr>', page, re.DOTALL)
    by_cycles = sorted(found["runs"], key=lambda run: -run["figures"]["cycles"])
    assert rows == [run["job"] for run in by_cycles]
    points = {run["job"]: (run["figures"]["on_chip_bytes"], run["figures"]["cycles"]) for run in found["runs"]}
    parts = dict(zip(rows, page.split("<tr data-job=")[1:], strict=True))
    assert {job for job, text in parts.items() if 'class="badge plain">front' in text} == front_of(points)
    assert all(f">{run['figures']['cycles']:,}</td>" in parts[run["job"]] for run in by_cycles)
    assert 'aria-sort="descending"' in page
