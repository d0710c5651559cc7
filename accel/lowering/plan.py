"""Choose the tiling of a convolution: the cheapest, by the cost function given, that fits the scratchpads.

All candidates are priced at once as numpy arrays. Capacity counts every context of a buffer, the bias and
the micro-operations that must be resident.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.accelerator.roles import Contraction
from accel.lowering.contexts import apart, bias_copies
from accel.lowering.geometry import Convolution, Epilogue, Tiling

Ints = npt.NDArray[np.int64]
Cycles = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Order = Literal["stream", "weights", "data"]


@dataclass(frozen=True)
class Candidates:
    """Tilings as arrays of one shape. Tile extents as in ``Tiling``; the counts are over the whole region.

    ``data_blocks`` are the blocks of data of a tile: ``in_blocks`` of each of its groups.
    """

    out_blocks: Ints
    out_rows: Ints
    out_columns: Ints
    in_blocks: Ints
    data_blocks: Ints
    kernel_rows: Ints
    kernel_columns: Ints
    data_rows: Ints
    data_columns: Ints
    tiles: Ints
    reductions: Ints
    data_loads: Ints
    weight_loads: Ints
    contexts: int
    result_contexts: int

    def overlapped(self, load: Cycles, compute: Cycles, store: Cycles, ends: Cycles) -> npt.NDArray[np.float64]:
        """Cycles (n,) of three units that overlap as far as the contexts let them.

        The arguments are the cycles of each, and ``ends`` those of the first load and the last store.
        """
        if self.contexts == 1:
            return np.asarray(load + compute + store, dtype=np.float64)
        if self.result_contexts == 1:
            return np.asarray(np.maximum(load, compute + store) + ends, dtype=np.float64)
        return np.asarray(np.maximum(np.maximum(load, compute), store) + ends, dtype=np.float64)


Cost = Callable[[Candidates, Convolution, Epilogue, Contraction, Accelerator], npt.NDArray[np.float64]]


def plan_convolution(
    conv: Convolution, epilogue: Epilogue, accelerator: Accelerator, gemm: Contraction, cost: Cost
) -> Tiling | None:
    """The cheapest tiling that fits, or None if not even the smallest does.

    The result's pitches are its height and width rounded up to whole tiles.
    """
    best: tuple[float, Tiling] | None = None
    # where store and compute alternate inside a tile (planes) a second context gains nothing
    needed = apart(epilogue, accelerator, gemm)
    result_choices = (2, 1) if epilogue.planes == 1 or needed else (1,)
    for operand_contexts in (2, 1):
        for result_contexts in result_choices:
            for order in _orders(conv) if operand_contexts == 2 else ("stream",):
                found = _best(conv, epilogue, accelerator, gemm, cost, order, operand_contexts, result_contexts)
                if found is not None and (best is None or found[0] < best[0]):
                    best = found
        if best is not None:
            break
    return best[1] if best else None


def _orders(conv: Convolution) -> tuple[Order, ...]:
    """Data stay only for the tiles of one group, so where there are more they had better pass."""
    if conv.uniform:
        return ("stream",)
    return ("stream", "weights", "data") if conv.groups == 1 else ("stream", "weights")


def divisors(n: int) -> list[int]:
    """The divisors of ``n``, ascending."""
    return [d for d in range(1, n + 1) if n % d == 0]


def _cuts(n: int) -> list[int]:
    """Tile extents that give distinct tile counts, each the smallest for its count."""
    return sorted({-(-n // count) for count in range(1, n + 1)})


def _ceil(size: int, tile: Ints) -> Ints:
    return np.asarray(-(-size // tile), dtype=np.int64)


def _candidates(conv: Convolution, order: Order, contexts: int, result_contexts: int) -> Candidates:
    kernel_rows, kernel_columns = conv.kernel
    split_rows = sum(conv.padding[0::2]) == 0
    split_columns = sum(conv.padding[1::2]) == 0
    whole = order != "stream"  # an operand that stays is not cut along the reduction
    axes = [
        [blocks for blocks in divisors(conv.out_blocks) if conv.group_blocks == 1 or not conv.group_blocks % blocks],
        _cuts(conv.out_height),
        _cuts(conv.out_width),
        [conv.reduced_blocks] if whole else divisors(conv.reduced_blocks),
        [kernel_rows] if whole or not split_rows else divisors(kernel_rows),
        [kernel_columns] if whole or not split_columns else divisors(kernel_columns),
    ]
    grids = np.meshgrid(*(np.array(axis, dtype=np.int64) for axis in axes), indexing="ij")
    return counted(conv, [grid.ravel() for grid in grids], order, contexts, result_contexts)


def counted(conv: Convolution, tiles: Sequence[Ints], order: Order, contexts: int, result_contexts: int) -> Candidates:
    """Candidates from their tiles: output blocks, rows and columns, blocks of a sum, kernel rows and columns."""
    out_blocks, rows, columns, in_blocks, k_rows, k_columns = tiles
    spatial = conv.data.batch * _ceil(conv.out_height, rows) * _ceil(conv.out_width, columns)
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
        contexts=contexts,
        result_contexts=result_contexts,
    )


def _weight_loads(conv: Convolution, order: Order, stacks: Ints, steps: Ints) -> Ints:
    if conv.uniform:
        return np.zeros_like(steps)  # but for one tile
    return stacks if order == "weights" else steps


def _fits(
    c: Candidates, conv: Convolution, epilogue: Epilogue, accelerator: Accelerator, gemm: Contraction, order: Order
) -> npt.NDArray[np.bool_]:
    bias = c.out_blocks * bias_copies(c, conv, epilogue, accelerator, gemm, order)
    weights = c.contexts * c.out_blocks * c.in_blocks * c.kernel_rows * c.kernel_columns
    sizes = (
        (gemm.data, c.contexts * c.data_blocks * c.data_rows * c.data_columns),
        (gemm.weights, np.ones_like(weights) if conv.uniform else weights),
        (gemm.dst, c.result_contexts * c.out_blocks * c.out_rows * c.out_columns + bias),
    )
    used: dict[str, Ints] = {}
    for tile, count in sizes:
        used[tile.memory.name] = used.get(tile.memory.name, np.int64(0)) + count * tile.elements
    fits = np.ones(c.out_rows.shape, np.bool_)
    for name, elements in used.items():
        fits &= elements <= accelerator.memory(name).depth
    fits &= _padding_fits(c, conv, accelerator, gemm)
    instruction = gemm.instruction
    if instruction.microops is not None:
        fits &= _resident_microops(c) <= accelerator.memory(instruction.microops.memory).depth
        for extent in (c.out_rows * c.out_columns, c.in_blocks, c.out_blocks):
            fits &= extent < 1 << min(accelerator.bits(instruction, loop.extent) for loop in instruction.loops)
    if c.result_contexts == 1 and apart(epilogue, accelerator, gemm):
        fits &= c.tiles == 1
    if order != "stream":  # the operand that stays is guarded by the tokens of the one that passes: it must pass twice
        inner = c.tiles * c.reductions // (c.weight_loads if order == "weights" else c.data_loads)
        fits &= inner >= c.contexts
    return fits


def _resident_microops(c: Candidates) -> Ints:
    """An upper bound: the two longest loops run in hardware, the rest are micro-ops, one set a context."""
    extents = np.stack([c.out_blocks, c.out_rows, c.out_columns, c.in_blocks, c.kernel_rows, c.kernel_columns])
    table = np.prod(np.sort(extents, axis=0)[:-2], axis=0)
    # reset and ALU passes walk the accumulators: at worst one micro-op a block, one set a context
    return np.asarray(table * c.contexts**2 * c.result_contexts + 3 * c.result_contexts * c.out_blocks)


def _padding_fits(
    c: Candidates, conv: Convolution, accelerator: Accelerator, gemm: Contraction
) -> npt.NDArray[np.bool_]:
    """Every tile must hold at least one row and column of real data, and its padding must fit the fields."""
    copy = accelerator.copy_instruction(gemm.data.memory.name, "load")
    names = (copy.copy_fields.pad_top, copy.copy_fields.pad_left) if copy else (None, None)
    fits = np.ones(c.out_rows.shape, dtype=np.bool_)
    for axis, tile, extent, out, size, name in (
        (0, c.out_rows, c.data_rows, conv.out_height, conv.data.height, names[0]),
        (1, c.out_columns, c.data_columns, conv.out_width, conv.data.width, names[1]),
    ):
        before = conv.padding[axis]
        last = (_ceil(out, tile) - 1) * tile * conv.strides[axis] - before
        reach = (tile - 1) * conv.strides[axis] + (conv.kernel[axis] - 1) * conv.dilation[axis] + 1
        after = np.maximum(last + reach - size, 0)
        limit = (1 << accelerator.bits(copy, name)) - 1 if copy and name else 0
        fits &= (before < extent) & (last < size) & (before <= limit) & (after <= limit)
    return fits


def _best(
    conv: Convolution,
    epilogue: Epilogue,
    accelerator: Accelerator,
    gemm: Contraction,
    cost: Cost,
    order: Order,
    contexts: int,
    result_contexts: int,
) -> tuple[float, Tiling] | None:
    c = _candidates(conv, order, contexts, result_contexts)
    fits = _fits(c, conv, epilogue, accelerator, gemm, order)
    if not fits.any():
        return None
    price = np.where(fits, cost(c, conv, epilogue, gemm, accelerator), np.inf)
    i = int(np.argmin(price))
    rows, columns = int(c.out_rows[i]), int(c.out_columns[i])
    return float(price[i]), Tiling(
        out_blocks=int(c.out_blocks[i]),
        out_rows=rows,
        out_columns=columns,
        in_blocks=int(c.in_blocks[i]),
        kernel_rows=int(c.kernel_rows[i]),
        kernel_columns=int(c.kernel_columns[i]),
        order=order,
        operand_contexts=contexts,
        result_contexts=result_contexts,
        out_pitch_h=-(-conv.out_height // rows) * rows,
        out_pitch_w=-(-conv.out_width // columns) * columns,
    )
