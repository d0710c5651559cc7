"""Every page: it fits a phone and a wide screen, is accessible, runs no text of a user, and is there to take along."""

import csv
import io
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from accel.catalog.load_accelerator import load_accelerator
from examples.single import Conv, conv_model
from tests.conftest import Service
from tests.helpers.chromium import visiting
from tests.helpers.idle_service import quiet_service
from tests.helpers.marking import rest_all
from worker.records.job_record import Stage
from worker.records.problem_details import Problem

pytestmark = pytest.mark.slow
HOSTILE = '<img src="/x" onerror="throw 1">&amp;"\''
LONG = HOSTILE + 150 * "W"  # no place to break a line at
BEYOND = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# tables of data, but for those in a cell of another
WITHOUT_CSV = """[...document.querySelectorAll("table:not(.code)")]
  .filter((table) => table.parentElement.closest("table") === null && table.closest(".scroll[data-csv]") === null)
  .map((table) => table.outerHTML.slice(0, 200))"""
SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Made:
    """A job whose every text of a user is hostile, and the addresses of pages that show them."""

    job: str
    pages: tuple[str, ...]


@pytest.fixture(scope="module")
def made(service: Service) -> Made:
    model = conv_model(Conv(channels=16, filters=16, height=10, width=10, kernel=(3, 3), pads=(1, 1, 1, 1)), seed=1717)
    for number, node in enumerate(model.graph.node):
        node.name = f"{HOSTILE}{number}"
    document = load_accelerator("mvin-mvout").model_dump(mode="json") | {"title": f"</title>{HOSTILE}"}
    client = service.client
    accelerator = client.post("/v1/accelerators", json=document, params={"label": HOSTILE}).json()["id"]
    digest = client.post("/v1/models", content=model.SerializeToString(), params={"label": HOSTILE}).json()["id"]
    texts = {"label": LONG, "note": f"{HOSTILE}\n</textarea>", "tags": [HOSTILE[:30].replace(",", "").strip()]}
    jobs = []
    for seed in (1, 2):
        request = {"model": digest, "accelerator": accelerator, "options": {"seed": seed}, "fresh": True, **texts}
        posted = client.post("/v1/jobs", json=request)
        assert posted.status_code == 202, posted.text
        ended = service.wait(posted.headers["Location"])
        assert ended["state"] == "succeeded", ended
        jobs.append(ended["id"])
    one, two = jobs
    home = f"/jobs/{one}"
    layer = client.get(f"/v1/jobs/{one}/report").json()["layers"][0]["name"]
    compared = str(client.build_request("GET", "/compare", params={"a": one, "b": two, "layer": layer}).url)
    pages = (
        "/",
        f"/?model={digest}&accelerator={accelerator}",
        f"/plan?model={digest}&accelerator={accelerator}",
        "/jobs",
        f"/jobs/chart?model={digest}",
        "/models",
        f"/models?id={digest}",
        "/accelerators",
        f"/accelerators/{accelerator}",
        home,
        *(f"{home}/{view}" for view in ("graph", "passes", "timeline", "memory", "accelerator?instruction=matmul")),
        f"{home}/passes?view=editor",
        "/compare",
        compared.removeprefix(service.url),
        f"{compared.removeprefix(service.url)}&view=editor&documents=editor",
        f"/jobs/chosen?do=delete&job={one}&job={two}",
        "/nothing-here",
    )
    return Made(one, pages)


LOOKS: tuple[tuple[int, Any], ...] = ((390, "light"), (1280, "dark"))  # width and scheme


def open_whole(page: Page, path: str) -> None:
    """Opens a page and comes to see all of it, so that every island loads."""
    page.goto(path)
    page.evaluate("document.querySelectorAll('details:not(.menu)').forEach(each => each.open = true)")
    height = page.evaluate("document.documentElement.scrollHeight")
    for top in range(0, height, 800):
        page.evaluate(f"scrollTo(0, {top})")
        page.wait_for_timeout(40)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(300)


@pytest.mark.parametrize("first", rest_all([0, 1]))
def test_pages_fit_are_accessible_and_run_no_text(
    service: Service, browser: Browser, made: Made, first: int, tmp_path: Path
) -> None:
    """Each page in one look, and the next in the other."""
    report = tmp_path / "report.html"
    report.write_bytes(service.client.get(f"/v1/jobs/{made.job}/report.html").content)
    with visiting(browser, service.url) as visit:
        page = visit.page
        for at, path in enumerate((*made.pages, report.as_uri()), first):
            width, scheme = LOOKS[at % 2]
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme=scheme)
            page.goto(path) if path == report.as_uri() else open_whole(page, path)
            assert page.locator("img:not([src^='/static/'])").count() == 0, path  # of a text there is none
            assert page.evaluate(BEYOND) == 0, (path, width)
            visit.assert_accessible()
            assert page.evaluate(WITHOUT_CSV) == [] or path == report.as_uri(), path
            if path == "/nothing-here":
                visit.forgive("status of 404")
        visit.forgive("/(plan|events) net::ERR_ABORTED")  # a page was left while it planned


def test_pages_say_the_same_without_a_script(service: Service, browser: Browser, made: Made) -> None:
    with visiting(browser, service.url, java_script_enabled=False) as visit:
        for path in made.pages:
            visit.page.goto(path)
            visit.forgive("status of 404")
            assert visit.page.locator("h1").count() == 1, path
            assert visit.page.locator("img:not([src^='/static/'])").count() == 0, path


def saved(page: Page, button: Any) -> str:
    with page.expect_download() as download:
        button.click()
    return Path(download.value.path()).read_text(encoding="utf-8")


def test_a_table_is_saved_as_the_api_has_it(service: Service, browser: Browser, made: Made) -> None:
    tracks = service.client.get(f"/v1/jobs/{made.job}/timeline/tracks").json()
    with visiting(browser, service.url) as visit:
        page = visit.page
        page.goto(f"/jobs/{made.job}/timeline")
        text = saved(page, page.get_by_role("button", name="Save the table as CSV: Where the cycles went"))
        head, *rows = csv.reader(io.StringIO(text))
        for place, track in enumerate(tracks["tracks"]):
            assert head[2 + 2 * place] == track["unit"]
            column = {row[1]: int(row[2 + 2 * place]) for row in rows}
            assert column == {name: cycles for name, cycles in track["cycles"].items() if name in column}
            assert sum(column.values()) == tracks["cycles"]
        page.goto(f"/jobs/{made.job}")
        page.get_by_text("As a table").first.click()
        text = saved(page, page.get_by_role("button", name="Save the table as CSV: Where every cycle went"))
        rows = list(csv.DictReader(io.StringIO(text)))
        for unit in service.client.get(f"/v1/jobs/{made.job}/report").json()["account"]["units"]:
            mine = [int(row["cycles"]) for row in rows if row["unit"].split()[0] == unit]
            assert sum(mine) == tracks["cycles"]
        page.goto("/jobs?q=" + made.job[:12])
        table = list(csv.DictReader(io.StringIO(saved(page, page.get_by_role("button", name="Save the table as CSV")))))
        job = service.client.get(f"/v1/jobs/{made.job}").json()
        assert [row["cycles"] for row in table] == [str(job["result"]["cycles"])]
        assert table[0]["job"].startswith(f"{LONG} ")
        assert "succeeded" in table[0]["state"]


def area(path: str) -> float:
    """The area of the rectangles of a path as the picture of a timeline has them."""
    found = re.findall(r"M([\d.-]+) ([\d.-]+)H([\d.-]+)v([\d.-]+)", path)
    return float(sum((float(right) - float(left)) * float(high) for left, _, right, high in found))


def test_a_timeline_is_saved_as_lines_that_show_every_cycle(service: Service, browser: Browser, made: Made) -> None:
    tracks = service.client.get(f"/v1/jobs/{made.job}/timeline/tracks").json()
    with visiting(browser, service.url, color_scheme="light") as visit:
        page = visit.page
        page.goto(f"/jobs/{made.job}/timeline")
        page.wait_for_selector("canvas[data-detail=fine]")
        svg = ET.fromstring(saved(page, page.get_by_role("button", name="Save the picture as SVG")))
    width, lane = float(svg.attrib["width"]), 32.0
    busy = [each.attrib["d"] for each in svg.iter(f"{SVG}path") if each.attrib.get("fill") == "rgb(0, 158, 115)"]
    shares = [track["cycles"]["busy"] / tracks["cycles"] for track in tracks["tracks"] if track["cycles"]["busy"]]
    np.testing.assert_allclose([area(each) / (width * lane) for each in busy], shares, atol=0.005)
    texts = "".join(text.text or "" for text in svg.iter(f"{SVG}text"))
    assert all(track["unit"] in texts for track in tracks["tracks"])


def test_bars_of_cycles_are_one_picture(service: Service, browser: Browser, made: Made) -> None:
    units = service.client.get(f"/v1/jobs/{made.job}/report").json()["account"]["units"]
    with visiting(browser, service.url, color_scheme="light") as visit:
        page = visit.page
        page.goto(f"/jobs/{made.job}")
        section = page.locator("section[aria-labelledby=cycles]")
        svg = ET.fromstring(saved(page, section.get_by_role("button", name="Save the picture as SVG")))
        with page.expect_download() as png:
            section.get_by_role("button", name="Save the picture as PNG").click()
        assert Path(png.value.path()).read_bytes().startswith(b"\x89PNG")
        visit.forgive("/events net::ERR_ABORTED")
    bars = svg.findall(f"{SVG}svg")
    assert len(bars) == 1 + len(units)  # and the accelerator's
    for bar in bars:
        assert sum(float(part.attrib["width"]) for part in bar.iter(f"{SVG}rect")) == pytest.approx(1000, abs=1)
    assert set(units) <= {text.text for text in svg.findall(f"{SVG}text")}


@pytest.mark.parametrize(("width", "scheme"), rest_all([(390, "dark"), (1280, "light")]))
def test_a_job_in_each_state_and_its_link_for_others(browser: Browser, width: int, scheme: Any, tmp_path: Path) -> None:
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with quiet_service(tmp_path, auth="keys") as quiet:
        address = str(quiet.client.base_url)
        queued, running, failed, canceled = (
            quiet.post(quiet.request(seed=seed) | {"label": HOSTILE})["id"] for seed in range(4)
        )
        quiet.jobs.progress(running, 1, datetime.now(UTC), Stage(name="simulate", step=11, total=13))
        detail = f"{HOSTILE} cannot be read"
        quiet.jobs.fail(failed, Problem(type="/problems/invalid-model", title="It failed.", status=422, detail=detail))
        quiet.client.post(f"/v1/jobs/{canceled}/cancel")
        said = {queued: "queue", running: "running", failed: "cannot be read", canceled: "canceled"}
        with visiting(browser, address, **options) as visit:
            page = visit.page
            page.goto("/login")
            page.get_by_label("Key").fill(quiet.client.headers["Authorization"].removeprefix("Bearer "))
            page.get_by_role("button", name="Log in").click()
            page.wait_for_url(f"{address}/")
            for job, words in said.items():
                page.goto(f"/jobs/{job}")
                expect(page.locator("main")).to_contain_text(words)
                assert page.evaluate(BEYOND) == 0, words
                visit.assert_accessible()
            page.goto(f"/jobs/{failed}")
            page.get_by_text("More…").click()
            assert page.evaluate(BEYOND) == 0
            menu = page.locator(".menu > div").bounding_box()
            assert menu is not None
            assert 0 <= menu["x"] <= menu["x"] + menu["width"] <= width
            page.get_by_role("button", name="Make a link for others").click()
            shared = page.get_by_label("Address").input_value()
            visit.assert_accessible()
            assert page.evaluate(BEYOND) == 0
            visit.forgive("/(events|plan) net::ERR_ABORTED")
        with visiting(browser, address, **options) as visit:
            visit.page.goto(shared)
            expect(visit.page.locator("main")).to_contain_text(detail)
            expect(visit.page.get_by_role("link", name="Jobs")).to_have_count(0)
            visit.assert_accessible()
            assert visit.page.evaluate(BEYOND) == 0
