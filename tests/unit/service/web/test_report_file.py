"""The report as one HTML file: what it shows, and that it asks for nothing and runs nothing."""

import re
from collections import Counter
from typing import Any
from urllib.parse import unquote

import pytest

from accel.trace.timeline import Timeline
from service.jobs.job_report import TableName, report_csv
from service.web.figures.timeline_figure import timeline_figure
from service.web.pages.report_file import report_html
from tests.helpers.html_pages import Page, read_page
from tests.helpers.programs.traces import UNITS, pipeline_trace
from tests.helpers.reports import layer, report

TABLE = "data:text/csv;charset=utf-8,"
HOSTILE = "</style><script>alert(1)</script>"


def shown(html: str) -> Page:
    page = read_page(html, alone=True)
    assert page.faults == []
    assert page.tags["script"] == page.tags["link"] == 0
    assert all(link.startswith(("#", TABLE)) for link in page.links)
    return page


def tables(page: Page) -> list[str]:
    return sorted(unquote(link.removeprefix(TABLE)) for link in page.links if link.startswith(TABLE))


def test_names_are_text() -> None:
    document = {"title": HOSTILE, "x": [HOSTILE]}
    page = shown(report_html(report(HOSTILE).model_dump(), HOSTILE, document))
    assert page.text.count(HOSTILE) > 10
    assert f'"title": "{HOSTILE}"' in page.text


@pytest.mark.slow
def test_each_table_is_there_as_csv_and_equals_the_apis() -> None:
    """Catches a table that is not there, and a name with ``%``, ``#`` or a quote that ends an address early."""
    name = f"a%20#b\"'&\n{HOSTILE}"
    different = {"tensor": name, "address": 3, "got": 1, "expected": 2, "instruction": None}
    model, program = report(name).model_dump(), {"mismatches": [different], "mismatch_count": 1}
    there: list[tuple[TableName, ...]] = [("accuracy", "cycles", "host-ops", "layers", "stages"), ("mismatches",)]
    for number, given in enumerate((model, model | program)):
        names = [table for each in there[: number + 1] for table in each]
        assert tables(shown(report_html(given, "x"))) == sorted(report_csv(given, table) for table in names)


def test_nothing_may_be_loaded() -> None:
    """Catches a file that tells somebody's host that it was opened."""
    html = report_html(report().model_dump(), "x")
    assert 'Content-Security-Policy" content="default-src &#39;none&#39;' in html
    for loads in ("@import", "url(", "http://", "https://", "src="):
        assert loads not in html


def test_a_report_without_cycles_has_no_timeline() -> None:
    untimed: dict[str, Any] = report().model_dump() | {"cycles": None, "units": {}, "layers": []}
    page = shown(report_html(untimed, "x"))
    assert "timing did not run" in page.text
    assert "timeline" not in page.ids


@pytest.mark.parametrize("count", [60, 5000])
def test_the_picture_is_of_every_cycle(count: int) -> None:
    """The areas of a lane are the cycles of its unit, busy and by kind of wait; what they leave is idle."""
    timeline = Timeline.of(pipeline_trace(3, count))
    figure = timeline_figure(timeline)
    assert figure is not None
    assert [lane.unit for lane in figure.lanes] == list(UNITS)
    kinds = {each["name"]: each["kind"] for each in timeline.document()["categories"]}
    for lane, track in zip(figure.lanes, timeline.tracks, strict=True):
        counted: Counter[str] = Counter()
        for category, slices in track.items():
            counted["busy" if category == "busy" else f"wait-{kinds[category]}"] += slices.cycles
        drawn = {area.colour: _area(area.path) * timeline.cycles / figure.width / figure.lane for area in lane.areas}
        assert drawn == pytest.approx({colour: cycles for colour, cycles in counted.items() if cycles}, rel=0.01)


def _area(path: str) -> float:
    """The area of a path's rectangles."""
    sides = re.findall(r"h([0-9.]+)v([0-9.]+)h-", path)
    assert len(sides) == path.count("M") == path.count("z")
    return sum(float(width) * float(height) for width, height in sides)


@pytest.mark.slow
def test_a_large_network_is_a_small_file() -> None:
    """Catches a file that no mail takes, with twice as many launches as ResNet-50 has."""
    layers = [layer(f"layer {number}", cycles=1000 + number) for number in range(120)]
    html = report_html(
        report(layers=layers).model_dump(), "x", {"a": "b" * 50_000}, Timeline.of(pipeline_trace(1, 50_000))
    )
    assert len(html.encode()) < 1_000_000
