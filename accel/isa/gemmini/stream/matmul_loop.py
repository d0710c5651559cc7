"""loop_ws as primitive instructions: a tiled product, or the sum of two matrices.

The tiles' order is k, j, i; a load comes before the first product that needs it and takes as many tiles as one
request to memory does (gemmini ``LoopMatmul.scala``; libgemmini ``loop_ws`` for what it means).
"""

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import STATISTICS
from accel.isa.gemmini.stream import kernel_layout as at
from accel.isa.gemmini.stream.loop_registers import emit, local
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64

FINE, TOO_LARGE, BAD_PADDING = range(3)


@compiled
def matmul_fault(loops: Int64, rs2: int, sizes: Int64) -> int:
    """What is wrong with a loop: half of each memory holds its tiles, and no tile is all padding."""
    dim, i, j, k = sizes[at.DIM], loops[at.L_I], loops[at.L_J], loops[at.L_K]
    if loops[at.L_PAD_I] >= dim or loops[at.L_PAD_J] >= dim or loops[at.L_PAD_K] >= dim:
        return BAD_PADDING
    resadd = rs2 >> 2 & 1
    fits = i * j * dim <= sizes[at.ACC_ROWS] // 2 and (resadd or (i + j) * k * dim <= sizes[at.SP_ROWS] // 2)
    return FINE if fits else TOO_LARGE


@compiled
def _length(tile: int, tiles: int, pad: int, dim: int) -> int:
    """Rows or columns of a tile."""
    return dim - (pad if tile == tiles - 1 else 0)


@compiled
def _load(
    out: Int64, count: int, funct: int, base: int, start: int, shape: tuple[int, int, int, int, int, int, int, int]
) -> int:
    """A load of tiles (row, column .. column + wide) of a matrix of ``rows`` x ``columns`` tiles.

    ``shape`` is row, column, tiles wide, rows, columns, padding of rows, of columns, and bytes from tile row to
    tile row; ``base`` is the DRAM address of the row's first tile, ``start`` the matrix's local address.
    """
    row, column, wide, rows, columns, pad_rows, pad_columns, dim = shape
    blocks = min(wide, columns - column)
    width = blocks * dim - (pad_columns if column + blocks >= columns else 0)
    height = _length(row, rows, pad_rows, dim)
    return emit(out, count, funct, base, local(height, width, start + (row * columns + column) * dim))


@compiled
def _add(out: Int64, count: int, loops: Int64, rs1: int, sizes: Int64) -> int:
    """C = A + B, tile by tile in the accumulator."""
    dim, rows, columns = sizes[at.DIM], loops[at.L_I], loops[at.L_J]
    size = 4 if rs1 >> 1 & 1 else 1
    for i in range(rows):
        for j in range(columns):
            height = _length(i, rows, loops[at.L_PAD_I], dim)
            width = _length(j, columns, loops[at.L_PAD_J], dim)
            tile = (i * columns + j) * dim
            place = loops[at.L_A] + (i * loops[at.L_A_STRIDE] + j) * dim
            count = emit(out, count, rocc.MVIN, place, local(height, width, rocc.ACCUMULATOR + tile))
            place = loops[at.L_B] + (i * loops[at.L_B_STRIDE] + j) * dim
            address = (rocc.ACCUMULATOR | rocc.ACCUMULATE) + tile
            count = emit(out, count, rocc.MVIN2, place, local(height, width, address))
            if loops[at.L_C] != 0:
                place = loops[at.L_C] + (i * loops[at.L_C_STRIDE] + j) * dim * size
                address = (rocc.ACCUMULATOR | rocc.ACCUMULATE | (rs1 >> 1 & 1) << 29) + tile
                count = emit(out, count, rocc.MVOUT, place, local(height, width, address))
    return count


@compiled
def _store_normalised(out: Int64, count: int, loops: Int64, rs1: int, i: int, start: int, dim: int) -> int:
    """The rows of tile row ``i``, each read for its statistics and then stored (layernorm and softmax)."""
    columns, size = loops[at.L_J], 4 if rs1 >> 1 & 1 else 1
    layernorm = rs1 >> 8 & 7 == rocc.LAYERNORM
    rows = _length(i, loops[at.L_I], loops[at.L_PAD_I], dim)
    for first in range(0, rows, STATISTICS):
        for step in range(3):
            inner, last = rocc.RESET, rocc.RESET
            if step == 0:
                inner, last = (rocc.SUM, rocc.MEAN) if layernorm else (rocc.MAX, rocc.MAX)
            elif step == 1:
                inner, last = (rocc.VARIANCE, rocc.INV_STDDEV) if layernorm else (rocc.SUM_EXP, rocc.INV_SUM_EXP)
            for row in range(first, min(first + STATISTICS, rows)):
                count = emit(out, count, rocc.CONFIG, 1 << 17 | row - first << 8 | rocc.CONFIG_NORM, 0)
                for j in range(columns):
                    command = last if j == columns - 1 else inner
                    address = start + (i * columns + j) * dim + row | command << 26
                    place = (i * loops[at.L_C_STRIDE] + j) * dim + row * loops[at.L_C_STRIDE]
                    width = _length(j, columns, loops[at.L_PAD_J], dim)
                    count = emit(out, count, rocc.MVOUT, loops[at.L_C] + place * size, local(1, width, address))
    return count


@compiled
def _wide(loops: Int64, which: int, most: int, dim: int, alternate: int) -> int:
    """Tiles that one load takes, of rows of ``most`` elements at most: one, where a second would lie elsewhere."""
    stride = loops[at.BLOCK_STRIDE + which]
    return most // dim if alternate or stride in (0, dim + 1) else 1


@compiled
def _load_d(out: Int64, count: int, loops: Int64, rs1: int, start: int, sizes: Int64, alternate: int) -> int:
    dim, rows, columns = sizes[at.DIM], loops[at.L_I], loops[at.L_J]
    low = rs1 >> 2 & 1
    wide = _wide(loops, 2, sizes[at.WIDE] if low else sizes[at.WIDE_WORDS], dim, alternate)
    size = 1 if low else 4
    for j in range(0, columns, wide):
        for i in range(rows):
            place = loops[at.L_D] + (i * loops[at.L_D_STRIDE] + j) * dim * size
            shape = (i, j, wide, rows, columns, loops[at.L_PAD_I], loops[at.L_PAD_J], dim)
            count = _load(out, count, rocc.MVIN3, place, start, shape)
    return count


@compiled
def _load_a(out: Int64, count: int, loops: Int64, i: int, k: int, place: tuple[int, int, int], sizes: Int64) -> int:
    transposed, start, alternate = place
    dim = sizes[at.DIM]
    wide = _wide(loops, 0, sizes[at.WIDE], dim, alternate)
    row, column, rows, columns = i, k, loops[at.L_I], loops[at.L_K]
    pads = (loops[at.L_PAD_I], loops[at.L_PAD_K])
    if transposed:
        row, column, rows, columns, pads = column, row, columns, rows, (pads[1], pads[0])
    if column % wide:
        return count
    first = loops[at.L_A] + (row * loops[at.L_A_STRIDE] + column) * dim
    return _load(out, count, rocc.MVIN, first, start, (row, column, wide, rows, columns, pads[0], pads[1], dim))


@compiled
def _load_b(out: Int64, count: int, loops: Int64, k: int, j: int, place: tuple[int, int, int], sizes: Int64) -> int:
    transposed, start, alternate = place
    dim = sizes[at.DIM]
    wide = _wide(loops, 1, sizes[at.WIDE], dim, alternate)
    row, column, rows, columns = k, j, loops[at.L_K], loops[at.L_J]
    pads = (loops[at.L_PAD_K], loops[at.L_PAD_J])
    if transposed:
        row, column, rows, columns, pads = column, row, columns, rows, (pads[1], pads[0])
    if column % wide:
        return count
    first = loops[at.L_B] + (row * loops[at.L_B_STRIDE] + column) * dim
    return _load(out, count, rocc.MVIN2, first, start, (row, column, wide, rows, columns, pads[0], pads[1], dim))


@compiled
def _multiply(
    out: Int64,
    count: int,
    loops: Int64,
    rs1: int,
    rs2: int,
    tile: tuple[int, int, int],
    starts: tuple[int, int, int],
    dim: int,
) -> int:
    """The preload and the compute of one tile; tiles below the first keep its weights."""
    i, j, k = tile
    tiles_i, tiles_j, tiles_k = loops[at.L_I], loops[at.L_J], loops[at.L_K]
    height = _length(i, tiles_i, loops[at.L_PAD_I], dim)
    width = _length(j, tiles_j, loops[at.L_PAD_J], dim)
    depth = _length(k, tiles_k, loops[at.L_PAD_K], dim)
    a = starts[0] + (k * tiles_i + i if rs2 & 1 else i * tiles_k + k) * dim
    b = starts[1] + (j * tiles_k + k if rs2 >> 1 & 1 else k * tiles_j + j) * dim
    c = starts[2] + (i * tiles_j + j) * dim
    if not rs1 & 1 and k == 0:
        c &= ~rocc.ACCUMULATE
    count = emit(out, count, rocc.PRELOAD, local(depth, width, b if i == 0 else rocc.GARBAGE), local(height, width, c))
    funct = rocc.COMPUTE_PRELOADED if i == 0 else rocc.COMPUTE_ACCUMULATED
    return emit(out, count, funct, local(height, depth, a), local(dim, dim, rocc.GARBAGE))


@compiled
def _starts(loops: Int64, rs1: int, sizes: Int64, alternate: int) -> tuple[int, int, int, int]:
    """Local addresses of A, B, C and D.

    A and B lie in the half that the instruction names, or else in the first one, as libgemmini has them; ``alternate``
    takes the other half each time instead, as the hardware does, which only time can tell.
    """
    half, acc_half = sizes[at.SP_ROWS] // 2, sizes[at.ACC_ROWS] // 2
    a_half, b_half = rs1 >> 18 & 3, rs1 >> 16 & 3
    default = loops[at.HALF_LOOP] if alternate else 0
    a = half * (default if a_half == 0 else a_half == 2)
    b = half * ((default if b_half == 0 else b_half == 2) + 1) - loops[at.L_J] * loops[at.L_K] * sizes[at.DIM]
    full = (rs1 >> 1 & 1) << 29
    c = (rocc.ACCUMULATOR | rocc.ACCUMULATE | full) + (acc_half * loops[at.HALF_MATMUL_C] if alternate else 0)
    d = rocc.ACCUMULATOR + (acc_half * loops[at.HALF_MATMUL_D] if alternate else 0)
    loops[at.HALF_LOOP] ^= 1
    if loops[at.L_D] != 0:
        loops[at.HALF_MATMUL_D] ^= 1
    if loops[at.L_C] != 0:
        loops[at.HALF_MATMUL_C] ^= 1
    return a, b, c, d


@compiled
def _store_tile(out: Int64, count: int, loops: Int64, rs1: int, i: int, j: int, start: int, sizes: Int64) -> int:
    """The mvouts that are due after the last product of tile (i, j): its own, or those of a normalised tile row."""
    dim, size = sizes[at.DIM], 4 if rs1 >> 1 & 1 else 1
    if rs1 >> 8 & 7 in (rocc.LAYERNORM, rocc.SOFTMAX):
        if j == loops[at.L_J] - 1:
            return _store_normalised(out, count, loops, rs1, i, start, dim)
        return count
    place = loops[at.L_C] + (i * loops[at.L_C_STRIDE] + j) * dim * size
    height = _length(i, loops[at.L_I], loops[at.L_PAD_I], dim)
    width = _length(j, loops[at.L_J], loops[at.L_PAD_J], dim)
    address = start + (i * loops[at.L_J] + j) * dim
    return emit(out, count, rocc.MVOUT, place, local(height, width, address))


@compiled
def expand_matmul(out: Int64, count: int, loops: Int64, rs1: int, rs2: int, sizes: Int64, alternate: int) -> int:
    """Write the primitive instructions of a loop_ws from ``count`` on; the count after them."""
    if rs2 >> 2 & 1:
        return _add(out, count, loops, rs1, sizes)
    a, b, c, d = _starts(loops, rs1, sizes, alternate)
    if loops[at.L_D] != 0:
        count = _load_d(out, count, loops, rs1, d, sizes, alternate)
    for k in range(loops[at.L_K]):
        for j in range(loops[at.L_J]):
            for i in range(loops[at.L_I]):
                if j == 0 and loops[at.L_A] != 0:
                    count = _load_a(out, count, loops, i, k, (rs2 & 1, a, alternate), sizes)
                if i == 0 and loops[at.L_B] != 0:
                    count = _load_b(out, count, loops, k, j, (rs2 >> 1 & 1, b, alternate), sizes)
                count = _multiply(out, count, loops, rs1, rs2, (i, j, k), (a, b, c), sizes[at.DIM])
                if loops[at.L_C] != 0 and k == loops[at.L_K] - 1:
                    count = _store_tile(out, count, loops, rs1, i, j, c, sizes)
    return count
