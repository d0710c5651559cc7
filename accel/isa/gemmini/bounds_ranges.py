"""What a check of bounds knows of the machine, and what it notes of a range of rows or bytes."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accel.isa.compiled import compiled
from accel.isa.gemmini import layout as at
from accel.isa.windows import BEGIN, END, OFFSET

Int64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.uint8]

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


class Checked(NamedTuple):
    """What a check knows and finds, in few arrays: every call pays for each of them.

    Attributes:
        numbers: (NUMBERS + room * FINDING,) see above; behind them the first reads of what nothing wrote.
        state: (CONFIGURATION,) what config and preload left.
        windows: (windows, 3) where DRAM lies, see :mod:`accel.isa.windows`.
        flags: what was written: rows of the scratchpad, rows of the accumulator, bytes of DRAM; empty if nobody asks.
    """

    numbers: Int64
    state: Int64
    windows: Int64
    flags: Flags


@compiled
def bad(numbers: Int64, code: int, value: int, limit: int) -> None:
    """Note what is wrong; the first counts."""
    if numbers[CODE] == FINE:
        numbers[CODE], numbers[VALUE], numbers[LIMIT] = code, value, limit


@compiled
def at_most(numbers: Int64, code: int, value: int, limit: int) -> None:
    """Note a value above its limit."""
    if value > limit:
        bad(numbers, code, value, limit)


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
def read_rows(checked: Checked, accumulator: int, first: int, rows: int, stride: int) -> None:
    """Rows that an instruction reads."""
    numbers, flags = checked.numbers, checked.flags
    if numbers[KNOWN]:
        base = numbers[_SP_ROWS] if accumulator else 0
        for r in range(first, first + max(rows * stride, 1), max(stride, 1)):
            if not flags[base + r]:
                _report(numbers, IN_ACCUMULATOR if accumulator else IN_SCRATCHPAD, r, r)


@compiled
def write_rows(checked: Checked, accumulator: int, first: int, rows: int, stride: int) -> None:
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
def dram_place(checked: Checked, first: int, past: int) -> int:
    """The index into DRAM of address ``first``, of which one window has the bytes to ``past``; -1 if there are none."""
    numbers, windows = checked.numbers, checked.windows
    if past <= first:
        return -1
    row = len(windows) - 1
    while row > 0 and windows[row, BEGIN] > first:
        row -= 1
    if not 0 <= first < _HIGHEST or windows[row, BEGIN] > first or first >= windows[row, END]:
        bad(numbers, BAD_DRAM, first, windows[row, END])
        return -1
    if past > windows[row, END]:
        bad(numbers, BAD_DRAM_END, first, past - 1)
        return -1
    return first + int(windows[row, OFFSET])


@compiled
def read_dram(checked: Checked, place: int, rows: int, stride: int, size: int) -> None:
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
def write_dram(checked: Checked, place: int, rows: int, stride: int, size: int) -> None:
    """Rows of ``size`` bytes that an instruction writes."""
    numbers, flags = checked.numbers, checked.flags
    if numbers[KNOWN] and place >= 0:
        base = numbers[_SP_ROWS] + numbers[_ACC_ROWS] + place
        for r in range(rows):
            flags[base + r * stride : base + r * stride + size] = 1
