"""Tilings of a convolution that fit scratchpads, micro-op memory and instruction fields, the cheapest first."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accel.accelerator.contraction import Contraction
from accel.accelerator.document import Accelerator, TokenSync
from accel.accelerator.instructions import Copy
from accel.lowering.analysis.buffer_contexts import bias_contexts, needs_double_buffer, vector_contexts
from accel.lowering.analysis.kept_answers import KeptAnswers
from accel.lowering.analysis.window_stores import image_room, part_mismatch
from accel.lowering.kinds.contraction.fitting_candidates import FittingCandidates, dump_candidates, load_candidates
from accel.region.epilogue import Epilogue
from accel.region.shapes import Convolution, StoredWindows
from accel.region.slides import columns_at_once, slide_of
from accel.region.tilings import (
    Candidates,
    Order,
    Tiling,
    TilingCost,
    candidates_by_order,
    ceil_div,
    loop_orders,
    stored_extents,
)
from accel.util.arrays import Bools, Float64, Int64


class _TileNeeds(NamedTuple):
    """What tiles need whatever the order of the loops and the contexts of the results, for each candidate (n,).

    ``fit`` is whether padding and loops fit the fields of instructions, ``microops`` an upper bound for each context of
    the results, ``data`` and ``weights`` the tiles in the scratchpads but for the operands of sums.
    """

    fit: Bools
    microops: Int64
    data: Int64
    weights: Int64


def _tile_needs(
    c: Candidates, conv: Convolution, epilogue: Epilogue, accelerator: Accelerator, gemm: Contraction
) -> _TileNeeds:
    fit = _padding_fits(c, conv, accelerator, gemm) & (slide_of(c, conv, gemm) < max(len(gemm.slides), 1))
    instruction, microops = gemm.instruction, np.zeros_like(c.tiles)
    if conv.pooled is not None:
        fit &= _windows_fit(c, conv, conv.pooled, accelerator)
    if instruction.microops is not None:
        microops = _resident_microops(c, epilogue)
        most = 1 << min(accelerator.bits(instruction, loop.extent) for loop in instruction.loops)
        for extent in (c.out_rows * c.out_columns, c.in_blocks, c.out_blocks):
            fit &= extent < most
    data = c.contexts * _blocks_from_end_to_end(c, conv) * c.data_rows * c.data_columns
    weights = c.contexts * c.out_blocks * c.in_blocks * c.kernel_rows * c.kernel_columns
    return _TileNeeds(fit, microops, data, np.ones_like(weights) if conv.uniform else weights)


def _windows_fit(c: Candidates, conv: Convolution, pooled: StoredWindows, accelerator: Accelerator) -> Bools:
    """Whether the store takes the windows of tiles, and what they lie on has room where it takes them from."""
    store = accelerator.instruction(pooled.store)
    assert isinstance(store, Copy)
    (rows, row), (columns, column) = (
        np.unique(stored_extents(conv, axis, extents), return_inverse=True)
        for axis, extents in enumerate((c.out_rows, c.out_columns))
    )
    spans = [
        [pooled.span(axis, int(count), conv.sums[axis]) for count in each] for axis, each in enumerate((rows, columns))
    ]
    room = image_room(store, accelerator)
    able = [
        [
            spans[0][y] * spans[1][x] <= room and not part_mismatch(pooled, (high, wide), conv.sums, store, accelerator)
            for x, wide in enumerate(columns.tolist())
        ]
        for y, high in enumerate(rows.tolist())
    ]
    return np.asarray(np.array(able, np.bool_)[row, column] & (_accumulators(c, conv) <= room))


def _accumulators(c: Candidates, conv: Convolution) -> Int64:
    """Accumulators of a tile: its sums, with the border of those that are pooled."""
    around_rows, around_columns = map(sum, conv.borders)
    return c.out_blocks * (c.out_rows + around_rows) * (c.out_columns + around_columns)


def _fits_memory(
    c: Candidates,
    needs: _TileNeeds,
    conv: Convolution,
    epilogue: Epilogue,
    accelerator: Accelerator,
    gemm: Contraction,
    order: Order,
) -> Bools:
    """Which of the candidates (n,) fit."""
    bias = c.out_blocks * bias_contexts(c, conv, epilogue, accelerator, gemm, order)
    results = c.result_contexts * _accumulators(c, conv)
    more = _operands_of_sums(c, conv, epilogue, gemm, results)
    sizes = (
        (gemm.data, needs.data + more[0]),
        (gemm.weights, needs.weights + more[1]),
        (gemm.dst, results + bias),
        *(() if gemm.stage is None else ((replace(gemm.weights, memory=gemm.stage.memory), needs.weights),)),
    )
    used: dict[str, Int64] = {}
    for tile, count in sizes:
        used[tile.memory.name] = used.get(tile.memory.name, np.int64(0)) + count * tile.elements
    for _, memory in () if epilogue.factors is None else epilogue.factors.operands:
        used[memory] = used.get(memory, np.int64(0)) + c.out_blocks * vector_contexts(c, conv, order)
    fit = needs.fit.copy()
    for needed, there in accelerator.rooms(used):
        fit &= needed <= there
    if gemm.instruction.microops is not None:
        fit &= c.result_contexts * needs.microops <= accelerator.memory(gemm.instruction.microops.memory).depth
    if epilogue.adds_operand:
        fit &= _operand_fits(c, conv, accelerator)
    if needs_double_buffer(epilogue, accelerator, gemm):
        fit &= (c.result_contexts > 1) | (c.tiles == 1)
    if order != "stream":  # the operand that stays is guarded by the tokens of the one that passes: it must pass twice
        inner = c.tiles * c.reductions // (c.weight_loads if order == "weights" else c.data_loads)
        fit &= inner >= c.contexts
    return fit


def _blocks_from_end_to_end(c: Candidates, conv: Convolution) -> Int64:
    """Blocks of data in a buffer: a tile of several groups has room for all of their blocks between its own."""
    groups = c.data_blocks // c.in_blocks
    return np.asarray((groups - 1) * conv.reduced_blocks + c.in_blocks)


def _operands_of_sums(
    c: Candidates, conv: Convolution, epilogue: Epilogue, gemm: Contraction, results: Int64
) -> tuple[Int64, Int64]:
    """Tiles of data and of weights that the contractions of an epilogue keep."""
    data, weights = np.zeros_like(results), np.zeros_like(results)
    data, weights = data + epilogue.products, weights + epilogue.products * c.contexts * c.out_blocks
    if gemm.line:  # constants for each pixel of a tile, at most
        wide = np.where(c.out_columns == 1, conv.strides[0] * c.data_columns, conv.strides[1])
        data = data + epilogue.products * c.out_rows * c.out_columns * wide
    if epilogue.adds_operand:
        data, weights = data + results, weights + 1
    return data, weights


def _divides(c: Candidates, conv: Convolution) -> Bools:
    """Whether the result is whole tiles; of windows the last tile has no other than those that there are."""
    whole = (conv.out_height % c.out_rows == 0) & (conv.out_width % c.out_columns == 0)
    return np.asarray(whole | (conv.pooled is not None))


def _operand_fits(c: Candidates, conv: Convolution, accelerator: Accelerator) -> npt.NDArray[np.bool_]:
    """Whether a tensor that is added comes in whole tiles, as nothing pads it.

    Its tiles have the contexts of the results. Where units wait by tokens, those of the inner loads must cover them.
    """
    fit = _divides(c, conv)
    if isinstance(accelerator.synchronisation, TokenSync):
        alone = (c.reductions == 1) & (c.contexts == c.result_contexts)
        fit &= (c.tiles == 1) | alone | ((c.reductions > c.contexts) & (c.result_contexts > 1))
    return np.asarray(fit)


def _resident_microops(c: Candidates, epilogue: Epilogue) -> Int64:
    """An upper bound for each context of the results: the two longest loops run in hardware, the rest are micro-ops."""
    extents = np.stack([c.out_blocks, c.out_rows, c.out_columns, c.in_blocks, c.kernel_rows, c.kernel_columns])
    table = np.prod(np.sort(extents, axis=0)[:-2], axis=0)
    # passes walk the accumulators: at worst one micro-op a block, one set a context; sums walk weights too
    walks = 2 + max(epilogue.tensors, 1) + epilogue.sums * c.contexts
    return np.asarray(table * c.contexts**2 + walks * c.out_blocks)


def _padding_fits(
    c: Candidates, conv: Convolution, accelerator: Accelerator, gemm: Contraction
) -> npt.NDArray[np.bool_]:
    """Every tile must hold at least one row and column of real data, and its padding must fit the fields.

    Of sums that are pooled no tile reaches beyond the image, and no load pads.
    """
    if conv.pooled is not None:
        return np.full(c.out_rows.shape, not any(conv.padding))
    copy = accelerator.copy_instruction(gemm.data.memory.name, "load")
    names = (copy.copy_fields.pad_top, copy.copy_fields.pad_left) if copy else (None, None)
    fit = np.ones(c.out_rows.shape, dtype=np.bool_)
    for axis, tile, extent, out, size, name in (
        (0, c.out_rows, c.data_rows, conv.out_height, conv.data.height, names[0]),
        (1, c.out_columns, c.data_columns, conv.out_width, conv.data.width, names[1]),
    ):
        before = conv.padding[axis]
        last = (ceil_div(out, tile) - 1) * tile * conv.strides[axis] - before
        reach = (tile - 1) * conv.strides[axis] + (conv.kernel[axis] - 1) * conv.dilation[axis] + 1
        after = np.maximum(last + reach - size, 0)
        limit = (1 << accelerator.bits(copy, name)) - 1 if copy and name else 0
        fit &= (before < extent) & (last < size) & (before <= limit) & (after <= limit)
    return fit


@dataclass(frozen=True)
class PricedTiling:
    """A tiling and its estimated cycles."""

    cycles: float
    tiling: Tiling


def plan_convolution(
    conv: Convolution,
    epilogue: Epilogue,
    accelerator: Accelerator,
    gemm: Contraction,
    cost: TilingCost,
    count: int = 1,
    *,
    dividing: bool = False,
    answers: KeptAnswers | None = None,
) -> list[PricedTiling]:
    """The ``count`` cheapest tilings that fit, the best first; none if not even the smallest does.

    The result's pitches are its height and width rounded up to whole tiles; with ``dividing`` these are no more.
    """
    return PricedConvolution(conv, epilogue, accelerator, gemm, cost, answers).cheapest(count, dividing=dividing)


class PricedConvolution:
    """The candidates of a convolution with their prices, which are worked out once for all that is asked of them.

    Those that fit are as an earlier job found them, if the ``answers`` have them.
    """

    def __init__(
        self,
        conv: Convolution,
        epilogue: Epilogue,
        accelerator: Accelerator,
        gemm: Contraction,
        cost: TilingCost,
        answers: KeptAnswers | None = None,
    ) -> None:
        self._conv, self._epilogue, self._accelerator = conv, epilogue, accelerator
        self._gemm, self._cost, self._answers = gemm, cost, answers
        self._priced: dict[int, tuple[FittingCandidates, Float64]] = {}

    def cheapest(self, count: int, *, dividing: bool) -> list[PricedTiling]:
        """Returns the ``count`` cheapest tilings that fit, as :func:`plan_convolution` does."""
        for operand_contexts in (2, 1):
            if operand_contexts not in self._priced:
                fitting = self._fitting(operand_contexts)
                self._priced[operand_contexts] = fitting, self._prices(fitting.candidates)
            found = _cheapest(*self._priced[operand_contexts], self._conv, count, dividing=dividing)
            if found:
                return found
        return []

    def _prices(self, candidates: Candidates) -> Float64:
        if not len(candidates.tiles):
            return np.zeros(0)
        return self._cost(candidates, self._conv, self._epilogue, self._gemm, self._accelerator)

    def _fitting(self, operand_contexts: int) -> FittingCandidates:
        """The candidates with so many contexts of operands that fit; first those with the most contexts of results."""
        answers, question = self._answers, f"tilings {self._conv} {self._epilogue} {operand_contexts}"
        known = None if answers is None else answers.find(question)
        if known is not None:
            with suppress(ValueError):
                return load_candidates(known)
        found = FittingCandidates.joined(list(self._fitting_anew(operand_contexts)))
        if answers is not None:
            answers.note(question, dump_candidates(found))
        return found

    def _fitting_anew(self, operand_contexts: int) -> Iterator[tuple[Order, Candidates, Bools]]:
        conv, epilogue, accelerator, gemm = self._conv, self._epilogue, self._accelerator, self._gemm
        # where store and compute alternate inside a tile (planes) a second context gains nothing
        needed = needs_double_buffer(epilogue, accelerator, gemm)
        result_choices = (2, 1) if epilogue.planes == 1 or needed else (1,)
        orders: tuple[Order, ...] = loop_orders(conv) if operand_contexts == 2 else ("stream",)
        candidates = candidates_by_order(conv, orders, operand_contexts, 1, columns_at_once(gemm))
        needs = {
            order: _tile_needs(candidates[order], conv, epilogue, accelerator, gemm)
            for order in orders
            if order != "data"  # whose tiles are those of weights that stay
        }
        for result_contexts in result_choices:
            for order in orders:
                c = candidates[order].with_result_contexts(result_contexts)
                needed_of = needs["weights" if order == "data" else order]
                yield order, c, _fits_memory(c, needed_of, conv, epilogue, accelerator, gemm, order)


def _cheapest(
    fitting: FittingCandidates, prices: Float64, conv: Convolution, count: int, *, dividing: bool
) -> list[PricedTiling]:
    """The ``count`` candidates of least ``prices`` (n,), the first of equal ones; with ``dividing`` those that do."""
    c = fitting.candidates
    wanted = np.where(_divides(c, conv), prices, np.inf) if dividing else prices
    cheapest = np.argsort(wanted, kind="stable")[:count].tolist()
    return [
        PricedTiling(float(wanted[at]), _tiling(c, at, conv, fitting.order(at)))
        for at in cheapest
        if np.isfinite(wanted[at])
    ]


def _tiling(c: Candidates, i: int, conv: Convolution, order: Order) -> Tiling:
    """Candidate ``i``."""
    rows, columns = (
        int(stored_extents(conv, axis, each[i : i + 1])[0]) for axis, each in enumerate((c.out_rows, c.out_columns))
    )
    pitches = -(-conv.out_height // rows) * rows, -(-conv.out_width // columns) * columns
    high, wide = pitches if conv.pooled is None else conv.pooled.counts
    return Tiling(
        out_blocks=int(c.out_blocks[i]),
        out_rows=rows,
        out_columns=columns,
        in_blocks=int(c.in_blocks[i]),
        kernel_rows=int(c.kernel_rows[i]),
        kernel_columns=int(c.kernel_columns[i]),
        order=order,
        operand_contexts=c.contexts,
        result_contexts=int(c.result_contexts[i]),
        out_pitch_h=high,
        out_pitch_w=wide,
    )
