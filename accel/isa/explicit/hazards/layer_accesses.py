"""What instructions as large as a layer touch: their operands in DRAM, as strided boxes, and memories on the chip."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from accel.accelerator.cost_ranges import cost_fields, costs_of_dram, depths_of_memories
from accel.accelerator.instructions import HardwareLoop, Layer, Window
from accel.accelerator.memories import DTYPE_BYTES
from accel.expression.cost_expression import parse_cost
from accel.expression.syntax_tree import ExpressionError
from accel.isa.explicit.operations import LOOPS, ExecutedWords
from accel.util.arrays import Bools, Int64

_MOST = 1 << 56  # bytes; beyond all is out of range, and nothing overflows


@dataclass(frozen=True)
class Reach:
    """What m executions touch of an operand in DRAM, bytes.

    It is ``span`` (m,) from ``begin`` (m,) on, at every point of loops of ``extents`` and ``steps`` (loops, m).
    """

    begin: Int64
    span: Int64
    extents: Int64
    steps: Int64


def extent_field(words: ExecutedWords, loop: HardwareLoop) -> Int64:
    """The extents (m,) of a loop."""
    return words.column(loop.extent)


def step_of(words: ExecutedWords, loop: HardwareLoop, operand: str) -> Int64:
    """The steps (m,) of an operand in a loop, in the unit of addresses; 0 where it does not step by itself."""
    if operand in loop.factors:
        return words.column(loop.factors[operand])
    return np.full(len(words), loop.steps.get(operand, 0), np.int64)


def pitch_of(words: ExecutedWords, window: Window, element: int) -> Int64:
    """From one position of a window to the next (m,), in the unit of addresses, of which an element has so many."""
    return words.column(window.pitch) if window.pitch is not None else np.full(len(words), element, np.int64)


def reach_of(words: ExecutedWords, layer: Layer, name: str) -> Reach:
    """What executions of a layer touch of an operand: exact, but for positions that a kernel steps over."""
    operand = layer.operands[name]
    assert operand.dram is not None
    memory = words.decoded.accelerator.memory(operand.memory)
    unit, element = layer.unit_bytes(name, memory), layer.element_bytes(name, memory)
    begin = np.minimum(words.column(operand.dram), _MOST // unit) * unit
    loops = {loop.extent: loop for loop in layer.loops}
    moved = {extent for window in operand.windows for extent in window.over}
    extents, steps = list[Int64](), list[Int64]()
    for loop in layer.loops:
        if loop.extent not in moved:
            extents.append(extent_field(words, loop))
            steps.append(np.minimum(step_of(words, loop, name), (1 << 40) // unit) * unit)
    for window in operand.windows:
        last = -words.column(window.before)
        for extent, field in window.over.items():
            last = last + (extent_field(words, loops[extent]) - 1) * words.column(field)
        first = np.maximum(-words.column(window.before), 0)
        pitch = np.minimum(pitch_of(words, window, element // unit), (1 << 40) // unit) * unit
        extents.append(np.maximum(np.minimum(last, words.column(window.extent) - 1) - first + 1, 0))
        steps.append(pitch)
        begin = begin + first * pitch
    none = np.zeros((0, len(words)), np.int64)
    return _folded(
        Reach(
            begin,
            np.full(len(words), element, np.int64),
            np.stack(extents) if extents else none,
            np.stack(steps) if steps else none,
        )
    )


def _folded(reach: Reach) -> Reach:
    """The same in as few loops as there may be: those that go on where the span ends are part of it, shortest first.

    Of more than three loops that are left the shortest become part of the span with what lies between.
    """
    order = np.argsort(reach.steps, axis=0, kind="stable")
    extents = np.take_along_axis(reach.extents, order, axis=0)
    steps = np.take_along_axis(reach.steps, order, axis=0)
    span = reach.span * (extents > 0).all(axis=0)
    for close in (True, False):
        for at in range(len(extents)):
            left = (extents > 1).sum(axis=0)
            fold = (extents[at] > 1) & (steps[at] <= span if close else left > LOOPS)
            span = np.where(fold, span + (extents[at] - 1) * steps[at], span)
            extents[at] = np.where(fold, 1, extents[at])
    used = np.argsort(extents <= 1, axis=0, kind="stable")[:LOOPS]
    return Reach(reach.begin, span, np.take_along_axis(extents, used, axis=0), np.take_along_axis(steps, used, axis=0))


def rectangles_of(reach: Reach) -> Iterator[tuple[Int64, Int64, Int64, Int64, Int64]]:
    """Yields rectangles of DRAM, each as the number of its execution, begin, rows, their step and their bytes (n,).

    A rectangle is the longest loop of an execution; the others are repeated.
    """
    who, begin = np.arange(len(reach.begin)), reach.begin
    order = np.argsort(reach.extents, axis=0, kind="stable")
    extents, steps = (np.take_along_axis(each, order, axis=0) for each in (reach.extents, reach.steps))
    for at in range(len(extents) - 1):
        counts = extents[at][who]
        number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        who, begin = np.repeat(who, counts), np.repeat(begin, counts)
        begin = begin + number * steps[at][who]
    one = np.ones(len(who), np.int64)
    rows, step = (extents[-1][who], steps[-1][who]) if len(extents) else (one, one)
    span = reach.span[who]
    there = (span > 0) & (rows > 0)
    yield who[there], begin[there], rows[there], step[there], span[there]


def used_of(words: ExecutedWords, layer: Layer, memory: str) -> Int64:
    """Elements (m,) of a memory that executions of a layer need.

    Raises:
        SimulationError: an expression that is no number for some of them.
    """
    cost, accelerator = parse_cost(layer.uses[memory]), words.decoded.accelerator
    fields = cost_fields(accelerator, layer)
    known = depths_of_memories(accelerator) | costs_of_dram(accelerator)
    try:
        found = cost.evaluate(
            {name: words.column(fields[name]) if name in fields else known[name] for name in cost.names}
        )
    except ExpressionError as error:
        at = int(words.rows[error.row or 0])
        raise words.decoded.error(at, "cost", f"what it uses of {memory}: {error.detail}") from error
    return np.ceil(np.asarray(found, np.float64) * np.ones(len(words))).clip(0, _MOST).astype(np.int64)


def misaligned(words: ExecutedWords, layer: Layer) -> Iterator[tuple[str, int, Bools]]:
    """Yields fields that count bytes, with the bytes of a scalar, and which (m,) are no multiple of them."""
    if layer.dram_unit == "element":
        return
    for name, operand in layer.operands.items():
        if operand.dram is None:
            continue
        size = DTYPE_BYTES[layer.type_in_dram(name, words.decoded.accelerator.memory(operand.memory))]
        fields = [operand.dram, *(window.pitch for window in operand.windows if window.pitch is not None)]
        fields += [loop.factors[name] for loop in layer.loops if name in loop.factors]
        for field in fields:
            yield field, size, words.column(field) % size != 0
