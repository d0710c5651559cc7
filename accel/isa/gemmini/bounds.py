"""The bounds of primitive instructions: what every one reads and writes, before anything runs."""

import numpy as np
import numpy.typing as npt

from accel.isa.compiled import compiled
from accel.isa.gemmini import bounds_ranges as of
from accel.isa.gemmini import layout as at
from accel.isa.gemmini.bounds_ranges import (
    Checked,
    at_most,
    bad,
    dram_place,
    read_dram,
    read_rows,
    rows_there,
    write_dram,
    write_rows,
)
from accel.isa.gemmini.configure import configure, load_state, preload

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

_DIM, _WIDE, _WIDE_WORDS = of.SIZES + at.DIM, of.SIZES + at.WIDE, of.SIZES + at.WIDE_WORDS


@compiled
def _config(numbers: Int64, state: Int64, rs1: int, rs2: int) -> None:
    kind = rs1 & 3
    if kind == at.CONFIG_EX and not rs1 >> 7 & 1:
        stationary, a, b = rs1 >> 2 & 1, rs1 >> 8 & 1, rs1 >> 9 & 1
        if b and stationary == a:
            bad(numbers, of.BAD_DATAFLOW, stationary, 0)
        at_most(numbers, of.BAD_SHIFT, rs2 & 0xFFFFFFFF, 31)
    elif kind == at.CONFIG_LD:
        at_most(numbers, of.BAD_STATE, rs1 >> 3 & 3, 2)
        if not 0 <= rs2 < of.FARTHEST:
            bad(numbers, of.BAD_STRIDE, rs2, of.FARTHEST)
    elif kind == at.CONFIG_NORM:
        at_most(numbers, of.BAD_STATISTIC, rs1 >> 8 & 0xFF, 3)
        if not rs1 >> 17 & 1:
            at_most(numbers, of.BAD_ACTIVATION, state[at.ACC_ACT] | (rs1 >> 16 & 1) << 2, at.SOFTMAX)


@compiled
def _mvin(checked: Checked, which: int, rs1: int, rs2: int) -> None:
    numbers, state = checked.numbers, checked.state
    dim = numbers[_DIM]
    base, columns, rows = rs2 & at.LOAD_ROW, rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF
    accumulator = 1 if rs2 & at.ACCUMULATOR else 0
    words = accumulator == 1 and not state[at.LD_SHRUNK + which]
    stride, block, pixels = state[at.LD_STRIDE + which], state[at.LD_BLOCK + which], state[at.LD_PIXELS + which]
    if rows == 0 or columns == 0:
        return
    at_most(numbers, of.BAD_ROWS, rows, dim)
    at_most(numbers, of.BAD_COLUMNS, columns, numbers[_WIDE_WORDS] if words else numbers[_WIDE])
    if pixels > 1:
        at_most(numbers, of.BAD_PIXELS, columns * pixels, dim)
    if rs1 != 0:
        size = columns * (4 if words else 1)
        place = dram_place(checked, rs1, rs1 + (rows - 1) * stride + size)
        read_dram(checked, place, rows, stride, size)
    for b in range((columns + dim - 1) // dim):
        first = base + b * block
        if not rows_there(numbers, accumulator, first, rows, 1):
            return
        if accumulator and rs2 & at.ACCUMULATE:
            read_rows(checked, accumulator, first, rows, 1)
        above = min(pixels - 1, first)
        write_rows(checked, accumulator, first - above, rows + above, 1)


@compiled
def _pool(checked: Checked, rs1: int, rs2: int, accumulator: int) -> None:
    numbers, state = checked.numbers, checked.state
    base, columns = rs2 & at.STORE_ROW, rs2 >> 32 & 0xFFFF
    at_most(numbers, of.BAD_COLUMNS, columns, numbers[_DIM])
    porows, pocols, stride = state[at.POROWS], state[at.POCOLS], state[at.ST_STRIDE]
    if porows == 0 or pocols == 0 or columns == 0:
        return
    last = ((porows - 1) * state[at.POOL_OUT] + pocols - 1) * stride
    place = dram_place(checked, rs1, rs1 + last + columns)
    for row in range(porows):
        write_dram(checked, place + row * state[at.POOL_OUT] * stride if place >= 0 else -1, pocols, stride, columns)
    step, size, orows, ocols = state[at.POOL_STRIDE], state[at.POOL_SIZE], state[at.OROWS], state[at.OCOLS]
    row = min((porows - 1) * step + size - 1 - state[at.UPAD], orows - 1)
    column = min((pocols - 1) * step + size - 1 - state[at.LPAD], ocols - 1)
    if row < 0 or column < 0 or not rows_there(numbers, accumulator, base + row * ocols + column, 1, 1):
        return
    if not numbers[of.KNOWN]:
        return
    for top in range(-state[at.UPAD], -state[at.UPAD] + porows * step, step):
        for orow in range(max(top, 0), min(top + size, orows)):
            for left in range(-state[at.LPAD], -state[at.LPAD] + pocols * step, step):
                begin, end = max(left, 0), min(left + size, ocols)
                if begin < end:
                    read_rows(checked, accumulator, base + orow * ocols + begin, end - begin, 1)


@compiled
def _mvout(checked: Checked, rs1: int, rs2: int) -> None:
    numbers, state = checked.numbers, checked.state
    dim = numbers[_DIM]
    base, columns, rows = rs2 & at.STORE_ROW, rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF
    accumulator = 1 if rs2 & at.ACCUMULATOR else 0
    if state[at.POOL_STRIDE] != 0:
        _pool(checked, rs1, rs2, accumulator)
        return
    if rows == 0 or columns == 0:
        return
    at_most(numbers, of.BAD_ROWS, rows, dim)
    at_most(numbers, of.BAD_COLUMNS, columns, numbers[_WIDE])
    if not accumulator or rs2 >> 26 & 7 == at.RESET:  # with another command it gathers statistics and stores nothing
        size = columns * (4 if accumulator and rs2 & at.FULL else 1)
        place = dram_place(checked, rs1, rs1 + (rows - 1) * state[at.ST_STRIDE] + size)
        write_dram(checked, place, rows, state[at.ST_STRIDE], size)
    for b in range((columns + dim - 1) // dim):
        if not rows_there(numbers, accumulator, base + b * dim, rows, 1):
            return
        read_rows(checked, accumulator, base + b * dim, rows, 1)


@compiled
def _operand(checked: Checked, word: int, transposed: int, stride: int) -> None:
    """A tile that the mesh reads, as an operand word; it comes from the scratchpad."""
    numbers, dim = checked.numbers, checked.numbers[_DIM]
    address, columns, rows = word & at.GARBAGE, word >> 32 & 0xFFFF, word >> 48 & 0xFFFF
    at_most(numbers, of.BAD_ROWS, rows, dim)
    at_most(numbers, of.BAD_COLUMNS, columns, dim)
    if address == at.GARBAGE or rows == 0 or columns == 0:
        return
    if address >> 29:
        bad(numbers, of.BAD_OPERAND, address, 0)
        return
    lines = columns if transposed else rows
    if rows_there(numbers, 0, address, lines, stride):
        read_rows(checked, 0, address, lines, stride)


@compiled
def _compute(checked: Checked, preloaded: int, rs1: int, rs2: int) -> None:
    numbers, state = checked.numbers, checked.state
    dim, ws = numbers[_DIM], state[at.WS]
    if preloaded:
        word = state[at.PRE_ROWS] << 48 | state[at.PRE_COLS] << 32 | state[at.PRE_ADDR]
        _operand(checked, word, 1 if ws and state[at.B_TRANSPOSE] else 0, 1)
    _operand(checked, rs1, state[at.A_TRANSPOSE], state[at.A_STRIDE])
    _operand(checked, rs2, 0 if ws else state[at.B_TRANSPOSE], 1)
    address, rows = state[at.OUT_ADDR], state[at.OUT_ROWS]
    if address == at.GARBAGE:
        return
    at_most(numbers, of.BAD_ROWS, rows, dim)
    at_most(numbers, of.BAD_COLUMNS, state[at.OUT_COLS], dim)
    accumulator = 1 if address & at.ACCUMULATOR else 0
    first, stride = address & at.LOAD_ROW, state[at.C_STRIDE]
    if rows_there(numbers, accumulator, first, rows, stride):
        if accumulator and address & at.ACCUMULATE:
            read_rows(checked, accumulator, first, rows, stride)
        write_rows(checked, accumulator, first, rows, stride)


@compiled
def check_bounds(checked: Checked, words: Int64, origin: Int64, bits: Int32) -> None:
    """Look at ``words`` (n, 3) up to the first that is wrong; ``checked`` says what is, and is updated, as ``bits``."""
    state, numbers = checked.state, checked.numbers
    for index in range(len(words)):
        funct, rs1, rs2 = words[index, 0], words[index, 1], words[index, 2]
        numbers[of.NOW] = origin[index]
        if funct == at.PRELOAD:
            preload(state, rs1, rs2)
        elif funct in (at.COMPUTE_PRELOADED, at.COMPUTE_ACCUMULATED):
            _compute(checked, 1 if funct == at.COMPUTE_PRELOADED else 0, rs1, rs2)
        elif funct in (at.MVIN, at.MVIN2, at.MVIN3):
            _mvin(checked, load_state(funct), rs1, rs2)
        elif funct == at.MVOUT:
            _mvout(checked, rs1, rs2)
        elif funct == at.CONFIG:
            _config(numbers, state, rs1, rs2)
            configure(state, bits, rs1, rs2)
        if numbers[of.CODE] != of.FINE:
            numbers[of.INDEX] = index
            return
