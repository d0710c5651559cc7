"""The graph of a job's model as a picture without a script: boxes by cycles, or by where they run."""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from service.jobs.job_graph import GraphBox, GraphEdge, JobGraph
from service.web.figures.graph_layout import layered_layout
from service.web.templating.environment import count, percent, size

MOST_BOXES = 2000
HEIGHT, INSET = 38, 11
_STEPS = 8  # of the colours of cycles, as on the page of the graph
_WIDEST = 26  # letters of a name
_NAME, _COST = 12.0, 10.2  # of the fonts of both lines, the second of which runs narrower
# widths of letters in shares of that, in a font that runs wide; others are 0.72
_LETTERS = {
    letter: width
    for letters, width in (
        ("ijlI.,:;!|'` ", 0.42),
        ('ftrJ/\\()[]{}"-*', 0.54),
        ("mwMW@%…", 1.1),
        ("=<>+&~#^QOGDN", 0.9),
    )
    for letter in letters
}
_HEAD = 7.0  # length of the head of an arrow
_TITLED = 12  # nodes that a box names when it is pointed at


@dataclass(frozen=True)
class BoxFigure:
    """A box: its two lines, its classes, where it is, the layer that it leads to, and what is said of it."""

    name: str
    cost: str
    classes: str
    left: float
    top: float
    width: float
    layer: int | None
    title: str


@dataclass(frozen=True)
class EdgeFigure:
    """An edge as an SVG path, and its head as another; ``title`` is the tensor."""

    path: str
    head: str
    thickness: float
    title: str


@dataclass(frozen=True)
class GraphFigure:
    """The picture, in units of its view box; it is ``timed`` where boxes have cycles."""

    width: int
    height: int
    boxes: Sequence[BoxFigure]
    edges: Sequence[EdgeFigure]
    timed: bool
    folded: bool


def graph_figure(graph: JobGraph) -> GraphFigure | None:
    """Returns the picture of a graph; None where it has no boxes, or more than anybody looks at in one picture."""
    if not 0 < len(graph.boxes) <= MOST_BOXES:
        return None
    most = max((box.cost.cycles or 0 for box in graph.boxes if box.cost), default=0)
    texts = [(_short(box.name), _cost(box)) for box in graph.boxes]
    widths = [max(_width(name, _NAME), _width(cost, _COST)) + 2 * INSET for name, cost in texts]
    layout = layered_layout(widths, [(edge.source, edge.target) for edge in graph.edges])
    boxes = [
        BoxFigure(
            *text,
            _classes(box, most),
            x - width / 2,
            y - HEIGHT / 2,
            width,
            min(box.launches, default=None),
            _title(box),
        )
        for box, text, width, (x, y) in zip(graph.boxes, texts, widths, layout.boxes, strict=True)
    ]
    edges = [_edge(edge, points) for edge, points in zip(graph.edges, layout.edges, strict=True)]
    timed = any(box.cost is not None and box.cost.cycles is not None for box in graph.boxes)
    folded = any(box.kind == "folded" for box in graph.boxes)
    return GraphFigure(math.ceil(layout.width), math.ceil(layout.height), boxes, edges, timed, folded)


def _short(name: str) -> str:
    """A name without the path that its neighbours share with it."""
    parts = [part for part in name.split("/") if part]
    short = parts[-1] if parts else name
    for part in reversed(parts[:-1]):
        if len(short) + len(part) + 1 > _WIDEST:
            break
        short = f"{part}/{short}"
    return short if len(short) <= _WIDEST else f"{short[: _WIDEST - 1]}…"


def _cost(box: GraphBox) -> str:
    what = box.op or box.kind
    if box.kind == "host":
        return f"{what} · host"
    return what if box.cost is None or box.cost.cycles is None else f"{what} · {count(box.cost.cycles)} cycles"


def _width(text: str, size: float) -> float:
    """What a line takes at most; fonts differ, and those of East Asia are as wide as high."""
    return size * sum(1.05 if unicodedata.east_asian_width(each) in "WF" else _LETTERS.get(each, 0.72) for each in text)


def _classes(box: GraphBox, most: int) -> str:
    """Where it runs, and how deep its colour is."""
    if box.kind != "launch":
        return f"graph-{box.kind}"
    cycles = box.cost.cycles if box.cost else None
    return (
        "graph-launch" if cycles is None else f"graph-launch graph-heat-{round(cycles / most * _STEPS) if most else 0}"
    )


def _title(box: GraphBox) -> str:
    said = [box.name]
    if box.cost is not None:
        cost = box.cost
        said += [] if cost.cycles is None else [f"{count(cost.cycles)} cycles, {percent(cost.share or 0)} of all"]
        said.append(f"{percent(cost.utilisation)} utilised, {size(cost.bytes_read + cost.bytes_written)} over the bus")
    said += [f"{node.op} {node.name}{f': {node.reason}' if node.reason else ''}" for node in box.nodes[:_TITLED]]
    more = len(box.nodes) - _TITLED
    return "\n".join([*said, f"and {more} nodes more"] if more > 0 else said)


def _edge(edge: GraphEdge, points: Sequence[tuple[float, float]]) -> EdgeFigure:
    """From the bottom of a box to the top of another; an edge that goes up leaves and arrives the other way round."""
    half = HEIGHT / 2 if points[-1][1] >= points[0][1] else -HEIGHT / 2
    begin, end = (points[0][0], points[0][1] + half), (points[-1][0], points[-1][1] - half)
    bends = [(x, middle + side) for x, middle in points[1:-1] for side in (-half, half)]  # upright beside boxes
    from_x, from_y = bends[-1] if bends else begin
    length = math.hypot(end[0] - from_x, end[1] - from_y) or 1.0
    ahead_x, ahead_y = (end[0] - from_x) / length * _HEAD, (end[1] - from_y) / length * _HEAD
    neck = end[0] - ahead_x, end[1] - ahead_y
    wings = (neck[0] - ahead_y / 2, neck[1] + ahead_x / 2), (neck[0] + ahead_y / 2, neck[1] - ahead_x / 2)
    thickness = 1.0 if edge.bytes is None else min(max(math.log10(edge.bytes + 1) - 2.5, 1.0), 4.0)
    shape = "" if edge.shape is None else f" [{', '.join(map(str, edge.shape))}]"
    return EdgeFigure(_line(begin, *bends, neck), f"{_line(end, *wings)}z", thickness, f"{edge.tensor}{shape}")


def _line(*points: tuple[float, float]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
