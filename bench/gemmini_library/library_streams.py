"""Streams that Gemmini's library sends: configuration, then a loop instruction and its registers for each tile."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.util.arrays import Words

from .library_tiling import Convolution, Memories, Tiling, conv_tiling, matmul_tiling

_ONE = rocc.ONE << 32
_ALIGN = 64  # bytes
_BASE = 0x80100000
Places = Sequence[int]


@dataclass(frozen=True)
class Options:
    """What differs between versions of the library and its callers.

    Attributes:
        bias: whether one is added.
        reuse: whether an operand that is still in the scratchpad is not loaded again (since 2023).
        pixels: whether several pixels are put into a row where there are few channels.
    """

    bias: bool = True
    reuse: bool = False
    pixels: bool = True


@dataclass(frozen=True)
class LibraryStream:
    """``words`` (n, 3) that the library sends, the ``tiling`` that it chose, and the ``tiles`` that it sends."""

    words: Words
    tiling: Tiling
    tiles: int


def _places(base: int, *sizes: int) -> Places:
    """Where tensors of these sizes, bytes, lie one after the other."""
    out = []
    for size in sizes:
        out.append(base)
        base += -(-size // _ALIGN) * _ALIGN
    return out


def _quarters(*values: int) -> int:
    """Four numbers of 16 bits, the highest first."""
    word = 0
    for value in values:
        word = word << 16 | value
    return word


def matmul_stream(
    rows: int,
    columns: int,
    depth: int,
    memories: Memories,
    options: Options,
    base: int = _BASE,
    places: Places | None = None,
) -> LibraryStream:
    """Returns what ``tiled_matmul_auto`` sends for (rows, depth) by (depth, columns), weights stationary.

    With a bias, its one row is added to every row. The two operands, the bias and the product lie at ``places``, or one
    after the other from ``base``.
    """
    dim = memories.dim
    tiling = matmul_tiling(rows, columns, depth, memories)
    tile = tiling.extents
    counts = [-(-extent // (size * dim)) for extent, size in zip((rows, columns, depth), tile, strict=True)]
    keep_a, keep_b = options.reuse and counts[0] * counts[2] <= 2, options.reuse and counts[1] * counts[2] <= 2
    a, b, d, c = places or _places(base, rows * depth, depth * columns, columns * 4, rows * columns)
    words = [
        (rocc.CONFIG, _ONE | 1 << 16 | 4, 1 << 48),
        (rocc.CONFIG, 2, _ONE | columns),
        *((rocc.CONFIG, _ONE | dim << 16 | which << 3 | 1 | 1 << 8, stride)
          for which, stride in enumerate((depth, columns, 0))),
    ]  # fmt: skip
    tiles = 0
    for i in range(counts[0]):
        for j in range(counts[1]):
            for k in range(counts[2]):
                left = [
                    min(extent - at * size * dim, size * dim)
                    for extent, at, size in zip((rows, columns, depth), (i, j, k), tile, strict=True)
                ]
                blocks = [-(-extent // dim) for extent in left]
                pads = [block * dim - extent for block, extent in zip(blocks, left, strict=True)]
                row, column, inner = i * tile[0] * dim, j * tile[1] * dim, k * tile[2] * dim
                at_a = 0 if keep_a and j else a + row * depth + inner
                at_b = 0 if keep_b and i else b + inner * columns + column
                at_c = c + row * columns + column if k == counts[2] - 1 else 0
                at_d = d + column * 4 if options.bias and k == 0 else 0
                half_a = (1 if i + k == 0 else 2) if keep_a else 0
                half_b = (1 if j + k == 0 else 2) if keep_b else 0
                first = k == 0 and not options.bias
                words += [
                    (rocc.LOOP_BOUNDS, _quarters(*reversed(pads)), _quarters(*reversed(blocks))),
                    (rocc.LOOP_AB, at_a, at_b), (rocc.LOOP_DC, at_d, at_c),
                    (rocc.LOOP_STRIDES_AB, depth, columns), (rocc.LOOP_STRIDES_DC, 0, columns),
                    (rocc.LOOP_WS, half_a << 18 | half_b << 16 | int(not first), 0),
                ]  # fmt: skip
                tiles += 1
    return LibraryStream(np.array(words, np.uint64), tiling, tiles)


def conv_stream(
    layer: Convolution, memories: Memories, options: Options, base: int = _BASE, places: Places | None = None
) -> LibraryStream:
    """Returns what ``tiled_conv_auto`` sends for a convolution.

    Image, weights, bias and output lie at ``places``, or one after the other from ``base``.
    """
    tiling = conv_tiling(layer, memories)
    down = int(layer.downsamples)
    kernel, ins, outs = layer.kernel, layer.in_channels, layer.out_channels
    found = places or _places(
        base, layer.batch * layer.in_rows * layer.in_columns * ins, kernel * kernel * ins * outs, outs * 4,
        layer.batch * layer.out_rows * layer.out_columns * outs,
    )  # fmt: skip
    words = [
        (rocc.CONFIG, 2, _ONE | outs),
        (rocc.CONFIG, layer.stride >> down << 16 | 4, 1 << 48),
    ]
    ends = (layer.batch, layer.out_rows, layer.out_columns, outs, kernel, kernel, ins)
    ranges = [range(0, end, size) for end, size in zip(ends, tiling.extents, strict=True)]
    keep_in = options.reuse and _product(ranges, (0, 1, 2, 4, 5, 6)) <= 2
    keep_weights = options.reuse and _product(ranges, (3, 4, 5, 6)) <= 2
    keeps = keep_in, keep_weights
    tiles = 0
    for b in ranges[0]:
        for orow in ranges[1]:
            for ocol in ranges[2]:
                for och in ranges[3]:
                    for krow in ranges[4]:
                        for kcol in ranges[5]:
                            for kch in ranges[6]:
                                start = (b, orow, ocol, och, krow, kcol, kch)
                                words += _conv_tile(layer, tiling, start, found, keeps, memories, options)
                                tiles += 1
    return LibraryStream(np.array(words, np.uint64), tiling, tiles)


def _product(ranges: list[range], which: tuple[int, ...]) -> int:
    count = 1
    for place in which:
        count *= len(ranges[place])
    return count


def _conv_tile(
    layer: Convolution,
    tiling: Tiling,
    start: tuple[int, ...],
    places: Places,
    keeps: tuple[bool, bool],
    memories: Memories,
    options: Options,
) -> list[tuple[int, int, int]]:
    """The registers and the loop instruction of one tile (``sp_tiled_conv``)."""
    kernel, ins, outs, stride = layer.kernel, layer.in_channels, layer.out_channels, layer.stride
    ends = (layer.batch, layer.out_rows, layer.out_columns, outs, kernel, kernel, ins)
    size = [min(end - at, extent) for end, at, extent in zip(ends, start, tiling.extents, strict=True)]
    batches, orows, ocols, ochs, krows, kcols, kchs = size
    b, orow, ocol, och, krow, kcol, kch = start
    irow, icol = orow * stride + krow - layer.padding, ocol * stride + kcol - layer.padding
    irows, icols = orows * stride + krows - 1, ocols * stride + kcols - 1
    left, up = max(-icol, 0), max(-irow, 0)
    right, below = max(icol + icols - layer.in_columns, 0), max(irow + irows - layer.in_rows, 0)
    image, weights, bias, output = places
    last = krow + krows >= kernel and kcol + kcols >= kernel and kch + kchs >= ins
    first = krow == kcol == kch == 0
    pixel = (b * layer.out_rows + orow) * layer.out_columns + ocol
    at_out = output + pixel * outs + och if last else 0
    at_bias = (bias + och * 4 if options.bias else 1) if first else 0
    at_weights = weights + ((krow * kernel + kcol) * ins + kch) * outs + och
    at_in = image + ((b * layer.in_rows + irow + up) * layer.in_columns + icol + left) * ins + kch
    if keeps[1] and ocol + orow + b:
        at_weights = 0
    if keeps[0] and och:
        at_in = 0
    half_a = (1 if kch + krow + kcol + b + orow + ocol == 0 else 2) if keeps[0] else 0
    half_b = (1 if kch + och + krow + kcol == 0 else 2) if keeps[1] else 0
    pixels = 1
    if options.pixels and not layer.downsamples and kchs <= memories.dim:
        pixels = min(memories.dim // kchs, kcols)
    return [
        (rocc.CONV_1, _quarters(outs, ins, layer.in_rows, layer.batch),
         _quarters(layer.padding << 8 | stride, layer.out_columns, layer.out_rows, layer.out_rows)),
        (rocc.CONV_2, _quarters(kernel, layer.out_columns, 1, 1 << 8), _quarters(batches, orows, ocols, ochs)),
        (rocc.CONV_3, _quarters(krows, kcols, kchs, left), _quarters(right, up, below << 8, layer.in_columns)),
        (rocc.CONV_4, _quarters(orows, 0, 0, 1), _quarters(ins, outs, outs, ocols)),
        (rocc.CONV_5, at_weights, at_out),
        (rocc.CONV_6, at_bias, at_in),
        (rocc.LOOP_CONV, half_a << 18 | half_b << 16 | pixels << 8 | int(not options.bias),
         1 | int(layer.downsamples) << 1),
    ]  # fmt: skip
