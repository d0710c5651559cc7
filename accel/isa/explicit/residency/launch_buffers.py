"""Buffers of launches beside each other: what one has loaded is still there when another has run meanwhile."""

from collections.abc import Iterator

import numpy as np

from accel.accelerator.field_bits import fits_field, put_bits
from accel.accelerator.instructions import Copy
from accel.isa.decode import Decoded
from accel.isa.explicit.hazards.accesses import boxes_of_executions
from accel.isa.explicit.operations import Executions, executions_of
from accel.isa.explicit.residency.direct_moves import direct_moves
from accel.util.arrays import Int64, Words


def buffers_apart(decoded: Decoded, launch: Int64) -> tuple[Words, dict[str, Int64]]:
    """Returns the words (n, words_each) of a row in which its launches' buffers lie behind one another.

    And by memory how many elements further those of each launch (launches,) lie.

    Each launch's begin where those of the one before end, or at the first element again where they would not fit.
    Memories that results stay in are left to these, and so are those that are seen as another type.

    Args:
        decoded: the row; no launch reads what another has left on the chip.
        launch: of each instruction (n,) the number of its launch.
    """
    accelerator = decoded.accelerator
    shared = {memory.view_of for memory in accelerator.memories} | {
        memory.name for memory in accelerator.memories if memory.view_of is not None
    }
    shared |= {accelerator.memories[move.target.memory].name for move in direct_moves(accelerator)}
    words, offsets = decoded.words.copy(), dict[str, Int64]()
    for number, memory in enumerate(accelerator.memories):
        if memory.name in shared:
            continue
        moved = _offsets(decoded, launch, number, memory.depth)
        if moved is not None and (fits := _moved(decoded, words, number, moved[launch])) is not None:
            words, offsets[memory.name] = fits, moved
    return words, offsets


def _offsets(decoded: Decoded, launch: Int64, memory: int, depth: int) -> Int64 | None:
    """By launch how many elements further its buffers in a memory lie; None where nothing is there."""
    count = int(launch.max()) + 1
    low, high = np.full(count, depth, np.int64), np.zeros(count, np.int64)
    for executions in executions_of(decoded):
        for box in boxes_of_executions(executions):
            if box.memory == memory:
                some = box.some()
                whose = launch[box.words.rows[some]]
                np.minimum.at(low, whose, box.low()[some])
                np.maximum.at(high, whose, box.high()[some])
    offsets, at = np.zeros(count, np.int64), 0
    for number in range(count):
        size = int(high[number] - low[number])
        if size > 0:
            at = 0 if at + size > depth else at
            offsets[number] = at - low[number]
            at += size
    return offsets if offsets.any() else None


def _moved(decoded: Decoded, words: Words, memory: int, offset: Int64) -> Words | None:
    """Words with the addresses of a memory further by an offset (n,) each; None where a field does not hold one."""
    words = words.copy()
    for executions in executions_of(decoded):
        instruction, rows = executions.sort.instruction, executions.words.rows
        for name in dict.fromkeys(_addresses(executions, memory)):
            field = decoded.accelerator.field(instruction, name)
            value = executions.words.column(name) + offset[rows]
            if not fits_field(field, value):
                return None
            put_bits(words, rows, field, value)
    return words


def _addresses(executions: Executions, memory: int) -> Iterator[str]:
    """The fields with addresses of a memory."""
    sort = executions.sort
    memories = executions.words.decoded.accelerator.memories
    if isinstance(sort.instruction, Copy) and sort.instruction.memory == memories[memory].name:
        yield sort.instruction.copy_fields.sram
    yield from (tensor.address for tensor in sort.tensors if tensor.memory == memory)
