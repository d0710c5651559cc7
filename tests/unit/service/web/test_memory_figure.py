"""The picture of a memory plan: every buffer where the plan says, and never more of them than there is room for."""

import re
from itertools import pairwise

import pytest

from accel.report.documents.memory_documents import Allocation, LayerMemory, MemoryPlan, OnChipMemory
from service.web.figures.memory_figure import ROLES, LayerBoxes, MemoryFigure, memory_figure
from service.web.pages.report_file import report_html
from tests.helpers.html_pages import read_page
from tests.helpers.reports import report

HOSTILE = "</title><script>alert(1)</script>"
INP, ACC = (
    OnChipMemory(name="inp", elements=2048, element_bytes=16),
    OnChipMemory(name="acc", elements=64, element_bytes=4),
)


def buffer(memory: str, elements: tuple[int, int], cycles: tuple[int, int] | None, **more: object) -> Allocation:
    (begin, end), (first, last) = elements, cycles or (None, None)
    given = {
        "copies": 1,
        "role": "data",
        "tensors": ["t"],
        "buffer": "b",
        "first_instruction": 0,
        "last_instruction": 1,
    }
    place = {"memory": memory, "begin": begin, "end": end, "begin_cycle": first, "end_cycle": last}
    return Allocation.model_validate({**given, **place, **more})


def layer(begin: int, end: int, *allocations: Allocation, name: str = "conv") -> LayerMemory:
    return LayerMemory(name=name, begin_cycle=begin, end_cycle=end, allocations=list(allocations))


def drawn(plan: MemoryPlan) -> MemoryFigure:
    figure = memory_figure(plan)
    assert figure is not None
    return figure


def test_a_buffer_is_where_the_plan_says() -> None:
    """Catches a flipped axis, a picture to another memory's scale, and the copies' lines at another height."""
    found = buffer("inp", (512, 1536), (250, 500), copies=2, role="constant")
    never = buffer("inp", (0, 8), None)
    plan = MemoryPlan(memories=[ACC, INP], layers=[layer(0, 1000, found, never, buffer("acc", (0, 64), (0, 1000)))])
    figure = drawn(plan)
    scale = (figure.right - figure.left) / 1000
    (boxes,) = (each.boxes for each in figure.layers)
    whole, part = sorted(boxes, key=lambda box: box.height, reverse=True)
    assert (whole.y, whole.height, whole.width) == (figure.panels[0].top, figure.panel, figure.right - figure.left)
    assert (part.x, part.width) == pytest.approx((figure.left + 250 * scale, 250 * scale))
    assert (part.y, part.height) == pytest.approx((figure.panels[1].top + figure.panel / 4, figure.panel / 2))
    assert (part.role, part.title) == (
        "constant",
        "layer 1, conv: weights and constants, t; 16.0 KiB in 2 copies of inp; cycles 250 to 500",
    )
    assert part.cuts == f"M{part.x:.1f} {figure.panels[1].top + figure.panel / 2:.1f}h{part.width:.1f}"
    assert [(panel.name, panel.peak_bytes, panel.share) for panel in figure.panels] == [
        ("acc", 256, 1.0),
        ("inp", 16384, 0.5),
    ]
    assert [row.buffer for row in figure.rows] == plan.layers[0].allocations
    assert [role for role, _ in figure.roles] == ["data", "constant"]


def extent(layer: LayerBoxes) -> tuple[float, float]:
    return min(box.y for box in layer.boxes), max(box.y + box.height for box in layer.boxes)


@pytest.mark.slow
def test_what_is_narrower_than_can_be_seen_is_one_with_its_neighbours() -> None:
    """Catches layers that are lost, and a page that grows with a network of very many."""
    wide = layer(0, 10**6, buffer("inp", (0, 64), (0, 10**6)))
    narrow = [
        layer(10**6 + at, 10**6 + at + 1, buffer("inp", (at % 7, 100 + at), (10**6 + at, 10**6 + at + 1)))
        for at in range(1000)
    ]
    figure = drawn(MemoryPlan(memories=[INP], layers=[wide, *narrow]))
    alone, together = figure.layers
    assert (alone.merged, together.merged, figure.merged) == (1, 1000, 1000)
    assert "layers 2 to 1001" in together.title
    assert [box.role for box in together.boxes] == [None]
    assert "1000 buffers in elements 0 to 1,099 of inp" in together.boxes[0].title
    top, bottom = extent(together)
    assert bottom == figure.panels[0].top + figure.panel
    assert bottom - top == pytest.approx(figure.panel * 1099 / 2048)
    many = [layer(at, at + 1, buffer("inp", (0, 64), (at, at + 1))) for at in range(50_000)]
    figure = drawn(MemoryPlan(memories=[INP], layers=many))
    assert sum(each.merged for each in figure.layers) == 50_000
    assert sum(len(each.boxes) for each in figure.layers) <= figure.width / 2
    ends = [(each.begin, each.end) for each in figure.layers]
    assert all(before[1] == after[0] for before, after in pairwise(ends))
    assert (len(figure.rows), figure.buffers) == (1500, 50_000)


def test_a_plan_without_cycles_or_buffers_has_no_picture() -> None:
    for layers in ([], [layer(0, 0, buffer("inp", (0, 1), None))], [layer(0, 9)]):
        assert memory_figure(MemoryPlan(memories=[INP], layers=layers)) is None


def test_names_are_text_and_the_file_shows_every_buffer() -> None:
    found = [buffer("inp", (0, 64), (0, 99), role=role, tensors=[HOSTILE], buffer=HOSTILE) for role in ROLES]
    plan = MemoryPlan(memories=[INP], layers=[layer(0, 100, *found, name=HOSTILE)])
    html = report_html(report().model_dump(), "x", plan=plan)
    page = read_page(html, alone=True)
    assert page.faults == []
    assert page.tags["script"] == 0
    assert page.text.count(HOSTILE) >= 3 * len(found)
    assert len(re.findall('<rect class="held-|<rect class="held ', html)) == len(found) + 1  # and the memory itself
    assert "#layer-1" in page.links
