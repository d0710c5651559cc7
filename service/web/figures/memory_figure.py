"""The memory plan as a picture: of each on-chip memory who lies at which address, from when to when.

Cycles go to the right, and addresses up. A layer that is too narrow to be seen is drawn as one with its neighbours, so
that there are never more layers than the picture has room for.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from accel.report.documents.memory_documents import Allocation, LayerMemory, MemoryPlan, Role
from accel.report.documents.memory_occupancy import MemoryOccupancy, memory_occupancy
from service.web.templating.environment import count, size

WIDTH = 960
_LEFT, _RIGHT, _TOP = 72, 8, 26  # above the first memory is a strip of layers
_PANEL, _LABEL, _AXIS = 84, 30, 24
_NARROW = 2.0  # pixels: less is no layer that one could point at
_LOW = 1.5  # pixels: no buffer is drawn lower
_TICKS = 6
_ROWS = 1500
ROLES: dict[Role, str] = {
    "data": "activations",
    "constant": "weights and constants",
    "result": "results",
    "intermediate": "intermediates",
    "micro-ops": "micro-ops",
}


@dataclass(frozen=True)
class Box:
    """A buffer, or several as one; coordinates are pixels. ``cuts`` is a path between its copies, empty without any."""

    role: Role | None
    x: float
    y: float
    width: float
    height: float
    title: str
    cuts: str = ""


@dataclass(frozen=True)
class LayerBoxes:
    """A layer, or neighbours that are drawn as one: the place of its strip, and its buffers in all memories.

    Attributes:
        number: of the layer in the program, from 1; of several the first's.
        merged: how many layers it is of.
        begin: its first cycle.
        end: the cycle after its last.
    """

    number: int
    merged: int
    begin: int
    end: int
    x: float
    width: float
    title: str
    boxes: Sequence[Box]


@dataclass(frozen=True)
class Panel:
    """A memory; ``top`` is where its picture begins. ``share`` is the part of it that is in use at its peak."""

    name: str
    top: int
    elements: int
    element_bytes: int
    bytes: int
    peak_bytes: int
    peak_cycle: int | None
    share: float


@dataclass(frozen=True)
class Row:
    """A buffer in the table; ``span`` is the number of its layer's rows, at the first of them, else 0."""

    number: int
    layer: LayerMemory
    span: int
    buffer: Allocation
    words: str
    bytes: int


@dataclass(frozen=True)
class MemoryFigure:
    """The picture, and its table: ``rows`` of ``buffers`` in all."""

    height: int
    panels: Sequence[Panel]
    layers: Sequence[LayerBoxes]
    roles: Sequence[tuple[Role, str]]
    ticks: Sequence[tuple[float, str]]
    rows: Sequence[Row]
    buffers: int

    width, left, right, panel, bottom = WIDTH, _LEFT, WIDTH - _RIGHT, _PANEL, _AXIS

    @property
    def merged(self) -> int:
        """How many layers are drawn as one with others."""
        return sum(layer.merged for layer in self.layers if layer.merged > 1)


def memory_figure(plan: MemoryPlan) -> MemoryFigure | None:
    """Returns the picture of a plan; None of one that has no cycles or no buffers."""
    cycles = max((layer.end_cycle for layer in plan.layers), default=0)
    buffers = sum(len(layer.allocations) for layer in plan.layers)
    if not cycles or not buffers:
        return None
    panels = [_panel(each, number) for number, each in enumerate(memory_occupancy(plan))]
    drawing = _Drawing((WIDTH - _LEFT - _RIGHT) / cycles, {panel.name: panel for panel in panels})
    held = {each.role for layer in plan.layers for each in layer.allocations}
    return MemoryFigure(
        height=_TOP + len(panels) * (_LABEL + _PANEL) + _AXIS,
        panels=panels,
        layers=list(drawing.layers(plan.layers)),
        roles=[(role, words) for role, words in ROLES.items() if role in held],
        ticks=[(drawing.x(cycle), count(cycle)) for cycle in _steps(cycles)],
        rows=list(_rows(plan)),
        buffers=buffers,
    )


def _panel(occupancy: MemoryOccupancy, number: int) -> Panel:
    memory, held = occupancy.memory, occupancy.held
    return Panel(
        name=memory.name,
        top=_TOP + number * (_LABEL + _PANEL) + _LABEL,
        elements=memory.elements,
        element_bytes=memory.element_bytes,
        bytes=occupancy.bytes,
        peak_bytes=occupancy.peak_bytes,
        peak_cycle=held.peak_at,
        share=held.peak / memory.elements,
    )


def _steps(cycles: int) -> Iterator[int]:
    """Yields the cycles of an axis: multiples of 1, 2 or 5 times a power of ten."""
    least = max(cycles / _TICKS, 1)
    power = 10 ** math.floor(math.log10(least))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)
    yield from range(0, cycles + 1, step)


def _rows(plan: MemoryPlan) -> Iterator[Row]:
    element_bytes = {memory.name: memory.element_bytes for memory in plan.memories}
    left = _ROWS
    for number, layer in enumerate(plan.layers, 1):
        shown = layer.allocations[:left]
        left -= len(shown)
        for place, each in enumerate(shown):
            span = 0 if place else len(shown)
            yield Row(number, layer, span, each, ROLES[each.role], (each.end - each.begin) * element_bytes[each.memory])


@dataclass(frozen=True)
class _Drawing:
    """Places layers and their buffers; ``scale`` is pixels a cycle."""

    scale: float
    panels: dict[str, Panel]

    def x(self, cycle: int) -> float:
        return _LEFT + cycle * self.scale

    def layers(self, layers: Sequence[LayerMemory]) -> Iterator[LayerBoxes]:
        """Yields the layers; narrow ones beside each other as one, until it is wide enough."""
        group: list[tuple[int, LayerMemory]] = []
        for number, layer in enumerate(layers, 1):
            wide = self._wide(layer.begin_cycle, layer.end_cycle)
            if wide and group:
                yield self._drawn(group)
                group = []
            group.append((number, layer))
            if wide or self._wide(group[0][1].begin_cycle, layer.end_cycle):
                yield self._drawn(group)
                group = []
        if group:
            yield self._drawn(group)

    def _wide(self, begin: int, end: int) -> bool:
        return (end - begin) * self.scale >= _NARROW

    def _drawn(self, group: Sequence[tuple[int, LayerMemory]]) -> LayerBoxes:
        (number, first), (last_number, last) = group[0], group[-1]
        begin, end = first.begin_cycle, last.end_cycle
        if len(group) == 1:
            title = f"layer {number}, {first.name}: {count(end - begin)} cycles"
            # small ones lie above large ones
            found = sorted(first.allocations, key=lambda each: each.begin - each.end)
            boxes = [self._box(number, first, each) for each in found if each.begin_cycle is not None]
        else:
            title = (
                f"layers {number} to {last_number}, {first.name} to {last.name}: {count(end - begin)} cycles, "
                "too few to be drawn one by one"
            )
            boxes = list(self._envelopes([layer for _, layer in group], title))
        left = self.x(begin)
        return LayerBoxes(number, len(group), begin, end, left, self.x(end) - left, title, boxes)

    def _box(self, number: int, layer: LayerMemory, each: Allocation) -> Box:
        panel = self.panels[each.memory]
        assert each.begin_cycle is not None
        assert each.end_cycle is not None
        left, y = self.x(each.begin_cycle), self._y(panel)
        top, bottom = y(each.end), y(each.begin)
        width, height = max((each.end_cycle - each.begin_cycle) * self.scale, 0.5), max(bottom - top, _LOW)
        part = height / each.copies
        cuts = "".join(f"M{left:.1f} {top + part * place:.1f}h{width:.1f}" for place in range(1, each.copies))
        copies = f" in {each.copies} copies" if each.copies > 1 else ""
        return Box(
            role=each.role,
            x=left,
            y=min(top, bottom - height),
            width=width,
            height=height,
            title=f"layer {number}, {layer.name}: {ROLES[each.role]}, {', '.join(each.tensors) or each.buffer}; "
            f"{size((each.end - each.begin) * panel.element_bytes)}{copies} of {panel.name}; "
            f"cycles {count(each.begin_cycle)} to {count(each.end_cycle)}",
            cuts=cuts if part >= 3 else "",
        )

    def _envelopes(self, layers: Sequence[LayerMemory], title: str) -> Iterator[Box]:
        """Yields for each memory from the first to the last address of what several layers keep in it."""
        left = self.x(layers[0].begin_cycle)
        for panel in self.panels.values():
            found = [
                each
                for layer in layers
                for each in layer.allocations
                if each.memory == panel.name and each.begin_cycle is not None
            ]
            if found:
                y = self._y(panel)
                low, high = min(each.begin for each in found), max(each.end for each in found)
                place = f"{title}; {len(found)} buffers in elements {count(low)} to {count(high)} of {panel.name}"
                width = max(self.x(layers[-1].end_cycle) - left, 0.5)
                yield Box(None, left, y(high), width, max(y(low) - y(high), _LOW), place)

    @staticmethod
    def _y(panel: Panel) -> Callable[[int], float]:
        return lambda element: panel.top + _PANEL * (1 - element / panel.elements)
