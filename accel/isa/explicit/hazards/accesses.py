"""What the instructions of a launch touch: elements of memories, and bytes of DRAM, as strided boxes.

A box is a first element, up to three loops of an extent and a step each, and a run of elements at every point of
them. It is exact for copies and for hardware loops.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from accel.accelerator.instructions import Compute, Copy, HardwareLoop, Layer
from accel.accelerator.shared_bytes import Cells, cells_of
from accel.isa.decode import Decoded
from accel.isa.explicit.hazards.layer_accesses import reach_of, used_of
from accel.isa.explicit.operations import LOOPS, ExecutedWords, Executions, executions_of
from accel.isa.family import ReadDram, Touches
from accel.util.arrays import Bools, Int64

# columns of an access; the first four are those of a range
RANGE, ACCESS = 4, 7 + 2 * LOOPS
MEMORY, WRITES, LOW, HIGH, READS, BEGIN, SPAN = range(7)
EXTENT, STEP = 7, 7 + LOOPS


@dataclass(frozen=True)
class AccessBox:
    """Accesses of m executions: ``memory`` is the number of the memory, or their count for DRAM.

    ``begin``, ``span`` (m,), ``extents`` and ``steps`` (loops, m) are in elements, of DRAM in bytes. An access of
    an empty box touches nothing.
    """

    words: ExecutedWords
    memory: int
    reads: bool
    writes: bool
    begin: Int64
    span: Int64
    extents: Int64
    steps: Int64

    def low(self) -> Int64:
        """The first that is touched (m,)."""
        return np.asarray(self.begin + self._reach(-1)) if len(self.extents) else self.begin

    def high(self) -> Int64:
        """The one after the last that is touched (m,)."""
        end = self.begin + self.span
        return np.asarray(end + self._reach(1)) if len(self.extents) else end

    def some(self) -> Bools:
        """Whether anything is touched (m,)."""
        return np.asarray((self.span > 0) & (self.extents > 0).all(axis=0))

    def filled(self) -> "AccessBox":
        """Returns the accesses that touch an element."""
        some = self.some()
        if some.all():
            return self
        return AccessBox(
            self.words.where(some), self.memory, self.reads, self.writes, self.begin[some], self.span[some],
            self.extents[:, some], self.steps[:, some],
        )  # fmt: skip

    def in_cells(self, cells: tuple[Cells, ...]) -> "AccessBox":
        """Returns the same in cells of the memory that has the bytes; of DRAM, and without views, it is itself."""
        if self.memory >= len(cells) or cells[self.memory] == Cells(self.memory, 1):
            return self
        holder, each = cells[self.memory].holder, cells[self.memory].each
        begin, span, steps = self.begin * each, self.span * each, self.steps * each
        return replace(self, memory=holder, begin=begin, span=span, steps=steps)

    def _reach(self, sign: int) -> Int64:
        """How far the loops go up or down from the first."""
        ends = (self.extents - 1) * self.steps
        return np.asarray((np.maximum(ends, 0) if sign > 0 else np.minimum(ends, 0)).sum(axis=0))


def boxes_of_executions(executions: Executions) -> Iterator[AccessBox]:
    """The boxes of one sort; the steps of DRAM may be beyond any DRAM, and then :meth:`AccessBox.high` is too."""
    if isinstance(executions.sort.instruction, Copy):
        return _copy_boxes(executions)
    if isinstance(executions.sort.instruction, Layer):
        return _layer_boxes(executions, executions.sort.instruction)
    return _compute_boxes(executions)


def extents_of(words: ExecutedWords, loops: tuple[HardwareLoop, ...]) -> Int64:
    """The extents (loops, m) of an instruction's hardware loops."""
    return np.stack([words.column(loop.extent) for loop in loops]) if loops else np.ones((0, len(words)), np.int64)


def _compute_boxes(executions: Executions) -> Iterator[AccessBox]:
    sort, words = executions.sort, executions.words
    assert isinstance(sort.instruction, Compute)
    extents = extents_of(words, sort.instruction.loops)
    for tensor in sort.tensors:
        steps = np.zeros_like(extents)
        for loop, step in enumerate(tensor.steps):
            steps[loop] = words.column(step) if isinstance(step, str) else step
        span = np.full(len(words), tensor.span, np.int64)
        for field, elements in tensor.longer:
            span += elements * words.column(field)
        begin = words.column(tensor.address)
        yield AccessBox(words, tensor.memory, tensor.reads, tensor.writes, begin, span, extents, steps)


@dataclass(frozen=True)
class Copying:
    """The shape of m copies: elements of their memory and rows, and DRAM in bytes; (m,) each.

    A copy of no rows or no columns is empty, whatever its padding. Its rectangle is moved once for each point of
    further dimensions: ``extents``, ``dram_steps`` and ``chip_steps`` (dimensions, m), the outermost first.
    """

    sram: Int64
    dram: Int64
    rows: Int64
    columns: Int64
    row_stride: Int64
    top: Int64
    left: Int64
    height: Int64
    width: Int64
    extents: Int64
    dram_steps: Int64
    chip_steps: Int64

    @property
    def moved(self) -> Int64:
        """Elements of DRAM that each moves (m,)."""
        return self._points(self.rows * self.columns)

    @property
    def touched(self) -> Int64:
        """Elements on the chip that each writes or reads (m,), with padding."""
        return self._points(self.height * self.width)

    def _points(self, inside: Int64) -> Int64:
        """So many times as many as the further dimensions say; beyond 2^60 it does not matter how many."""
        for extent in self.extents:
            inside = np.minimum(inside, 1 << 40) * extent
        return inside


def copying(words: ExecutedWords, copy: Copy) -> Copying:
    """The shape of the copies that ``words`` are."""
    accelerator, fields = words.decoded.accelerator, copy.copy_fields
    unit = copy.dram_bytes(accelerator.memory(copy.memory)) if copy.dram_unit == "element" else 1
    one = np.ones(len(words), np.int64)
    rows = words.column(fields.rows) if fields.rows is not None else one
    columns = words.column(fields.columns) if fields.columns is not None else one
    top, left = words.column(fields.pad_top), words.column(fields.pad_left)
    height = top + rows + words.column(fields.pad_bottom)
    width = left + columns + words.column(fields.pad_right)
    # beyond 2^56 all is out of range, and nothing overflows
    most = (1 << 56) // unit
    some: Int64 = (rows * columns > 0).astype(np.int64)
    extents, dram_steps, chip_steps = _dimensions(words, copy, height * width, unit)
    some = some * (extents > 0).all(axis=0)
    return Copying(
        sram=words.column(fields.sram),
        dram=np.minimum(words.column(fields.dram), most) * unit,
        rows=rows * some,
        columns=columns * some,
        row_stride=np.minimum(words.column(fields.row_stride), (1 << 40) // unit) * unit,
        top=top,
        left=left,
        height=height * some,
        width=width * some,
        extents=extents,
        dram_steps=dram_steps,
        chip_steps=chip_steps,
    )


def _dimensions(words: ExecutedWords, copy: Copy, inside: Int64, unit: int) -> tuple[Int64, Int64, Int64]:
    """Extents and steps of a copy's further dimensions; ``inside`` are the elements of its rectangle on the chip."""
    extents, dram_steps, chip_steps = list[Int64](), list[Int64](), list[Int64]()
    for dimension in reversed(copy.dimensions):
        extents.insert(0, words.column(dimension.extent))
        dram_steps.insert(0, np.minimum(words.column(dimension.dram_stride), (1 << 40) // unit) * unit)
        chip_steps.insert(0, inside if dimension.sram_stride is None else words.column(dimension.sram_stride))
        inside = np.minimum(inside * extents[0], 1 << 40)
    if not extents:
        none = np.zeros((0, len(words)), np.int64)
        return none, none, none
    return np.stack(extents), np.stack(dram_steps), np.stack(chip_steps)


def _copy_boxes(executions: Executions) -> Iterator[AccessBox]:
    words, copy = executions.words, executions.sort.instruction
    assert isinstance(copy, Copy)
    accelerator = words.decoded.accelerator
    names = [memory.name for memory in accelerator.memories]
    shape, loads = copying(words, copy), copy.direction == "load"
    none = np.zeros((0, len(words)), np.int64)
    chip = shape.height * shape.width
    memory = names.index(copy.memory)
    yield AccessBox(words, memory, not loads, loads, shape.sram, chip, shape.extents, shape.chip_steps)
    for tensor in executions.sort.tensors:
        some = np.where(chip > 0, tensor.span, 0)
        yield AccessBox(words, tensor.memory, True, False, words.column(tensor.address), some, none, none)
    size = copy.dram_bytes(accelerator.memory(copy.memory))
    extents, steps = shape.extents, shape.dram_steps
    if copy.copy_fields.rows is not None or not len(extents):
        extents = np.concatenate([extents, shape.rows[np.newaxis]])
        steps = np.concatenate([steps, shape.row_stride[np.newaxis]])
    yield AccessBox(words, len(names), loads, not loads, shape.dram, shape.columns * size, extents, steps)


def _layer_boxes(executions: Executions, layer: Layer) -> Iterator[AccessBox]:
    """Operands in DRAM, and what it uses of memories, which it both writes and reads."""
    words, meaning = executions.words, executions.sort.layer
    assert meaning is not None
    names = [memory.name for memory in words.decoded.accelerator.memories]
    none, zero = np.zeros((0, len(words)), np.int64), np.zeros(len(words), np.int64)
    for memory in layer.uses:
        yield AccessBox(words, names.index(memory), False, True, zero, used_of(words, layer, memory), none, none)
    for name in dict.fromkeys(name for each in meaning.statements for name in each.typed.tensors):
        if layer.operands[name].dram is not None:
            reach, writes = reach_of(words, layer, name), name == meaning.written
            yield AccessBox(words, len(names), not writes, writes, reach.begin, reach.span, reach.extents, reach.steps)


@dataclass(frozen=True)
class Accesses:
    """Everything that a launch touches, in the order of the program; empty boxes are out.

    Memories are those that have bytes of their own, in cells (:mod:`accel.accelerator.shared_bytes`), elements where
    nothing is a view of them.

    ``table`` is (accesses, columns); instruction i has the rows ``[start[i], start[i + 1])``.
    """

    table: Int64
    start: Int64


def accesses_of(decoded: Decoded) -> Accesses:
    """The accesses as boxes, with the 13 columns that this module names.

    Raises:
        SimulationError: see :func:`executions_of`.
    """
    return _gathered(decoded, ACCESS, _fill_box)


def ranges_of(decoded: Decoded) -> Accesses:
    """The accesses as ranges from the first element to the last, with the columns up to ``HIGH``.

    Raises:
        SimulationError: see :func:`executions_of`.
    """
    return _gathered(decoded, RANGE, _fill_range)


def _gathered(decoded: Decoded, columns: int, fill: Callable[[Int64, AccessBox], None]) -> Accesses:
    cells = cells_of(decoded.accelerator)
    boxes = [
        box.filled().in_cells(cells) for executions in executions_of(decoded) for box in boxes_of_executions(executions)
    ]
    counts = np.zeros(len(decoded) + 1, np.int64)
    for box in boxes:
        counts[1 + box.words.rows] += 1
    start = np.cumsum(counts)
    free, table = start.copy(), np.zeros((int(start[-1]), columns), np.int64)
    for box in boxes:
        at = free[box.words.rows]
        made = np.empty((columns, len(at)), np.int64)
        fill(made, box)
        table[at] = made.T
        free[box.words.rows] = at + 1
    return Accesses(table, start)


def _fill_range(made: Int64, box: AccessBox) -> None:
    """The columns up to ``HIGH``, (columns, m)."""
    made[MEMORY], made[WRITES] = box.memory, box.writes
    made[LOW], made[HIGH] = box.low(), box.high()


def _fill_box(made: Int64, box: AccessBox) -> None:
    """All columns."""
    _fill_range(made, box)
    made[READS], made[BEGIN], made[SPAN] = box.reads, box.begin, box.span
    loops = len(box.extents)
    made[EXTENT : EXTENT + LOOPS], made[STEP : STEP + LOOPS] = 1, 0
    made[EXTENT : EXTENT + loops], made[STEP : STEP + loops] = box.extents, box.steps


def touches_of(decoded: Decoded, rows: Int64, read: ReadDram) -> Touches:
    """Returns what the instructions ``rows`` of a launch touch on the chip; nothing of that lies in DRAM."""
    del read
    accesses = decoded.derived(ranges_of)
    instruction = np.repeat(np.arange(len(decoded)), np.diff(accesses.start))
    table = accesses.table
    some = (table[:, MEMORY] < len(decoded.accelerator.memories)) & np.isin(instruction, rows)
    table = table[some]
    return Touches(instruction[some], table[:, MEMORY], table[:, LOW], table[:, HIGH], table[:, WRITES] != 0)
