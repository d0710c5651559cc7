"""Bounds of primitive instructions: what every one reads and writes, checked and noted before anything runs."""

from typing import NamedTuple

from accel.isa.dram_windows import BEGIN, END, OFFSET
from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.stream import kernel_layout as at
from accel.isa.gemmini.stream.configuration_registers import apply_config, apply_preload, load_configuration_of
from accel.isa.kernels.compiled_kernels import Signature, compiled
from accel.isa.kernels.kernel_types import BYTES, MATRIX, VECTOR, WORDS, Fields
from accel.util.arrays import Bytes, Int32, Int64

# what is wrong
FINE, BAD_DATAFLOW, BAD_SHIFT, BAD_STATE, BAD_STRIDE, BAD_STATISTIC, BAD_ACTIVATION, BAD_ROWS, BAD_COLUMNS = range(9)
BAD_PIXELS, BAD_SCRATCHPAD, BAD_ACCUMULATOR, BAD_DRAM, BAD_DRAM_END, BAD_OPERAND = range(9, 15)
# numbers, (NUMBERS + findings,): what is wrong, its value and limit, the instruction; how many reads of what nothing
# wrote; then what the check is told: sizes, whether it looks for such reads, the instruction of the stream it is at
CODE, VALUE, LIMIT, INDEX, FOUND, KNOWN, NOW = range(7)
SIZES = 7
NUMBERS = SIZES + at.SIZES
FARTHEST = 1 << 40  # a stride of less, times rows, overflows with no address below
_HIGHEST = 1 << 62
_SP_ROWS, _ACC_ROWS = SIZES + at.SP_ROWS, SIZES + at.ACC_ROWS

# a read of what nothing wrote: the instruction of the stream, the memory, and the first and last row or byte
SECOND, MEMORY, LOW, HIGH = range(4)
FINDING = 4
IN_SCRATCHPAD, IN_ACCUMULATOR, IN_DRAM = range(3)


class BoundsState(NamedTuple):
    """What a check knows and finds, in few arrays: every call pays for each of them.

    Attributes:
        numbers: (NUMBERS + room * FINDING,) see above; behind them the first reads of what nothing wrote.
        state: (CONFIGURATION,) what config and preload left.
        windows: (windows, 3) where DRAM lies, see :mod:`accel.isa.dram_windows`.
        flags: what was written: rows of the scratchpad, rows of the accumulator, bytes of DRAM; empty if nobody asks.
    """

    numbers: Int64
    state: Int64
    windows: Int64
    flags: Bytes


@compiled
def report_fault(numbers: Int64, code: int, value: int, limit: int) -> None:
    """Note what is wrong; the first counts."""
    if numbers[CODE] == FINE:
        numbers[CODE], numbers[VALUE], numbers[LIMIT] = code, value, limit


@compiled
def at_most(numbers: Int64, code: int, value: int, limit: int) -> None:
    """Note a value above its limit."""
    if value > limit:
        report_fault(numbers, code, value, limit)


@compiled
def _report(numbers: Int64, memory: int, low: int, high: int) -> None:
    """Note a read of what nothing wrote, joined with those of the same instruction and memory."""
    count, second = numbers[FOUND], numbers[NOW]
    for old in range(max(count - 3, 0), count):
        place = NUMBERS + old * FINDING
        if numbers[place + SECOND] == second and numbers[place + MEMORY] == memory:
            numbers[place + LOW] = min(numbers[place + LOW], low)
            numbers[place + HIGH] = max(numbers[place + HIGH], high)
            return
    place = NUMBERS + count * FINDING
    if place < len(numbers):
        numbers[place + SECOND], numbers[place + MEMORY] = second, memory
        numbers[place + LOW], numbers[place + HIGH] = low, high
        numbers[FOUND] += 1


@compiled
def read_rows(checked: BoundsState, accumulator: int, first: int, rows: int, stride: int) -> None:
    """Rows that an instruction reads."""
    numbers, flags = checked.numbers, checked.flags
    if numbers[KNOWN]:
        base = numbers[_SP_ROWS] if accumulator else 0
        for r in range(first, first + max(rows * stride, 1), max(stride, 1)):
            if not flags[base + r]:
                _report(numbers, IN_ACCUMULATOR if accumulator else IN_SCRATCHPAD, r, r)


@compiled
def write_rows(checked: BoundsState, accumulator: int, first: int, rows: int, stride: int) -> None:
    """Rows that an instruction writes."""
    if checked.numbers[KNOWN]:
        base = first + (checked.numbers[_SP_ROWS] if accumulator else 0)
        for r in range(rows):
            checked.flags[base + r * stride] = 1


@compiled
def rows_there(numbers: Int64, accumulator: int, first: int, rows: int, stride: int) -> bool:
    """Whether the rows are there; 0 rows are."""
    if rows > 0:
        limit = numbers[_ACC_ROWS] if accumulator else numbers[_SP_ROWS]
        code = BAD_ACCUMULATOR if accumulator else BAD_SCRATCHPAD
        at_most(numbers, code, first + (rows - 1) * stride, limit - 1)
    return bool(numbers[CODE] == FINE and rows > 0)


@compiled
def dram_place(checked: BoundsState, first: int, past: int) -> int:
    """The index into DRAM of address ``first``, of which one window has the bytes to ``past``; -1 if there are none."""
    numbers, windows = checked.numbers, checked.windows
    if past <= first:
        return -1
    row = len(windows) - 1
    while row > 0 and windows[row, BEGIN] > first:
        row -= 1
    if not 0 <= first < _HIGHEST or windows[row, BEGIN] > first or first >= windows[row, END]:
        report_fault(numbers, BAD_DRAM, first, windows[row, END])
        return -1
    if past > windows[row, END]:
        report_fault(numbers, BAD_DRAM_END, first, past - 1)
        return -1
    return first + int(windows[row, OFFSET])


@compiled
def read_dram(checked: BoundsState, place: int, rows: int, stride: int, size: int) -> None:
    """Rows of ``size`` bytes that an instruction reads from index ``place`` on."""
    numbers, flags = checked.numbers, checked.flags
    if not numbers[KNOWN] or place < 0:
        return
    base = numbers[_SP_ROWS] + numbers[_ACC_ROWS]
    for r in range(rows if stride else 1):
        first = base + place + r * stride
        written = 0
        for byte in range(first, first + size):
            written += flags[byte]
        if written < size:
            low, high = first, first + size - 1
            while flags[low]:
                low += 1
            while flags[high]:
                high -= 1
            _report(numbers, IN_DRAM, low - base, high - base)


@compiled
def write_dram(checked: BoundsState, place: int, rows: int, stride: int, size: int) -> None:
    """Rows of ``size`` bytes that an instruction writes."""
    numbers, flags = checked.numbers, checked.flags
    if numbers[KNOWN] and place >= 0:
        base = numbers[_SP_ROWS] + numbers[_ACC_ROWS] + place
        for r in range(rows):
            flags[base + r * stride : base + r * stride + size] = 1


_DIM, _WIDE, _WIDE_WORDS = SIZES + at.DIM, SIZES + at.WIDE, SIZES + at.WIDE_WORDS


@compiled
def _config(numbers: Int64, state: Int64, rs1: int, rs2: int) -> None:
    kind = rs1 & 3
    if kind == rocc.CONFIG_EX and not rs1 >> 7 & 1:
        stationary, a, b = rs1 >> 2 & 1, rs1 >> 8 & 1, rs1 >> 9 & 1
        if b and stationary == a:
            report_fault(numbers, BAD_DATAFLOW, stationary, 0)
        at_most(numbers, BAD_SHIFT, rs2 & 0xFFFFFFFF, 31)
    elif kind == rocc.CONFIG_LD:
        at_most(numbers, BAD_STATE, rs1 >> 3 & 3, 2)
        if not 0 <= rs2 < FARTHEST:
            report_fault(numbers, BAD_STRIDE, rs2, FARTHEST)
    elif kind == rocc.CONFIG_NORM:
        at_most(numbers, BAD_STATISTIC, rs1 >> 8 & 0xFF, 3)
        if not rs1 >> 17 & 1:
            at_most(numbers, BAD_ACTIVATION, state[at.ACC_ACT] | (rs1 >> 16 & 1) << 2, rocc.SOFTMAX)


@compiled
def _mvin(checked: BoundsState, which: int, rs1: int, rs2: int) -> None:
    numbers, state = checked.numbers, checked.state
    dim = numbers[_DIM]
    base, columns, rows = rs2 & rocc.LOAD_ROW, rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF
    accumulator = 1 if rs2 & rocc.ACCUMULATOR else 0
    words = accumulator == 1 and not state[at.LD_SHRUNK + which]
    stride, block, pixels = state[at.LD_STRIDE + which], state[at.LD_BLOCK + which], state[at.LD_PIXELS + which]
    if rows == 0 or columns == 0:
        return
    at_most(numbers, BAD_ROWS, rows, dim)
    at_most(numbers, BAD_COLUMNS, columns, numbers[_WIDE_WORDS] if words else numbers[_WIDE])
    if pixels > 1:
        at_most(numbers, BAD_PIXELS, columns * pixels, dim)
    if rs1 != 0:
        size = columns * (4 if words else 1)
        place = dram_place(checked, rs1, rs1 + (rows - 1) * stride + size)
        read_dram(checked, place, rows, stride, size)
    for b in range((columns + dim - 1) // dim):
        first = base + b * block
        if not rows_there(numbers, accumulator, first, rows, 1):
            return
        if accumulator and rs2 & rocc.ACCUMULATE:
            read_rows(checked, accumulator, first, rows, 1)
        above = min(pixels - 1, first)
        write_rows(checked, accumulator, first - above, rows + above, 1)


@compiled
def _pool(checked: BoundsState, rs1: int, rs2: int, accumulator: int) -> None:
    numbers, state = checked.numbers, checked.state
    base, columns = rs2 & rocc.STORE_ROW, rs2 >> 32 & 0xFFFF
    at_most(numbers, BAD_COLUMNS, columns, numbers[_DIM])
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
    if not numbers[KNOWN]:
        return
    for top in range(-state[at.UPAD], -state[at.UPAD] + porows * step, step):
        for orow in range(max(top, 0), min(top + size, orows)):
            for left in range(-state[at.LPAD], -state[at.LPAD] + pocols * step, step):
                begin, end = max(left, 0), min(left + size, ocols)
                if begin < end:
                    read_rows(checked, accumulator, base + orow * ocols + begin, end - begin, 1)


@compiled
def _mvout(checked: BoundsState, rs1: int, rs2: int) -> None:
    numbers, state = checked.numbers, checked.state
    dim = numbers[_DIM]
    base, columns, rows = rs2 & rocc.STORE_ROW, rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF
    accumulator = 1 if rs2 & rocc.ACCUMULATOR else 0
    if state[at.POOL_STRIDE] != 0:
        _pool(checked, rs1, rs2, accumulator)
        return
    if rows == 0 or columns == 0:
        return
    at_most(numbers, BAD_ROWS, rows, dim)
    at_most(numbers, BAD_COLUMNS, columns, numbers[_WIDE])
    if not accumulator or rs2 >> 26 & 7 == rocc.RESET:  # with another command it gathers statistics and stores nothing
        size = columns * (4 if accumulator and rs2 & rocc.FULL else 1)
        place = dram_place(checked, rs1, rs1 + (rows - 1) * state[at.ST_STRIDE] + size)
        write_dram(checked, place, rows, state[at.ST_STRIDE], size)
    for b in range((columns + dim - 1) // dim):
        if not rows_there(numbers, accumulator, base + b * dim, rows, 1):
            return
        read_rows(checked, accumulator, base + b * dim, rows, 1)


@compiled
def _operand(checked: BoundsState, word: int, transposed: int, stride: int) -> None:
    """A tile that the mesh reads, as an operand word; it comes from the scratchpad."""
    numbers, dim = checked.numbers, checked.numbers[_DIM]
    address, columns, rows = word & rocc.GARBAGE, word >> 32 & 0xFFFF, word >> 48 & 0xFFFF
    at_most(numbers, BAD_ROWS, rows, dim)
    at_most(numbers, BAD_COLUMNS, columns, dim)
    if address == rocc.GARBAGE or rows == 0 or columns == 0:
        return
    if address >> 29:
        report_fault(numbers, BAD_OPERAND, address, 0)
        return
    lines = columns if transposed else rows
    if rows_there(numbers, 0, address, lines, stride):
        read_rows(checked, 0, address, lines, stride)


@compiled
def _compute(checked: BoundsState, preloaded: int, rs1: int, rs2: int) -> None:
    numbers, state = checked.numbers, checked.state
    dim, ws = numbers[_DIM], state[at.WS]
    if preloaded:
        word = state[at.PRE_ROWS] << 48 | state[at.PRE_COLS] << 32 | state[at.PRE_ADDR]
        _operand(checked, word, 1 if ws and state[at.B_TRANSPOSE] else 0, 1)
    _operand(checked, rs1, state[at.A_TRANSPOSE], state[at.A_STRIDE])
    _operand(checked, rs2, 0 if ws else state[at.B_TRANSPOSE], 1)
    address, rows = state[at.OUT_ADDR], state[at.OUT_ROWS]
    if address == rocc.GARBAGE:
        return
    at_most(numbers, BAD_ROWS, rows, dim)
    at_most(numbers, BAD_COLUMNS, state[at.OUT_COLS], dim)
    accumulator = 1 if address & rocc.ACCUMULATOR else 0
    first, stride = address & rocc.LOAD_ROW, state[at.C_STRIDE]
    if rows_there(numbers, accumulator, first, rows, stride):
        if accumulator and address & rocc.ACCUMULATE:
            read_rows(checked, accumulator, first, rows, stride)
        write_rows(checked, accumulator, first, rows, stride)


@compiled
def check_bounds(checked: BoundsState, words: Int64, origin: Int64, bits: Int32) -> None:
    """Look at ``words`` (n, 3) up to the first that is wrong; ``checked`` says what is, and is updated, as ``bits``."""
    state, numbers = checked.state, checked.numbers
    for index in range(len(words)):
        funct, rs1, rs2 = words[index, 0], words[index, 1], words[index, 2]
        numbers[NOW] = origin[index]
        if funct == rocc.PRELOAD:
            apply_preload(state, rs1, rs2)
        elif funct in (rocc.COMPUTE_PRELOADED, rocc.COMPUTE_ACCUMULATED):
            _compute(checked, 1 if funct == rocc.COMPUTE_PRELOADED else 0, rs1, rs2)
        elif funct in (rocc.MVIN, rocc.MVIN2, rocc.MVIN3):
            _mvin(checked, load_configuration_of(funct), rs1, rs2)
        elif funct == rocc.MVOUT:
            _mvout(checked, rs1, rs2)
        elif funct == rocc.CONFIG:
            _config(numbers, state, rs1, rs2)
            apply_config(state, bits, rs1, rs2)
        if numbers[CODE] != FINE:
            numbers[INDEX] = index
            return


def bounds_signature() -> Signature:
    """Returns what checks the bounds."""
    state = Fields(BoundsState, (VECTOR, VECTOR, MATRIX, BYTES))
    return Signature(check_bounds, state, MATRIX, VECTOR, WORDS)
