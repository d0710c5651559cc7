"""A layered layout of a directed graph: where boxes and the bends of edges lie, from top to bottom.

The steps are those of Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures"
(IEEE Trans. SMC 11, 1981): edges that close a circle are turned, nodes get layers, an edge over several layers gets a
bend in each, layers are sorted by the barycentre of their neighbours, and places follow from the order. The last is a
regression in each layer, in which neighbours keep their distance (pooling of adjacent violators).
"""

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

LAYER = 64  # from the middle of a layer to that of the next; units of the picture, as all here
MARGIN = 8
_GAP, _BEND_GAP = 18, 10
_ORDERINGS, _PLACINGS = 12, 14
_MOST_BENDS = 20_000
Side = Literal["above", "below"]
Edge = tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """The size of the picture, the middle (x, y) of each box, and the points of each edge from its source on."""

    width: float
    height: float
    boxes: list[tuple[float, float]]
    edges: list[list[tuple[float, float]]]


def layered_layout(widths: Sequence[float], edges: Sequence[Edge]) -> Layout:
    """Returns the layout of boxes of these ``widths`` and of ``edges`` (source, target), several of which may be alike.

    Where edges would have many thousands of bends they are straight: nobody looks at such a graph in one picture.
    """
    turned = _closing(len(widths), edges)
    down = {pair: pair[::-1] if pair in turned else pair for pair in edges if pair[0] != pair[1]}
    graph = _Graph(list(widths), _layers(len(widths), list(dict.fromkeys(down.values()))))
    straight = sum(graph.layer[b] - graph.layer[a] for a, b in down.values()) > _MOST_BENDS
    bends = {pair: [] if straight else graph.join(*pair) for pair in dict.fromkeys(down.values())}
    rows = graph.ordered()
    x = graph.placed(rows)
    left = min((x[node] - graph.widths[node] / 2 for row in rows for node in row), default=0.0) - MARGIN
    right = max((x[node] + graph.widths[node] / 2 for row in rows for node in row), default=0.0) + MARGIN
    middle = [(at - left, MARGIN + LAYER * (layer + 0.5)) for at, layer in zip(x, graph.layer, strict=True)]
    lines = []
    for source, target in edges:
        between = bends.get(down.get((source, target), (source, target)), [])
        nodes = [source, *(between[::-1] if (source, target) in turned else between), target]
        lines.append([middle[node] for node in nodes])
    return Layout(right - left, 2 * MARGIN + LAYER * len(rows), middle[: len(widths)], lines)


def _closing(count: int, edges: Sequence[Edge]) -> set[Edge]:
    """The edges that close a circle, as a search in depth meets them."""
    following: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        following[source].append(target)
    fresh, entered, left = range(3)
    state, found = [fresh] * count, set()
    for root in range(count):
        path = [(root, iter(following[root]))] if state[root] == fresh else []
        state[root] = entered if path else state[root]
        while path:
            node, targets = path[-1]
            target = next(targets, -1)
            if target < 0:
                state[node] = left
                path.pop()
            elif state[target] == entered:
                found.add((node, target))
            elif state[target] == fresh:
                state[target] = entered
                path.append((target, iter(following[target])))
    return found


def _layers(count: int, edges: Sequence[Edge]) -> list[int]:
    """The layer of each node: one below all that it follows; what follows nothing is right above what follows it."""
    before, after = [0] * count, [list[int]() for _ in range(count)]
    for source, target in edges:
        before[target] += 1
        after[source].append(target)
    first = [node for node in range(count) if not before[node]]
    layer, ready = [0] * count, list(first)
    for node in ready:
        for target in after[node]:
            layer[target] = max(layer[target], layer[node] + 1)
            before[target] -= 1
            if not before[target]:
                ready.append(target)
    for node in first:
        layer[node] = min((layer[target] for target in after[node]), default=1) - 1
    return layer


@dataclass
class _Graph:
    """Nodes in layers: first the boxes, then the bends, with their neighbours in the layers above and below."""

    widths: list[float]
    layer: list[int]
    above: list[list[int]] = field(init=False)
    below: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.above = [[] for _ in self.layer]
        self.below = [[] for _ in self.layer]
        self._boxes = len(self.layer)

    def join(self, source: int, target: int) -> list[int]:
        """Adds an edge down from layer to layer, and returns its bends."""
        bends = []
        for layer in range(self.layer[source] + 1, self.layer[target]):
            bends.append(len(self.layer))
            self.layer.append(layer)
            self.widths.append(0.0)
            self.above.append([])
            self.below.append([])
        path = [source, *bends, target]
        for one, other in pairwise(path):
            self.below[one].append(other)
            self.above[other].append(one)
        return bends

    def ordered(self) -> list[list[int]]:
        """Returns the nodes of each layer from left to right, with few crossings."""
        rows: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        for node, layer in enumerate(self.layer):
            rows[layer].append(node)
        best, fewest = rows, self._crossings(rows)
        for turn in range(_ORDERINGS):
            if not fewest:
                break
            rows = [list(row) for row in rows]
            side: Side = "below" if turn % 2 else "above"
            for row in _sweep(rows, side):
                self._sort(row, side, rows)
            crossings = self._crossings(rows)
            if crossings < fewest:
                best, fewest = rows, crossings
        return best

    def _sort(self, row: list[int], side: Side, rows: Sequence[Sequence[int]]) -> None:
        """Sorts a row by the middle of each node's neighbours on one side; one without them keeps its place."""
        if not row:
            return
        beside = self.layer[row[0]] + (1 if side == "below" else -1)
        place = {node: at for at, node in enumerate(rows[beside])} if 0 <= beside < len(rows) else {}
        share = len(place) / len(row)
        keys = {}
        for at, node in enumerate(row):
            near = [place[other] for other in getattr(self, side)[node] if other in place]
            keys[node] = sum(near) / len(near) if near else at * share
        row.sort(key=keys.__getitem__)

    def _crossings(self, rows: Sequence[Sequence[int]]) -> int:
        found = 0
        for upper, lower in pairwise(rows):
            place = {node: at for at, node in enumerate(lower)}
            seen: list[int] = []
            for node in upper:
                ends = sorted(place[other] for other in self.below[node] if other in place)
                found += sum(len(seen) - bisect_right(seen, end) for end in ends)
                for end in ends:
                    insort(seen, end)
        return found

    def placed(self, rows: Sequence[list[int]]) -> list[float]:
        """Returns where each node is from left to right: near its neighbours, in its row's order."""
        x = [0.0] * len(self.layer)
        for row in rows:
            for node, at in zip(row, self._apart(row, [0.0] * len(row)), strict=True):
                x[node] = at
        for turn in range(_PLACINGS):
            side: Side = "below" if turn % 2 else "above"
            for row in _sweep(rows, side):
                wanted = []
                for node in row:
                    near = self.above[node] + self.below[node] if turn >= _PLACINGS - 2 else getattr(self, side)[node]
                    wanted.append(sum(x[other] for other in near) / len(near) if near else x[node])
                for node, at in zip(row, self._apart(row, wanted), strict=True):
                    x[node] = at
        return x

    def _apart(self, row: Sequence[int], wanted: Sequence[float]) -> list[float]:
        """Returns the places nearest to those ``wanted``, by the sum of squares, at which nodes of a row are apart."""
        offset = [0.0]
        for one, other in pairwise(row):
            gap = _GAP if max(one, other) < self._boxes else _BEND_GAP
            offset.append(offset[-1] + (self.widths[one] + self.widths[other]) / 2 + gap)
        pools: list[tuple[float, int]] = []  # mean and number of nodes that lie as close as they may
        for goal, off in zip(wanted, offset, strict=False):
            mean, members = goal - off, 1
            while pools and pools[-1][0] >= mean:
                before, more = pools.pop()
                mean = (mean * members + before * more) / (members + more)
                members += more
            pools.append((mean, members))
        means = [mean for mean, members in pools for _ in range(members)]
        return [mean + off for mean, off in zip(means, offset, strict=False)]


def _sweep(rows: Sequence[list[int]], side: Side) -> Iterator[list[int]]:
    """Yields the rows from the second on that have neighbours on this side, which are done before them."""
    yield from rows[1:] if side == "above" else reversed(rows[:-1])
