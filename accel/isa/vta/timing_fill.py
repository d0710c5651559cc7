"""Single instructions' costs and reads, row by row; :mod:`accel.isa.vta.timing_table` makes the arrays.

Every function is compiled by numba and sees only arrays.
"""

import numpy as np
import numpy.typing as npt

from accel.isa.compiled import compiled
from accel.isa.vta import timing_layout as layout

Int64 = npt.NDArray[np.int64]

# the columns that an instruction may have, by role
ROLES = 17
DRAM, ROWS, COLUMNS, STRIDE, TOP, BOTTOM, LEFT, RIGHT = range(8)
BEGIN, END, OUTER, INNER, IMMEDIATE, POP_A, POP_B, PUSH_A, PUSH_B = range(8, ROLES)
# what is the same for all instructions of a sort
SORT = 17
ACTION, UNIT, SYNC, QUEUES = range(4)  # a queue for each of the four token roles
PIPELINE, WITH_IMMEDIATE, TWO_OPERANDS = range(7, 10)
ELEMENT, STORE, STORE_BURST, STORE_ELEMENT, PRIORITY, TAIL, ZEROS_LEAD = range(10, SORT)
# values of ACTION
NOTHING, PASSES, STORES, LOADS = range(4)


@compiled
def floors(count: int, step: int, first: int, divisor: int) -> int:
    """The sum of ``(first + i * step) // divisor`` over i < count, in the steps of Euclid's algorithm."""
    total = 0
    while True:
        total += count * (count - 1) // 2 * (step // divisor) + count * (first // divisor)
        step, first = step % divisor, first % divisor
        last = step * count + first
        if last < divisor:
            return int(total)
        count, first, step, divisor = last // divisor, last % divisor, divisor, step


@compiled
def _store_cycles(copy: Int64, sort: Int64, boundary: int) -> int:
    """A start, and for each burst its handshake and, for each element, a read of the memory and its beats."""
    rows, size, address, stride = (copy[layout.ROWS], copy[layout.ROW_BYTES], copy[layout.ADDRESS], copy[layout.STRIDE])
    ends, begins = floors(rows, stride, address + size - 1, boundary), floors(rows, stride, address, boundary)
    elements = rows * size // sort[ELEMENT]
    return int(sort[STORE] + sort[STORE_BURST] * (rows + ends - begins) + sort[STORE_ELEMENT] * elements)


@compiled
def fill(rows: Int64, columns: tuple[Int64, ...], sort: Int64, lead: int, boundary: int, table: Int64) -> None:
    """Fill ``table[rows]``, instructions of one sort, from their ``columns``, one (n,) for each role.

    ``lead``: cycles from a load's start to its first command. ``boundary``: bytes that no burst crosses. What an
    instruction has no use for stays undefined.
    """
    for row in rows:
        entry = table[row]
        entry[layout.UNIT] = sort[UNIT]
        entry[layout.PRIORITY] = 0
        entry[layout.DURATION] = sort[SYNC]
        for token in range(4):
            queue = sort[QUEUES + token]
            entry[layout.POP_A + token] = queue if queue >= 0 and columns[POP_A + token][row] != 0 else -1
        if sort[ACTION] == PASSES:
            passes = columns[OUTER][row] * columns[INNER][row] * max(columns[END][row] - columns[BEGIN][row], 0)
            each = sort[WITH_IMMEDIATE] if columns[IMMEDIATE][row] != 0 else sort[TWO_OPERANDS]
            entry[layout.DURATION] = sort[PIPELINE] + each * passes
        elif sort[ACTION] != NOTHING and columns[ROWS][row] * columns[COLUMNS][row] != 0:
            entry[layout.ADDRESS] = columns[DRAM][row] * sort[ELEMENT]
            entry[layout.ROWS] = columns[ROWS][row]
            entry[layout.ROW_BYTES] = columns[COLUMNS][row] * sort[ELEMENT]
            entry[layout.STRIDE] = columns[STRIDE][row] * sort[ELEMENT]
            if sort[ACTION] == STORES:
                entry[layout.DURATION] = _store_cycles(entry, sort, boundary)
                continue
            entry[layout.PRIORITY] = sort[PRIORITY]
            entry[layout.DURATION] = lead + columns[TOP][row]
            entry[layout.TAIL] = sort[TAIL]
            sides, below = columns[LEFT][row] + columns[RIGHT][row], columns[BOTTOM][row]
            width = sides + columns[COLUMNS][row]
            bare = sides == 0 and below > 0
            entry[layout.ZEROS_LEAD] = sort[ZEROS_LEAD]
            entry[layout.ZEROS] = width * columns[TOP][row] + (
                0 if bare else sides * columns[ROWS][row] + width * below
            )
            entry[layout.BARE_ROWS] = columns[ROWS][row] if bare else 0
            entry[layout.ZEROS_BELOW] = width * below if bare else 0
