"""More contexts for the weights of a launch that waits for them: as many tiles can be loaded before its first product.

A region has two contexts, which its tiles take turns with. Where a launch is bound by its loads and the memory has
room, its tiles take turns with more: the first ones wait for no product of their own launch, and go ahead of others.
"""

from collections.abc import Sequence

import numpy as np

from accel.accelerator.field_bits import put_field
from accel.accelerator.instructions import Compute, Copy
from accel.isa.decode import Decoded
from accel.isa.family import Touches
from accel.isa.vta.document.instruction_view import instructions_of
from accel.isa.vta.function import functional_table as f
from accel.isa.vta.function.functional_table import microop_places
from accel.isa.vta.function.launch_table import launch_table
from accel.isa.vta.vta_buffer_places import Part
from accel.util.arrays import Int64

_TWO = 2  # contexts that a region has


def is_bound_by_weights(launch: Decoded, bus_bytes: int) -> bool:
    """Returns whether a launch's weights take longer to load than its passes, a cycle each."""
    table, accelerator = launch_table(launch), launch.accelerator
    size = accelerator.memory(instructions_of(accelerator).weights).element_bytes
    loads, computes = table[table[:, f.OP] == f.LOAD_WGT], table[table[:, f.OP] >= f.GEMM]
    passes = computes[:, f.COUNT] * computes[:, f.OUTER] * computes[:, f.INNER]
    return int((loads[:, f.ROWS] * loads[:, f.COLUMNS]).sum()) * size > int(passes.sum()) * bus_bytes


def with_more_contexts(
    launch: Decoded, microops: Int64, touches: Touches, parts: Sequence[Part], room: int
) -> tuple[Decoded, Int64] | None:
    """Returns a launch whose weights have more contexts, and its micro-ops, some more than it loads; None: it cannot.

    Args:
        launch: one whose tiles take turns with two.
        microops: what it walks.
        touches: what it touches of the memory of weights.
        parts: those of that memory, of which the last two are the contexts.
        room: elements of the memory that it may take.
    """
    if len(parts) < _TWO or parts[-1].uses != parts[-2].uses or _size(parts[-1]) != _size(parts[-2]):
        return None
    table, size = launch_table(launch), _size(parts[-1])
    rows = touches.of(touches.begin >= parts[-2].begin)
    turns = _turns(table, rows, parts[-1].begin)
    copies = (room - parts[-1].end + parts[0].begin) // size + _TWO
    if turns is None or min(copies, int(turns.max()) + 1) <= _TWO:
        return None
    slot = turns % min(copies, int(turns.max()) + 1)
    begins = np.array([parts[-2].begin, *(parts[-1].begin + size * np.arange(slot.max()))], np.int64)
    by = np.zeros(len(table), np.int64)
    by[rows.instruction] = begins[slot] - begins[turns % _TWO]
    try:
        return _shifted(launch, table, microops, by)
    except ValueError:  # a field that has too few bits
        return None


def _size(part: Part) -> int:
    return part.end - part.begin


def _turns(table: Int64, touches: Touches, second: int) -> Int64 | None:
    """Of each access (n,) the turn that it is of: one after the other in either context; None where they are not.

    A turn begins with a load behind a product that reads the context.
    """
    found, turn, read = np.zeros(len(touches.instruction), np.int64), np.array([-2, -1]), np.ones(_TWO, np.bool_)
    last = -1
    for number, row in enumerate(touches.instruction.tolist()):
        context = int(touches.begin[number] >= second)
        if table[row, f.OP] == f.LOAD_WGT:
            if read[context]:
                last += 1
                turn[context], read[context] = last, False
        else:
            read[context] = True
        if turn[context] < 0 or turn[context] % _TWO != context:
            return None
        found[number] = turn[context]
    return found


def _shifted(launch: Decoded, table: Int64, microops: Int64, by: Int64) -> tuple[Decoded, Int64]:
    """The launch with weights that lie ``by`` (n,) further.

    Raises:
        ValueError: a field does not hold where they lie.
    """
    accelerator, words = launch.accelerator, launch.words.copy()
    lsb, bits = microop_places(accelerator)[f.WGT_INDEX]
    moved = np.flatnonzero(by)
    for kind in np.unique(launch.kind[moved]).tolist():
        instruction, rows = accelerator.instructions[kind], moved[launch.kind[moved] == kind]
        if isinstance(instruction, Copy):
            field = accelerator.field(instruction, instruction.copy_fields.sram)
            put_field(words, rows, field, table[rows, f.SRAM] + by[rows])
            continue
        assert isinstance(instruction, Compute)
        assert instruction.microops is not None
        keys, which = np.unique(
            np.stack([table[rows, f.BEGIN], table[rows, f.COUNT], by[rows]]), axis=1, return_inverse=True
        )
        begins = len(microops) + np.cumsum(keys[1]) - keys[1]
        for begin, count, far in keys.T.tolist():
            some = microops[begin : begin + count]
            if (((some >> lsb) & ((1 << bits) - 1)) + far).max() >= 1 << bits:
                raise ValueError("a micro-op does not hold where weights lie")
            microops = np.append(microops, some + (far << lsb))
        first = begins[which.reshape(-1)]
        put_field(words, rows, accelerator.field(instruction, instruction.microops.begin), first)
        put_field(words, rows, accelerator.field(instruction, instruction.microops.end), first + table[rows, f.COUNT])
    return Decoded(accelerator, launch.kind, words, launch.layout, launch.first, launch.context), microops
