"""The graph of the report's file: where boxes and edges lie, what they say, and what they may be called."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.report.documents.graph_documents import GraphNode, GraphTensor, ModelGraph
from service.jobs.job_graph import BoxCost, GraphBox, GraphEdge, JobGraph
from service.web.figures.graph_figure import HEIGHT, MOST_BOXES, graph_figure
from service.web.figures.graph_layout import LAYER, layered_layout
from service.web.pages.report_file import report_html
from tests.helpers.html_pages import read_page
from tests.helpers.marking import share
from tests.helpers.reports import layer, report

HOSTILE = "</svg></style><script>alert(1)</script>\"'&"
graphs = st.integers(1, 14).flatmap(
    lambda count: st.tuples(
        st.lists(st.integers(20, 200), min_size=count, max_size=count),
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=30),
    )
)


@pytest.mark.slow
@settings(max_examples=share(150), deadline=None)
@given(graphs)
def test_boxes_are_apart_and_edges_lead_from_one_to_the_other(graph: tuple[list[int], list[tuple[int, int]]]) -> None:
    """Catches boxes on each other or outside, and an edge that ends elsewhere; there are circles and twins."""
    widths, edges = graph
    edges = [(source, target) for source, target in edges if source != target]
    layout = layered_layout(widths, edges)
    for (x, y), width in zip(layout.boxes, widths, strict=True):
        assert 0 <= x - width / 2 <= x + width / 2 <= layout.width
        assert 0 <= y - HEIGHT / 2 <= y + HEIGHT / 2 <= layout.height
    for one, other in combinations(range(len(widths)), 2):
        (x, y), (to_x, to_y) = layout.boxes[one], layout.boxes[other]
        assert abs(y - to_y) >= LAYER or abs(x - to_x) > (widths[one] + widths[other]) / 2
    for (source, target), points in zip(edges, layout.edges, strict=True):
        assert (points[0], points[-1]) == (layout.boxes[source], layout.boxes[target])
        for x, y in points[1:-1]:  # a bend lies between the boxes of its layer
            assert all(y != at_y or abs(x - at) > w / 2 for (at, at_y), w in zip(layout.boxes, widths, strict=True))


@settings(max_examples=100, deadline=None)
@given(graphs)
def test_edges_without_circles_lead_down_a_layer_at_a_time(graph: tuple[list[int], list[tuple[int, int]]]) -> None:
    widths, edges = graph
    edges = [(min(pair), max(pair)) for pair in edges if pair[0] != pair[1]]
    for points in layered_layout(widths, edges).edges:
        assert [b - a for (_, a), (_, b) in pairwise(points)] == [LAYER] * (len(points) - 1)


def test_two_ways_that_meet_again_do_not_cross() -> None:
    """Catches an order that is that of the numbers: 1 and 2 lie as their followers do."""
    edges = [(0, 1), (0, 2), (1, 4), (2, 3), (3, 5), (4, 5)]
    boxes = layered_layout([50] * 6, edges).boxes
    assert (boxes[1][0] < boxes[2][0]) == (boxes[4][0] < boxes[3][0])


def test_a_chain_is_upright() -> None:
    layout = layered_layout([40, 120, 80], [(0, 1), (1, 2)])
    assert [x for x, _ in layout.boxes] == pytest.approx([layout.width / 2] * 3)


def cost(cycles: int | None) -> BoxCost:
    return BoxCost(
        cycles=cycles, share=None, lower_bound=None, macs=0, utilisation=0.5, bytes_read=1, bytes_written=2,
        begin=None, end=None, instructions={},
    )  # fmt: skip


def box(kind: str, name: str, cycles: int | None = None, launches: tuple[int, ...] = ()) -> GraphBox:
    given = cost(cycles) if launches else None
    return GraphBox(kind=kind, name=name, op="conv2d", launches=list(launches), nodes=[], constants=0, cost=given)


def test_colours_are_by_cycles_and_by_where_it_runs() -> None:
    boxes = [box("input", "x"), box("launch", "a", 800, (2, 1)), box("launch", "b", 100, (3,)), box("host", "c")]
    edges = [GraphEdge(source=0, target=1, tensor="x", shape=[1, 2], type=None, bytes=None)]
    figure = graph_figure(JobGraph(boxes=boxes, edges=edges, added=[]))
    assert figure is not None
    assert [each.classes for each in figure.boxes] == [
        "graph-input", "graph-launch graph-heat-8", "graph-launch graph-heat-1", "graph-host",
    ]  # fmt: skip
    assert [each.layer for each in figure.boxes] == [None, 1, 3, None]
    assert [each.cost for each in figure.boxes[1:]] == ["conv2d · 800 cycles", "conv2d · 100 cycles", "conv2d · host"]
    assert figure.edges[0].title == "x [1, 2]"
    untimed = graph_figure(JobGraph(boxes=[box("launch", "a", None, (1,))], edges=[], added=[]))
    assert untimed is not None
    assert (untimed.timed, untimed.boxes[0].classes) == (False, "graph-launch")


def test_a_graph_that_nobody_could_look_at_is_left_out() -> None:
    boxes = [box("host", str(number)) for number in range(MOST_BOXES + 1)]
    assert graph_figure(JobGraph(boxes=boxes, edges=[], added=[])) is None
    assert graph_figure(JobGraph(boxes=[], edges=[], added=[])) is None
    assert graph_figure(JobGraph(boxes=boxes[1:], edges=[], added=[])) is not None


def test_the_file_shows_the_graph_and_its_names_are_text() -> None:
    """Catches a name that becomes markup, and a box that does not lead to its layer."""
    tensor = GraphTensor(shape=[1], type=HOSTILE, bytes=4)
    nodes = [
        GraphNode(name=HOSTILE, op=HOSTILE, covers=["n0"], inputs=[HOSTILE], outputs=["t"], constants=0),
        GraphNode(name="second", op="Add", covers=["n1"], inputs=["t"], outputs=["y"], constants=0),
    ]
    graph = ModelGraph(
        inputs=[HOSTILE], outputs=["y"], tensors={HOSTILE: tensor, "t": tensor, "y": tensor}, nodes=nodes
    )
    layers = [layer(HOSTILE, nodes=["n0"], cycles=10), layer("second", nodes=["n1"], cycles=20)]
    page = read_page(report_html(report(layers=layers).model_dump(), "x", graph=graph), alone=True)
    assert page.faults == []
    assert page.tags["script"] == 0
    assert {"#layer-1", "#layer-2"} <= page.links
    assert {"graph", "layer-1", "layer-2"} <= set(page.ids)
    assert HOSTILE in page.text
