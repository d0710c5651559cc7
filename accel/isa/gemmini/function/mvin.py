"""What mvin does (libgemmini ``mvin``)."""

import numpy as np

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.function.core_state import Core
from accel.isa.gemmini.stream import kernel_layout as at
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Bytes, Int8, Int32

_ONES = np.float32(3 << 22)


@compiled
def saturated(value: np.float32) -> np.float32:
    """Round to the nearest int8, ties to even; what is not a number is the largest, as in hardfloat.

    Adding a number whose last bit counts ones rounds as fp32 does; it is faster than a call.
    """
    clipped = value if value < np.float32(127.0) else np.float32(127.0)  # noqa: FURB136  min() is another one for NaN
    clipped = max(clipped, np.float32(-128.0))
    return np.float32(np.float32(clipped + _ONES) - _ONES)


@compiled
def _into_scratchpad(  # noqa: PLR0913, PLR0917  arrays of their own: the whole core would cost more than the copy
    spad: Int8, row: int, column: int, columns: int, rows: int, dram: Bytes, place: int, stride: int, scale: np.float32
) -> None:
    """Rows of at most ``dim`` elements from DRAM address ``place`` on, or zeros from address 0.

    An unsigned index is not looked at for a negative sign, and the loops become vectors.
    """
    for r in range(rows):
        first = place + r * stride
        if place == 0:
            for c in range(columns):
                spad[row + r, np.uintp(column + c)] = 0
        elif scale == np.float32(1.0):
            for c in range(columns):
                spad[row + r, np.uintp(column + c)] = np.int8(dram[np.uintp(first + c)])
        else:
            for c in range(columns):
                value = saturated(np.float32(np.int8(dram[np.uintp(first + c)])) * scale)
                spad[row + r, np.uintp(column + c)] = np.int8(value)


@compiled
def _element(dram: Bytes, place: int, scale: np.float32, shrunk: int) -> int:
    """An element for the accumulator: an int32, or a scaled int8; zero from address 0."""
    if place == 0:
        return 0
    if shrunk:
        return int(np.int64(saturated(np.float32(np.int8(dram[place])) * scale)))
    low = np.int64(dram[place]) | np.int64(dram[place + 1]) << 8 | np.int64(dram[place + 2]) << 16
    return int(low | np.int64(np.int8(dram[place + 3])) << 24)


@compiled
def _into_accumulator(  # noqa: PLR0913, PLR0917  as above
    acc: Int32, row: int, column: int, columns: int, dram: Bytes, place: int, scale: np.float32, shrunk: int, add: int
) -> None:
    """One row of at most ``dim`` elements from DRAM address ``place``, or zeros from address 0."""
    size = 1 if shrunk else 4
    for c in range(columns):
        value = _element(dram, place + c * size if place else 0, scale, shrunk)
        if add:
            value += acc[row, column + c]
        acc[row, column + c] = np.int32(value)


@compiled
def mvin(core: Core, which: int, rs1: int, rs2: int) -> None:
    """Run a mvin of configuration ``which``: rows of up to several blocks, each block to rows of its own.

    A row's repeats, if there are any, go to the rows above it, each further right.
    """
    state, dram, dim = core.state, core.dram, core.spad.shape[1]
    base, columns, rows = rs2 & rocc.LOAD_ROW, rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF
    stride, block = state[at.LD_STRIDE + which], state[at.LD_BLOCK + which]
    shrunk, pixels = state[at.LD_SHRUNK + which], state[at.LD_PIXELS + which]
    accumulator, scale = rs2 & rocc.ACCUMULATOR, core.scales[at.LD_SCALE + which]
    size = 4 if accumulator and not shrunk else 1
    step = rows if block >= rows or columns <= dim else 1  # blocks that share rows are written row by row
    if accumulator or pixels > 1:
        step = 1
    for r in range(0, rows, max(step, 1)):
        for b in range((columns + dim - 1) // dim):
            width, row = min(columns - b * dim, dim), base + b * block + r
            place = rs1 + r * stride + b * dim * size if rs1 else 0
            if step > 1:
                _into_scratchpad(core.spad, row, 0, width, step, dram, place, stride, scale)
                continue
            for pixel in range(min(pixels, row + 1)):
                to, column = row - pixel, pixel * columns
                if accumulator:
                    add = rs2 & rocc.ACCUMULATE
                    _into_accumulator(core.acc, to, column, width, dram, place, scale, shrunk, add)
                else:
                    _into_scratchpad(core.spad, to, column, width, 1, dram, place, 0, scale)
