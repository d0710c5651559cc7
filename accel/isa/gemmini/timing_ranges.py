"""The rows that instructions read and write, as the reservation station sees them (ReservationStation.scala).

A range is the hull of what is touched, from the first row to the last, as in the hardware: two that overlap so wait
for each other even if their rows do not.
"""

import numpy as np
import numpy.typing as npt

from accel.isa.compiled import compiled
from accel.isa.gemmini import layout as isa
from accel.isa.gemmini import timing_layout as at
from accel.isa.gemmini.configure import load_state

Int64 = npt.NDArray[np.int64]


@compiled
def _put(row: Int64, which: int, memory: int, first: int, rows: int) -> None:
    row[which], row[which + 1], row[which + 2] = (memory, first, first + rows) if rows > 0 else (-1, 0, 0)


@compiled
def _operand(row: Int64, which: int, word: int, rows: int, stride: int) -> None:
    address = word & isa.GARBAGE
    if address != isa.GARBAGE:
        memory = 1 if address & isa.ACCUMULATOR else 0
        _put(row, which, memory, address & isa.LOAD_ROW, (rows - 1) * stride + 1 if rows > 0 else 0)


@compiled
def _move(row: Int64, state: Int64, funct: int, rs2: int, dim: int) -> None:
    columns, rows = rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF
    blocks = (columns + dim - 1) // dim
    memory = 1 if rs2 & isa.ACCUMULATOR else 0
    if funct == isa.MVOUT:
        row[at.KIND] = at.MOVES_OUT
        rows = (blocks - 1) * dim + rows
        if state[isa.POOL_STRIDE]:
            rows = state[isa.OROWS] * state[isa.OCOLS]
        _put(row, at.SRC, memory, rs2 & isa.STORE_ROW, rows)
    else:
        row[at.KIND] = at.MOVES_IN
        rows += (blocks - 1) * state[isa.LD_BLOCK + load_state(funct)]
        _put(row, at.DST, memory, rs2 & isa.LOAD_ROW, rows)


@compiled
def ranges(row: Int64, state: Int64, words: Int64, dim: int) -> None:
    """Fill ``row`` (RANGES,) for the instruction ``words`` (3,): funct, rs1, rs2."""
    funct, rs1, rs2 = words[0], words[1], words[2]
    row[at.DST] = row[at.SRC] = row[at.SRC2] = -1
    row[at.KIND], row[at.WIDTH] = at.IGNORED, 0
    if funct == isa.CONFIG:
        row[at.KIND] = at.CONFIGURES
    elif funct == isa.PRELOAD:
        row[at.KIND], row[at.WIDTH] = at.PRELOADS, dim if rs1 & isa.GARBAGE != isa.GARBAGE else 0
        transposed = state[isa.WS] and state[isa.B_TRANSPOSE]
        _operand(row, at.SRC, rs1, rs1 >> (32 if transposed else 48) & 0xFFFF, 1)
        _operand(row, at.DST, rs2, rs2 >> 48 & 0xFFFF, state[isa.C_STRIDE])
    elif funct in (isa.COMPUTE_PRELOADED, isa.COMPUTE_ACCUMULATED):
        row[at.KIND] = at.COMPUTES
        transposed = state[isa.A_TRANSPOSE]
        row[at.WIDTH] = dim if transposed or not state[isa.WS] else max(rs1 >> 48 & 0xFFFF, 4)
        _operand(row, at.SRC, rs1, rs1 >> (32 if transposed else 48) & 0xFFFF, state[isa.A_STRIDE])
        _operand(row, at.SRC2, rs2, rs2 >> 48 & 0xFFFF, 1)
    elif funct in (isa.MVIN, isa.MVIN2, isa.MVIN3, isa.MVOUT):
        _move(row, state, funct, rs2, dim)


@compiled
def _meet(a: Int64, i: int, b: Int64, j: int) -> bool:
    return bool(a[i] >= 0 and a[i] == b[j] and a[i + 1] < b[j + 2] and b[j + 1] < a[i + 2])


@compiled
def conflict(new: Int64, old: Int64) -> bool:
    """Whether ``new`` reads what ``old`` writes, or writes what ``old`` reads or writes."""
    if _meet(new, at.SRC, old, at.DST) or _meet(new, at.SRC2, old, at.DST) or _meet(new, at.DST, old, at.DST):
        return True
    return _meet(new, at.DST, old, at.SRC) or _meet(new, at.DST, old, at.SRC2)
