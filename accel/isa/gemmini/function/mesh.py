"""What the mesh does: products of tiles, weight stationary or output stationary (libgemmini ``compute``)."""

import numpy as np

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.function.core_state import Core
from accel.isa.gemmini.stream import kernel_layout as at
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int8, Int32, Int64, Signed


@compiled
def _gather(tile: Int32, spad: Int8, address: int, rows: int, columns: int, stride: int, transposed: int) -> None:
    """Copy an operand into ``tile`` (dim, dim), zero where it has no rows or columns."""
    dim = len(tile)
    if address == rocc.GARBAGE:
        rows = 0
    for r in range(dim):
        if r >= rows:
            for c in range(dim):
                tile[r, c] = 0
        elif transposed:
            for c in range(dim):
                tile[r, c] = np.int32(spad[address + c * stride, r]) if c < columns else np.int32(0)
        else:
            line = address + r * stride
            for c in range(columns):
                tile[r, c] = np.int32(spad[line, c])
            for c in range(columns, dim):
                tile[r, c] = 0


@compiled
def _accumulate(  # noqa: PLR0913, PLR0917  rows of two matrices
    target: Int32, first: int, stride: int, rows: int, left: Signed, at_row: int, step: int, right: Int32, depth: int
) -> None:
    """Add rows of ``left`` times ``right`` (dim, dim) to ``rows`` rows of ``target`` from ``first`` on, by ``stride``.

    They are those from ``at_row`` on, by ``step``, of which ``depth`` columns count. Sixteen products in one expression
    keep the sums in registers.
    """
    dim = len(right)
    for r in range(rows):
        into, row = first + r * stride, at_row + r * step
        k = 0
        while k + 16 <= depth:
            a0, a1, a2, a3 = left[row, k], left[row, k + 1], left[row, k + 2], left[row, k + 3]
            a4, a5, a6, a7 = left[row, k + 4], left[row, k + 5], left[row, k + 6], left[row, k + 7]
            a8, a9, a10, a11 = left[row, k + 8], left[row, k + 9], left[row, k + 10], left[row, k + 11]
            a12, a13, a14, a15 = left[row, k + 12], left[row, k + 13], left[row, k + 14], left[row, k + 15]
            for j in range(dim):
                x = a0 * right[k, j] + a1 * right[k + 1, j] + a2 * right[k + 2, j] + a3 * right[k + 3, j]
                y = a4 * right[k + 4, j] + a5 * right[k + 5, j] + a6 * right[k + 6, j] + a7 * right[k + 7, j]
                z = a8 * right[k + 8, j] + a9 * right[k + 9, j] + a10 * right[k + 10, j] + a11 * right[k + 11, j]
                w = a12 * right[k + 12, j] + a13 * right[k + 13, j] + a14 * right[k + 14, j] + a15 * right[k + 15, j]
                target[into, j] += (x + y) + (z + w)
            k += 16
        while k + 4 <= depth:
            a0, a1, a2, a3 = left[row, k], left[row, k + 1], left[row, k + 2], left[row, k + 3]
            for j in range(dim):
                x = a0 * right[k, j] + a1 * right[k + 1, j]
                target[into, j] += x + (a2 * right[k + 2, j] + a3 * right[k + 3, j])
            k += 4
        while k < depth:
            a0 = left[row, k]
            for j in range(dim):
                target[into, j] += a0 * right[k, j]
            k += 1


@compiled
def _rounded_shift(value: int, shift: int) -> int:
    """A right shift that rounds to the nearest, ties to even."""
    if shift == 0:
        return value
    half = value >> shift - 1 & 1
    sticky = value & (1 << shift - 1) - 1 != 0
    quotient = value >> shift
    return quotient + (half & (sticky | quotient & 1))


@compiled
def _write(core: Core, result: Int32, r: int) -> None:
    """Send row ``r`` of ``result`` to its place."""
    columns, address, ws = core.state[at.OUT_COLS], core.state[at.OUT_ADDR], core.state[at.WS]
    row = (address & rocc.LOAD_ROW) + r * core.state[at.C_STRIDE]
    accumulator, add = address & rocc.ACCUMULATOR, address & rocc.ACCUMULATE
    narrow = not accumulator or (core.sizes[at.SHIFT_ALL] and not ws)
    shift = 0 if ws else core.state[at.SYS_SHIFT]
    lowest = 0 if core.state[at.SYS_ACT] == rocc.RELU and not accumulator else -128
    for c in range(columns):
        value = int(np.int64(result[r, c]))
        if narrow:
            value = min(max(_rounded_shift(value, shift), lowest), 127)
        if not accumulator:
            core.spad[row, c] = np.int8(value)
        elif add:
            core.acc[row, c] += np.int32(value)
        else:
            core.acc[row, c] = np.int32(value)


@compiled
def fetch_weights(state: Int64, spad: Int8, mesh: Int32) -> None:
    """Bring the operand of the last preload into ``mesh``."""
    transposed = state[at.WS] and state[at.B_TRANSPOSE]
    _gather(mesh, spad, state[at.PRE_ADDR], state[at.PRE_ROWS], state[at.PRE_COLS], 1, transposed)


@compiled
def fetch_data(state: Int64, spad: Int8, left: Int32, rs1: int) -> None:
    """Bring the operand of a compute into ``left``."""
    a, columns, rows = rs1 & rocc.GARBAGE, rs1 >> 32 & 0xFFFF, rs1 >> 48 & 0xFFFF
    _gather(left, spad, a, rows, columns, state[at.A_STRIDE], state[at.A_TRANSPOSE])


@compiled
def in_place(state: Int64, rs2: int, dim: int) -> bool:
    """Whether the results are whole rows of the accumulator, without a bias: the product goes there directly."""
    plain = state[at.WS] and rs2 & rocc.GARBAGE == rocc.GARBAGE and state[at.OUT_COLS] == dim
    return bool(plain and state[at.OUT_ADDR] & rocc.ACCUMULATOR and state[at.OUT_ADDR] != rocc.GARBAGE)


@compiled
def multiply_in_place(
    state: Int64, acc: Int32, mesh: Int32, operand: Signed, at_row: int, step: int, rows: int, depth: int
) -> None:
    """The product of ``rows`` rows of ``operand`` and ``mesh``, in the accumulator; other rows of it are zero."""
    first, stride = state[at.OUT_ADDR] & rocc.LOAD_ROW, state[at.C_STRIDE]
    if not state[at.OUT_ADDR] & rocc.ACCUMULATE:
        for r in range(state[at.OUT_ROWS]):
            for c in range(len(mesh)):
                acc[first + r * stride, c] = 0
    _accumulate(acc, first, stride, min(rows, state[at.OUT_ROWS]), operand, at_row, step, mesh, depth)


@compiled
def _weight_stationary(core: Core, rs2: int, depth: int) -> None:
    """The operand times the weights, and the bias if there is one."""
    dim = core.spad.shape[1]
    bias, columns, bias_rows = rs2 & rocc.GARBAGE, rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF
    rows, result = core.state[at.OUT_ROWS], core.result
    for r in range(rows):
        for c in range(dim):
            there = bias != rocc.GARBAGE and r < bias_rows and c < columns
            result[r, c] = np.int32(core.spad[bias + r, c]) if there else np.int32(0)
    _accumulate(result, 0, 1, rows, core.left, 0, 1, core.mesh, depth)
    for r in range(rows):
        _write(core, result, r)


@compiled
def _output_stationary(core: Core, rs2: int, depth: int) -> None:
    """The product is added to what the mesh holds, and that is the result."""
    b, columns, rows = rs2 & rocc.GARBAGE, rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF
    _gather(core.right, core.spad, b, rows, columns, 1, core.state[at.B_TRANSPOSE])
    _accumulate(core.mesh, 0, 1, len(core.mesh), core.left, 0, 1, core.right, depth)
    if core.state[at.OUT_ADDR] != rocc.GARBAGE:
        for r in range(core.state[at.OUT_ROWS]):
            _write(core, core.mesh, r)


@compiled
def multiply(core: Core, rs2: int, depth: int) -> None:
    """The product of the operands that were fetched, wherever it goes."""
    if not core.state[at.WS]:
        _output_stationary(core, rs2, depth)
    elif core.state[at.OUT_ADDR] != rocc.GARBAGE:
        _weight_stationary(core, rs2, depth)
