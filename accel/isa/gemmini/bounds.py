"""The bounds of primitive instructions: what every one reads and writes, before anything runs."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accel.isa.compiled import compiled
from accel.isa.gemmini import layout as at
from accel.isa.gemmini.configure import configure, load_state, preload

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Flags = npt.NDArray[np.uint8]

# what is wrong
FINE, BAD_DATAFLOW, BAD_SHIFT, BAD_STATE, BAD_STRIDE, BAD_STATISTIC, BAD_ACTIVATION, BAD_ROWS, BAD_COLUMNS = range(9)
BAD_PIXELS, BAD_SCRATCHPAD, BAD_ACCUMULATOR, BAD_DRAM, BAD_OPERAND = range(9, 14)
# the answer: code, the value that is wrong, its limit, the instruction; and rows read that nothing wrote, the first
CODE, VALUE, LIMIT, INDEX, UNWRITTEN, FIRST_UNWRITTEN = range(6)
ANSWER = 6
_FARTHEST = 1 << 40  # no product with a stride can overflow


class Checked(NamedTuple):
    """What a check knows and finds.

    Attributes:
        answer: (ANSWER,) what is wrong.
        sizes: (SIZES,) of the accelerator.
        state: (CONFIGURATION,) what config and preload left.
        spad: (rows,) whether a row of the scratchpad was written.
        acc: (rows,) whether a row of the accumulator was.
        dram_bytes: size of DRAM.
    """

    answer: Int64
    sizes: Int64
    state: Int64
    spad: Flags
    acc: Flags
    dram_bytes: int


@compiled
def _bad(answer: Int64, code: int, value: int, limit: int) -> None:
    if answer[CODE] == FINE:
        answer[CODE], answer[VALUE], answer[LIMIT] = code, value, limit


@compiled
def _at_most(answer: Int64, code: int, value: int, limit: int) -> None:
    if value > limit:
        _bad(answer, code, value, limit)


@compiled
def _read(answer: Int64, seen: Flags, first: int, rows: int, stride: int, index: int) -> None:
    for r in range(rows):
        if not seen[first + r * stride]:
            answer[UNWRITTEN] += 1
            if answer[FIRST_UNWRITTEN] < 0:
                answer[FIRST_UNWRITTEN] = index


@compiled
def _rows(answer: Int64, seen: Flags, code: int, first: int, rows: int, stride: int) -> int:
    """Whether the rows are there; 0 rows are."""
    if rows > 0:
        _at_most(answer, code, first + (rows - 1) * stride, len(seen) - 1)
    return 1 if answer[CODE] == FINE and rows > 0 else 0


@compiled
def _config(answer: Int64, state: Int64, rs1: int, rs2: int) -> None:
    kind = rs1 & 3
    if kind == at.CONFIG_EX and not rs1 >> 7 & 1:
        stationary, a, b = rs1 >> 2 & 1, rs1 >> 8 & 1, rs1 >> 9 & 1
        if b and stationary == a:
            _bad(answer, BAD_DATAFLOW, stationary, 0)
        _at_most(answer, BAD_SHIFT, rs2 & 0xFFFFFFFF, 31)
    elif kind == at.CONFIG_LD:
        _at_most(answer, BAD_STATE, rs1 >> 3 & 3, 2)
        if not 0 <= rs2 < _FARTHEST:
            _bad(answer, BAD_STRIDE, rs2, _FARTHEST)
    elif kind == at.CONFIG_NORM:
        _at_most(answer, BAD_STATISTIC, rs1 >> 8 & 0xFF, 3)
        if not rs1 >> 17 & 1:
            _at_most(answer, BAD_ACTIVATION, state[at.ACC_ACT] | (rs1 >> 16 & 1) << 2, at.SOFTMAX)


@compiled
def _dram(answer: Int64, first: int, past: int, dram_bytes: int) -> None:
    """Bytes ``first`` to ``past`` of DRAM; none at all are always there."""
    if past > first and not 0 <= first < _FARTHEST:
        _bad(answer, BAD_DRAM, first, dram_bytes)
    elif past > first:
        _at_most(answer, BAD_DRAM, past, dram_bytes)


@compiled
def _mvin(checked: Checked, which: int, rs1: int, rs2: int, index: int) -> None:
    answer, sizes, state, spad, acc, dram_bytes = checked
    dim = sizes[at.DIM]
    base, columns, rows = rs2 & at.LOAD_ROW, rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF
    accumulator = rs2 & at.ACCUMULATOR != 0
    words = accumulator and not state[at.LD_SHRUNK + which]
    stride, block, pixels = state[at.LD_STRIDE + which], state[at.LD_BLOCK + which], state[at.LD_PIXELS + which]
    if rows == 0 or columns == 0:
        return
    _at_most(answer, BAD_ROWS, rows, dim)
    _at_most(answer, BAD_COLUMNS, columns, sizes[at.WIDE_WORDS] if words else sizes[at.WIDE])
    if pixels > 1:
        _at_most(answer, BAD_PIXELS, columns * pixels, dim)
    if rs1 != 0:
        past = rs1 + (rows - 1) * stride + columns * (4 if words else 1)
        _dram(answer, rs1, past, dram_bytes)
    seen, code = (acc, BAD_ACCUMULATOR) if accumulator else (spad, BAD_SCRATCHPAD)
    for b in range((columns + dim - 1) // dim):
        first = base + b * block
        if _rows(answer, seen, code, first, rows, 1) == 0:
            return
        if accumulator and rs2 & at.ACCUMULATE:
            _read(answer, seen, first, rows, 1, index)
        seen[max(first - pixels + 1, 0) : first + rows] = 1


@compiled
def _pool(checked: Checked, rs1: int, rs2: int, seen: Flags, code: int) -> None:
    answer, sizes, state, _, _, dram_bytes = checked
    base, columns = rs2 & at.STORE_ROW, rs2 >> 32 & 0xFFFF
    _at_most(answer, BAD_COLUMNS, columns, sizes[at.DIM])
    porows, pocols = state[at.POROWS], state[at.POCOLS]
    if porows == 0 or pocols == 0 or columns == 0:
        return
    last = ((porows - 1) * state[at.POOL_OUT] + pocols - 1) * state[at.ST_STRIDE]
    _dram(answer, rs1, rs1 + last + columns, dram_bytes)
    reach = state[at.POOL_SIZE] - 1
    row = min((porows - 1) * state[at.POOL_STRIDE] + reach - state[at.UPAD], state[at.OROWS] - 1)
    column = min((pocols - 1) * state[at.POOL_STRIDE] + reach - state[at.LPAD], state[at.OCOLS] - 1)
    if row >= 0 and column >= 0:
        _rows(answer, seen, code, base + row * state[at.OCOLS] + column, 1, 1)


@compiled
def _mvout(checked: Checked, rs1: int, rs2: int, index: int) -> None:
    answer, sizes, state, spad, acc, dram_bytes = checked
    dim = sizes[at.DIM]
    base, columns, rows = rs2 & at.STORE_ROW, rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF
    accumulator = rs2 & at.ACCUMULATOR != 0
    seen, code = (acc, BAD_ACCUMULATOR) if accumulator else (spad, BAD_SCRATCHPAD)
    if state[at.POOL_STRIDE] != 0:
        _pool(checked, rs1, rs2, seen, code)
        return
    if rows == 0 or columns == 0:
        return
    _at_most(answer, BAD_ROWS, rows, dim)
    _at_most(answer, BAD_COLUMNS, columns, sizes[at.WIDE])
    size = 4 if accumulator and rs2 & at.FULL else 1
    _dram(answer, rs1, rs1 + (rows - 1) * state[at.ST_STRIDE] + columns * size, dram_bytes)
    for b in range((columns + dim - 1) // dim):
        if _rows(answer, seen, code, base + b * dim, rows, 1) == 0:
            return
        _read(answer, seen, base + b * dim, rows, 1, index)


@compiled
def _operand(checked: Checked, word: int, transposed: int, stride: int, index: int) -> None:
    """A tile that the mesh reads, as an operand word; it comes from the scratchpad."""
    answer, dim, spad = checked.answer, checked.sizes[at.DIM], checked.spad
    address, columns, rows = word & at.GARBAGE, word >> 32 & 0xFFFF, word >> 48 & 0xFFFF
    _at_most(answer, BAD_ROWS, rows, dim)
    _at_most(answer, BAD_COLUMNS, columns, dim)
    if address == at.GARBAGE or rows == 0 or columns == 0:
        return
    if address >> 29:
        _bad(answer, BAD_OPERAND, address, 0)
        return
    lines = columns if transposed else rows
    if _rows(answer, spad, BAD_SCRATCHPAD, address, lines, stride):
        _read(answer, spad, address, lines, stride, index)


@compiled
def _compute(checked: Checked, preloaded: int, rs1: int, rs2: int, index: int) -> None:
    answer, sizes, state, spad, acc, _ = checked
    dim, ws = sizes[at.DIM], state[at.WS]
    if preloaded:
        word = state[at.PRE_ROWS] << 48 | state[at.PRE_COLS] << 32 | state[at.PRE_ADDR]
        _operand(checked, word, 1 if ws and state[at.B_TRANSPOSE] else 0, 1, index)
    _operand(checked, rs1, state[at.A_TRANSPOSE], state[at.A_STRIDE], index)
    _operand(checked, rs2, 0 if ws else state[at.B_TRANSPOSE], 1, index)
    address, rows = state[at.OUT_ADDR], state[at.OUT_ROWS]
    if address == at.GARBAGE:
        return
    _at_most(answer, BAD_ROWS, rows, dim)
    _at_most(answer, BAD_COLUMNS, state[at.OUT_COLS], dim)
    accumulator = address & at.ACCUMULATOR != 0
    seen, code = (acc, BAD_ACCUMULATOR) if accumulator else (spad, BAD_SCRATCHPAD)
    first, stride = address & at.LOAD_ROW, state[at.C_STRIDE]
    if _rows(answer, seen, code, first, rows, stride):
        if accumulator and address & at.ACCUMULATE:
            _read(answer, seen, first, rows, stride, index)
        for r in range(rows):
            seen[first + r * stride] = 1


@compiled
def check_bounds(checked: Checked, words: Int64, bits: Int32) -> None:
    """Look at ``words`` (n, 3) up to the first that is wrong; ``checked`` says what is, and is updated, as ``bits``."""
    state, answer = checked.state, checked.answer
    for index in range(len(words)):
        funct, rs1, rs2 = words[index, 0], words[index, 1], words[index, 2]
        if funct == at.PRELOAD:
            preload(state, rs1, rs2)
        elif funct in (at.COMPUTE_PRELOADED, at.COMPUTE_ACCUMULATED):
            _compute(checked, 1 if funct == at.COMPUTE_PRELOADED else 0, rs1, rs2, index)
        elif funct in (at.MVIN, at.MVIN2, at.MVIN3):
            _mvin(checked, load_state(funct), rs1, rs2, index)
        elif funct == at.MVOUT:
            _mvout(checked, rs1, rs2, index)
        elif funct == at.CONFIG:
            _config(answer, state, rs1, rs2)
            configure(state, bits, rs1, rs2)
        if answer[CODE] != FINE:
            answer[INDEX] = index
            return
