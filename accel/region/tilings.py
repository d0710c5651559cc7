"""Tilings: how a region is cut, all candidates as numpy arrays, and the contract of the function that prices them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from accel.accelerator.contraction import Contraction
from accel.accelerator.document import Accelerator
from accel.region.epilogue import Epilogue
from accel.region.shapes import Convolution
from accel.util.arrays import Float64, Int64


@dataclass(frozen=True)
class Tiling:
    """How a region is cut so that its tiles fit the scratchpads.

    Extents are blocks (``out_blocks``, ``in_blocks``) and elements (the rest). ``order`` says which operand
    stays while the others pass: none (``stream``), the weights of one group of output channels
    (``weights``), or the data of one output tile (``data``). A tile has output blocks of one group, or those of several
    groups of one block each. Contexts are the copies of each buffer: 2 let the
    next tile load while this one computes. ``layer`` is the instruction that does a whole tile by itself; without one
    several do, in the accelerator's scratchpads. Where ``columns_as_blocks`` is more than 1 so many neighbouring
    columns are taken as so many times the blocks, and extents are of what is then to be tiled: elements that lie side
    by side in DRAM are blocks to a load.
    """

    out_blocks: int
    out_rows: int
    out_columns: int
    in_blocks: int
    kernel_rows: int
    kernel_columns: int
    order: Literal["stream", "weights", "data"]
    operand_contexts: int
    result_contexts: int
    out_pitch_h: int
    out_pitch_w: int
    layer: str = ""
    columns_as_blocks: int = 1


BORDER_WORTH = 1.25
"""How much more than the cheapest tiles those may cost that leave a result's border in DRAM to itself.

Else the host has to write the tensor once more, with its border, between two launches.
"""

LAYER_WORTH = 1.15
"""How much more than the cheapest of smaller instructions one as large as a layer may cost to be worth a trial.

Their prices have other sources.
"""

Cycles = Int64 | Float64
Order = Literal["stream", "weights", "data"]


@dataclass(frozen=True)
class Candidates:
    """Tilings as arrays of one shape. Tile extents as in ``Tiling``; the counts are over the whole region.

    Where a store takes windows ``out_rows`` and ``out_columns`` are of the sums that a tile's windows lie on.

    ``data_blocks`` are the blocks of data of a tile: ``in_blocks`` of each of its groups. All have as many ``contexts``
    of operands.
    """

    out_blocks: Int64
    out_rows: Int64
    out_columns: Int64
    in_blocks: Int64
    data_blocks: Int64
    kernel_rows: Int64
    kernel_columns: Int64
    data_rows: Int64
    data_columns: Int64
    tiles: Int64
    reductions: Int64
    data_loads: Int64
    weight_loads: Int64
    result_contexts: Int64
    contexts: int

    def with_result_contexts(self, contexts: int) -> "Candidates":
        """Returns them with so many contexts of results."""
        return replace(self, result_contexts=np.full_like(self.tiles, contexts))

    def overlapped(self, load: Cycles, compute: Cycles, store: Cycles, ends: Cycles) -> Float64:
        """Cycles (n,) of three units that overlap as far as the contexts let them.

        The arguments are the cycles of each, and ``ends`` those of the first load and the last store.
        """
        if self.contexts == 1:
            return np.asarray(load + compute + store, dtype=np.float64)
        results = np.where(self.result_contexts == 1, compute + store, np.maximum(compute, store))
        return np.asarray(np.maximum(load, results) + ends, dtype=np.float64)


def loop_orders(conv: Convolution) -> tuple[Order, ...]:
    """Data stay only for the tiles of one group, so where there are more they had better pass."""
    if conv.uniform:
        return ("stream",)
    return ("stream", "weights", "data") if conv.groups == 1 else ("stream", "weights")


def divisors(n: int) -> list[int]:
    """The divisors of ``n``, ascending."""
    return [d for d in range(1, n + 1) if n % d == 0]


def block_choices(conv: Convolution) -> list[int]:
    """Blocks of a tile: those that divide a group's, or where a group has one those that divide all."""
    return [n for n in divisors(conv.out_blocks) if conv.group_blocks == 1 or not conv.group_blocks % n]


def tile_extents(n: int) -> list[int]:
    """Tile extents that give distinct tile counts, each the smallest for its count."""
    return sorted({-(-n // count) for count in range(1, n + 1)})


def sum_extents(conv: Convolution, axis: int) -> dict[int, int]:
    """Rows (``axis`` 0) or columns of sums of tiles that are worth a price, each with its extent of the result."""
    size = conv.sums[axis]
    if conv.pooled is None:
        return {extent: extent for extent in tile_extents(size)}
    whole = conv.pooled.span(axis, conv.pooled.counts[axis], size)
    found = {conv.pooled.span(axis, count, size): count for count in tile_extents(conv.pooled.counts[axis])}
    return {span: count for span, count in found.items() if span < whole or count == conv.pooled.counts[axis]}


def stored_extents(conv: Convolution, axis: int, extents: Int64) -> Int64:
    """Rows or columns (n,) of the result of tiles with so many of sums."""
    if conv.pooled is None:
        return extents
    counts = np.ones(conv.sums[axis] + 1, np.int64)
    for span, count in sum_extents(conv, axis).items():
        counts[span] = count
    return counts[extents]


def windows_of(c: "Candidates", conv: Convolution) -> Int64:
    """Rows by columns (n,) of the result of tiles, of a block each."""
    return stored_extents(conv, 0, c.out_rows) * stored_extents(conv, 1, c.out_columns)


def tile_count(conv: Convolution, axis: int, extents: Int64) -> Int64:
    """Tiles of so many rows or columns of sums each, (n,)."""
    return ceil_div(conv.stored[axis], stored_extents(conv, axis, extents))


def ceil_div(size: int | Int64, tile: int | Int64) -> Int64:
    """``size / tile``, rounded up."""
    return np.asarray(-(-size // tile), dtype=np.int64)


def tiling_candidates(
    conv: Convolution, order: Order, contexts: int, result_contexts: int, at_once: Sequence[int] = (1,)
) -> Candidates:
    """All tilings worth a price: every tile count along rows and columns, divisors along blocks and the kernel.

    Columns are whole multiples of one of the numbers that instructions do ``at_once``.
    """
    kernel_rows, kernel_columns = conv.kernel
    split_rows = sum(conv.padding[0::2]) == 0
    split_columns = sum(conv.padding[1::2]) == 0
    whole = order != "stream"  # an operand that stays is not cut along the reduction
    axes = [
        block_choices(conv),
        sorted(sum_extents(conv, 0)),
        sorted({-(-columns // each) * each for columns in sum_extents(conv, 1) for each in at_once}),
        [conv.reduced_blocks] if whole else divisors(conv.reduced_blocks),
        [kernel_rows] if whole or not split_rows else divisors(kernel_rows),
        [kernel_columns] if whole or not split_columns else divisors(kernel_columns),
    ]
    grids = np.meshgrid(*(np.array(axis, dtype=np.int64) for axis in axes), indexing="ij")
    return candidates_of_tiles(conv, [grid.ravel() for grid in grids], order, contexts, result_contexts)


def candidates_by_order(
    conv: Convolution, orders: Sequence[Order], contexts: int, result_contexts: int, at_once: Sequence[int] = (1,)
) -> dict[Order, Candidates]:
    """All tilings worth a price in each order; where an operand stays they have the same tiles, whichever it is.

    ``at_once`` as in :func:`tiling_candidates`.
    """
    found: dict[Order, Candidates] = {}
    for order in orders:
        other = found.get("weights") if order == "data" else None
        if other is None:
            found[order] = tiling_candidates(conv, order, contexts, result_contexts, at_once)
        else:
            stacks, steps = conv.out_blocks // other.out_blocks, other.tiles * other.reductions
            found[order] = replace(
                other, data_loads=other.tiles // stacks, weight_loads=_weight_loads(conv, order, stacks, steps)
            )
    return found


def candidates_of_tiles(
    conv: Convolution, tiles: Sequence[Int64], order: Order, contexts: int, result_contexts: int
) -> Candidates:
    """Candidates from their tiles: output blocks, rows and columns, blocks of a sum, kernel rows and columns."""
    out_blocks, rows, columns, in_blocks, k_rows, k_columns = tiles
    spatial = conv.data.batch * tile_count(conv, 0, rows) * tile_count(conv, 1, columns)
    stacks = conv.out_blocks // out_blocks
    reductions = (conv.reduced_blocks // in_blocks) * (conv.kernel[0] // k_rows) * (conv.kernel[1] // k_columns)
    count = spatial * stacks
    return Candidates(
        out_blocks=out_blocks,
        out_rows=rows,
        out_columns=columns,
        in_blocks=in_blocks,
        data_blocks=in_blocks * (out_blocks if conv.groups > 1 and conv.group_blocks == 1 else 1),
        kernel_rows=k_rows,
        kernel_columns=k_columns,
        data_rows=(rows - 1) * conv.strides[0] + (k_rows - 1) * conv.dilation[0] + 1,
        data_columns=(columns - 1) * conv.strides[1] + (k_columns - 1) * conv.dilation[1] + 1,
        tiles=count,
        reductions=reductions,
        data_loads=spatial if order == "data" else count * reductions,
        weight_loads=_weight_loads(conv, order, stacks, count * reductions),
        result_contexts=np.full_like(count, result_contexts),
        contexts=contexts,
    )


def _weight_loads(conv: Convolution, order: Order, stacks: Int64, steps: Int64) -> Int64:
    if conv.uniform:
        return np.zeros_like(steps)  # but for one tile
    return stacks if order == "weights" else steps


TilingCost = Callable[[Candidates, Convolution, Epilogue, Contraction, Accelerator], Float64]
