"""DRAM accesses of copies as boxes; the bounds of all that a launch touches; and what it asks of the simulator."""

from collections.abc import Iterator

import numpy as np

from accel.accelerator.instructions import Compute, Copy, Layer
from accel.accelerator.memories import DTYPE_BYTES
from accel.errors import Diagnosis
from accel.isa.decode import Decoded
from accel.isa.explicit.hazards.accesses import AccessBox, boxes_of_executions, copying, extents_of
from accel.isa.explicit.hazards.layer_accesses import Reach, misaligned, reach_of, rectangles_of
from accel.isa.explicit.operations import ExecutedWords, Executions, executions_of
from accel.isa.family import Boxes
from accel.util.arrays import Bools, Float64, Int64

_AT_ONCE = 64  # values that the host computes in the time of one


def boxes_of(decoded: Decoded) -> Boxes:
    """One box for each copy that moves anything; all padding is on the chip."""
    return decoded.kept(_all_boxes)


def _all_boxes(decoded: Decoded) -> Boxes:
    parts = [np.zeros((6, 0), np.int64)]
    for executions in executions_of(decoded):
        copy = executions.sort.instruction
        if isinstance(copy, Copy):
            parts.append(_boxes(executions.words, copy))
        elif isinstance(copy, Layer):
            parts += _layer_boxes(executions, copy)
    columns = np.concatenate(parts, axis=1)
    instruction, begin, rows, row_stride, row_bytes, write = columns[:, np.argsort(columns[0])]
    return Boxes(instruction, begin, rows, row_stride, row_bytes, write != 0)


def _boxes(words: ExecutedWords, copy: Copy) -> Int64:
    """The columns (6, n) of the boxes of one sort of copy."""
    size = copy.dram_bytes(words.decoded.accelerator.memory(copy.memory))
    shape = copying(words, copy)
    direction = copy.direction == "store"
    if copy.dimensions:
        extents = np.concatenate([shape.extents, shape.rows[np.newaxis]])
        steps = np.concatenate([shape.dram_steps, shape.row_stride[np.newaxis]])
        whole = rectangles_of(Reach(shape.dram, shape.columns * size, extents, steps))
        who, begin, rows, step, span = (np.concatenate(each) for each in zip(*whole, strict=True))
        return np.stack([words.rows[who], begin, rows, step, span, np.full(len(who), direction)])
    write = np.full(len(words), direction)
    columns = np.stack([words.rows, shape.dram, shape.rows, shape.row_stride, shape.columns * size, write])
    return columns[:, shape.rows > 0]


def _layer_boxes(executions: Executions, layer: Layer) -> Iterator[Int64]:
    """The columns (6, n) of what executions of a layer touch of each operand."""
    meaning = executions.sort.layer
    assert meaning is not None
    for name in dict.fromkeys(name for each in meaning.statements for name in each.typed.tensors):
        if layer.operands[name].dram is None:
            continue
        for who, begin, rows, step, span in rectangles_of(reach_of(executions.words, layer, name)):
            write = np.full(len(who), name == meaning.written)
            yield np.stack([executions.words.rows[who], begin, rows, step, span, write])


def effort_of(decoded: Decoded) -> Float64:
    """Executions and elements copied (n,) by each instruction; large expressions count by what the host does."""
    effort = np.zeros(len(decoded))
    for executions in executions_of(decoded):
        words, instruction = executions.words, executions.sort.instruction
        if isinstance(instruction, Copy):
            times = copying(words, instruction).touched.astype(np.float64)
        else:
            # of a layer, too, all points of its loops
            times = extents_of(words, instruction.loops).prod(axis=0, dtype=np.float64)
        effort[words.rows] = times * max(1.0, executions.sort.points / _AT_ONCE)
    return effort


_Found = tuple[int, Diagnosis, str]


def check_bounds(decoded: Decoded, dram_bytes: int) -> None:
    """Check what every instruction does, and every element that it touches.

    Raises:
        SimulationError: the first instruction that chooses no operation, leaves a memory or the DRAM, makes more
            iterations than it can, or is not aligned to the scalars that it moves.
    """
    found: list[_Found] = []
    for executions in executions_of(decoded):
        instruction = executions.sort.instruction
        for box in boxes_of_executions(executions):
            found += _outside(box, dram_bytes)
        if isinstance(instruction, Copy):
            found += _copy(executions.words, instruction)
        elif isinstance(instruction, Layer):
            found += _aligned(executions.words, instruction) + _loops(executions, instruction)
        else:
            found += _loops(executions, instruction)
    if found:
        raise decoded.error(*min(found))


def _first(words: ExecutedWords, wrong: Bools) -> tuple[int, int] | None:
    """Position of the first wrong one among ``words``, and its place in the launch."""
    at = int(np.argmax(wrong)) if len(wrong) else 0
    return (at, int(words.rows[at])) if len(wrong) and wrong[at] else None


def _outside(box: AccessBox, dram_bytes: int) -> list[_Found]:
    memories = box.words.decoded.accelerator.memories
    low, high = box.low(), box.high()
    limit = memories[box.memory].depth if box.memory < len(memories) else dram_bytes
    first = _first(box.words, box.some() & ((low < 0) | (high > limit)))
    if first is None:
        return []
    at, row = first
    index = int(low[at]) if low[at] < 0 else int(high[at]) - 1
    if box.memory < len(memories):
        name = memories[box.memory].name
        return [(row, "memory-range", f"index {index} of {name} is out of range; it has {limit}")]
    return [(row, "dram-range", f"DRAM byte {index} is out of range; the program's DRAM has {limit}")]


def _copy(words: ExecutedWords, copy: Copy) -> list[_Found]:
    fields, size = copy.copy_fields, DTYPE_BYTES[copy.dram_dtype]
    found: list[_Found] = []
    if copy.dram_unit == "byte":
        for name in (fields.dram, fields.row_stride, *(dimension.dram_stride for dimension in copy.dimensions)):
            values = words.column(name)
            if (first := _first(words, values % size != 0)) is not None:
                message = f"{name} = {values[first[0]]} is no multiple of {size}, the bytes of {copy.dram_dtype}"
                found.append((first[1], "dram-range", message))
    rows = words.column(fields.rows)
    if copy.max_rows is not None and (first := _first(words, rows > copy.max_rows)) is not None:
        message = f"{fields.rows} = {rows[first[0]]}; it moves {copy.max_rows} rows at most"
        found.append((first[1], "field-range", message))
    for dimension in copy.dimensions:
        extent = words.column(dimension.extent)
        if dimension.limit is not None and (first := _first(words, extent > dimension.limit)) is not None:
            message = f"{dimension.extent} = {extent[first[0]]}; it moves {dimension.limit} at most"
            found.append((first[1], "field-range", message))
    return found


def _aligned(words: ExecutedWords, layer: Layer) -> list[_Found]:
    found: list[_Found] = []
    for name, size, wrong in misaligned(words, layer):
        if (first := _first(words, wrong)) is not None:
            message = f"{name} = {words.column(name)[first[0]]} is no multiple of {size}, the bytes of a scalar"
            found.append((first[1], "dram-range", message))
    return found


def _loops(executions: Executions, compute: Compute | Layer) -> list[_Found]:
    words, found = executions.words, list[_Found]()
    for loop in compute.loops:
        extent = words.column(loop.extent)
        if loop.limit is not None and (first := _first(words, extent > loop.limit)) is not None:
            message = f"{loop.extent} = {extent[first[0]]}; the loop makes {loop.limit} iterations at most"
            found.append((first[1], "field-range", message))
        for name in loop.repeated_in:
            if (first := _first(words, words.column(name) != extent)) is not None:
                told = f"{name} is {words.column(name)[first[0]]} and {loop.extent} {extent[first[0]]}; they must agree"
                found.append((first[1], "field-range", told))
    return found
