"""Tile sizes that Gemmini's library chooses: ``tiled_matmul_auto`` and ``tiled_conv_auto`` of ``gemmini.h``.

Both fill half of each memory, so that two tiles can be under way at once.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

_OROWS, _OCOLS, _POCHS, _KCHS = 1, 2, 3, 6  # places among a convolution's extents


@dataclass(frozen=True)
class Memories:
    """What the library is built for: the mesh's ``dim``, and rows of ``dim`` elements of the two memories."""

    dim: int = 16
    scratchpad_rows: int = 16_384
    accumulator_rows: int = 1_024


@dataclass(frozen=True)
class Tiling:
    """Extents of a tile, and how often the library asked whether one fits.

    Attributes:
        extents: of a product I, J, K in tiles of ``dim``; of a convolution batches, output rows, output columns, output
            channels, kernel rows, kernel columns, input channels.
        trials: candidates that were tried.
    """

    extents: tuple[int, ...]
    trials: int


def matmul_tiling(rows: int, columns: int, depth: int, memories: Memories) -> Tiling:
    """Returns the tile of a product (rows, depth) by (depth, columns)."""
    dim = memories.dim
    most = tuple(-(-extent // dim) for extent in (rows, columns, depth))
    in_accumulator = memories.accumulator_rows // 2 // dim
    in_scratchpad = memories.scratchpad_rows // 2 // 2 // dim
    side = math.isqrt(in_accumulator)
    tile = [min(most[0], side), min(most[1], side), min(most[2], in_scratchpad // side)]
    trials, grown = 0, True
    while grown:
        grown = False
        for place in (1, 0, 2):
            longer = [*tile]
            longer[place] += 1
            trials += 1
            i, j, k = longer
            fits = (i * k + k * j) * dim <= memories.scratchpad_rows // 2 and longer[place] <= most[place]
            if fits and (place == 2 or i * j * dim <= memories.accumulator_rows // 2):
                tile, grown = longer, True
    return Tiling((tile[0], tile[1], tile[2]), trials)


@dataclass(frozen=True)
class Convolution:
    """A convolution of square images and kernels, in elements; the padding is the same on all sides."""

    batch: int
    in_channels: int
    out_channels: int
    out_rows: int
    out_columns: int
    kernel: int
    stride: int
    padding: int
    in_rows: int
    in_columns: int
    may_downsample: bool = True  # versions of the library differ

    @property
    def downsamples(self) -> bool:
        """Whether only the pixels that are used are loaded."""
        even = self.in_rows % 2 == 0 and self.in_columns % 2 == 0
        return self.may_downsample and self.stride == 2 and self.kernel == 1 and self.padding == 0 and even


def _fits(layer: Convolution, extents: tuple[int, ...], memories: Memories) -> bool:
    batches, orows, ocols, ochs, krows, kcols, kchs = extents
    down = int(layer.downsamples)
    irows = orows * layer.stride + krows - 1 >> down
    icols = ocols * layer.stride + kcols - 1 >> down
    blocks_in, blocks_out = -(-kchs // memories.dim), -(-ochs // memories.dim)
    scratchpad = blocks_in * batches * irows * icols + blocks_out * kcols * krows * kchs
    accumulator = blocks_out * batches * orows * ocols
    return scratchpad <= memories.scratchpad_rows // 2 and accumulator <= memories.accumulator_rows // 2


def conv_tiling(layer: Convolution, memories: Memories) -> Tiling:
    """Returns the tile of a convolution: the longest extent is cut until it fits, then all grow while it does."""
    dim = memories.dim
    most: tuple[int, ...] = (
        layer.batch, layer.out_rows, layer.out_columns, layer.out_channels, layer.kernel, layer.kernel,
        layer.in_channels,
    )  # fmt: skip
    tile, trials = most, 1
    while not _fits(layer, tile, memories):
        places = [p for p in range(7) if not (p == _OCOLS and tile[p] <= dim and tile[_OROWS] > 1)]
        place = max(places, key=lambda p: tile[p])  # the first of the longest
        by = (tile[place] % dim or dim) if place in (_POCHS, _KCHS) else 1
        tile = _with(tile, place, max(tile[place] - by, 1))
        trials += 1
    tile, more = _grown(layer, tile, most, (_OCOLS,), memories)
    tile, rest = _grown(layer, tile, most, range(7), memories)
    return Tiling(tile, trials + more + rest)


def _with(extents: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*extents[:place], value, *extents[place + 1 :])


def _grown(
    layer: Convolution, tile: tuple[int, ...], most: tuple[int, ...], places: Iterable[int], memories: Memories
) -> tuple[tuple[int, ...], int]:
    """``tile`` with each of ``places`` in turn one longer, as long as one of them still can be; and the trials."""
    trials, grown = 0, True
    while grown:
        grown = False
        for place in places:
            longer = _with(tile, place, tile[place] + 1)
            if longer[place] > most[place]:
                continue
            trials += 1
            if _fits(layer, longer, memories):
                tile, grown = longer, True
    return tile, trials
