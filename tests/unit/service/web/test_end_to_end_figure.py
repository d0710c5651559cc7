"""The picture of the end-to-end time: lanes with the parts of every step, and a page that says they are modelled."""

import re
from itertools import pairwise

from accel.catalog.load_accelerator import load_accelerator
from accel.report.end_to_end import DramTensors, PricedStep, end_to_end, with_overheads
from service.jobs.job_report import report_csv
from service.web.figures.end_to_end_figure import WIDTH, end_to_end_figure
from service.web.pages.report_file import report_html
from tests.helpers.html_pages import read_page
from tests.helpers.reports import layer, report

VTA = load_accelerator("vta")
TENSORS = DramTensors({"x": 4096, "y": 4096}, ("x",), ("y",))


def steps(count: int) -> list[PricedStep]:
    return [PricedStep(f"{n}", "launch", (), ("x",), ("y",), cycles=1000, bound=800) for n in range(count)]


def widths(path: str) -> list[tuple[float, float]]:
    return [(float(at), float(wide)) for at, wide in re.findall(r"M([\d.]+) \d+h([\d.]+)v", path)]


def test_lanes_have_the_parts_one_after_the_other() -> None:
    found = end_to_end(steps(3), TENSORS, VTA, bounded=True).model_dump()
    figure = end_to_end_figure(found)
    assert figure is not None
    for lane in figure.lanes:
        spans = widths(lane.path)
        assert abs(sum(wide for _, wide in spans) / WIDTH - found["parts"][lane.name]["share"]) < 0.01
    accelerator = widths(figure.lanes[0].path)
    assert len(accelerator) == 3
    assert all(begin + wide <= after for (begin, wide), (after, _) in pairwise(accelerator))


def test_many_steps_take_no_more_than_the_picture_has_room_for() -> None:
    figure = end_to_end_figure(end_to_end(steps(30_000), TENSORS, VTA, bounded=True).model_dump())
    assert figure is not None
    assert all(len(widths(lane.path)) <= 10 * WIDTH for lane in figure.lanes)


def test_there_is_no_picture_of_a_host_that_costs_nothing() -> None:
    found = end_to_end(steps(3), TENSORS, VTA.model_copy(update={"host": None}), bounded=True)
    assert end_to_end_figure(found.model_dump()) is None
    page = read_page(report_html(report(end_to_end=found).model_dump(), "x"), alone=True)
    assert "host costs nothing" in page.text


def test_the_page_says_what_is_modelled() -> None:
    found = end_to_end(steps(2), TENSORS, VTA, bounded=True)
    given = report(end_to_end=found, layers=with_overheads([layer("a"), layer("b")], found)).model_dump()
    page = read_page(report_html(given, "x"), alone=True)
    assert page.faults == []
    assert "End to end modelled" in re.sub(r"\s+", " ", page.text)
    assert "Nothing of host and movement is in the cycles elsewhere" in page.text
    rows = report_csv(given, "steps").splitlines()
    assert rows[0].startswith("step,name,runs on,begin [cycle],accelerator [cycles],")
    assert rows[1].startswith("1,0,accelerator,0,1000,")
    assert len(rows) == 3
