"""What a tiling costs on Gemmini, for the planner: an estimate in cycles from how the hardware takes a stream.

Instructions are sent in the order of ``accel/isa/gemmini/timing/issue_order.py``, so that loads, products and stores of
different tiles overlap as far as the contexts let them. What limits a layer is then the slowest of: its loads, its
products behind the loads of the first step, its stores, the way of each tile through all three, and the processor.
Where the scratchpad has banks, data and weights lie in different ones, and a product takes as many cycles as the mesh
has rows, else twice as many. ``accel/isa/gemmini/timing/stream_timing.py`` is the measure; this is only the guide.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accel.accelerator.contraction import Contraction
from accel.accelerator.document import Accelerator
from accel.accelerator.memories import Memory
from accel.isa.gemmini.document.gemmini_document import parameters_of
from accel.isa.gemmini.document.gemmini_parameters import ACC_BYTES, LINE_BYTES, GemminiParameters
from accel.isa.gemmini.gemmini_cache_misses import MissedLines, missed_lines
from accel.region.epilogue import Epilogue
from accel.region.kinds import TilingOption
from accel.region.shapes import Convolution
from accel.region.tilings import Candidates, ceil_div, windows_of
from accel.util.arrays import Float64, Int64

_CONFIGURES = 2  # instructions that set the stride of loads, and set it back
_ONCE = 4  # instructions of a launch beside those of its tiles
_LOAD = 14  # cycles of a load alone, beside memory's and one a row (mvin of the recordings)
_WAY = 7  # cycles of a request's and its answer's way through buffers (mvin_chain of the recordings)
_HIDDEN = 0.5  # of what waits for the one bank of accumulators, by each step of a tile but the last
_POOLED, _POOLED_READ = 16, 1.6  # cycles of the beginning of a store of windows, and of an element of one
_BEHIND_WRITES = 0.8  # of loads, which wait behind writes that wait for the line before
_FEW = 4  # steps of a launch
_KEPT_LEAST = 7.2  # cycles of a product of few rows whose weights stay


class _Fit(NamedTuple):
    """What is fitted to the cycles of tilings.

    Attributes:
        first: of the loads of the first step, before its products run as fast as they can.
        behind: of the products of a step, behind the last load.
        tile_way: cycles of a tile from its bias to its results in DRAM, beside what moves and multiplies.
        step_way: cycles of a step from its data to its products.
        gaps: times the rows of the mesh, in which it is empty: between steps, between tiles.
        kept_more: cycles of a product whose weights stay beside its rows.
        weights_held: of loads of weights beside others, into a bank from which products read meanwhile.
        data_held: of loads of data.
        in_the_way: of all that is moved, which keeps products from their banks.
        together: the power in which cycles add up of what waits for each other: 1 is one after the other.
    """

    first: float
    behind: float
    tile_way: int
    step_way: int
    gaps: tuple[float, float]
    kept_more: float
    weights_held: float
    data_held: float
    in_the_way: float
    together: float


_LARGE = 150_000  # cycles of a layer whose first and last tiles hardly count
# to 2,113 tilings of six networks on the default configuration
_BANKS = _Fit(0.7, 0.6, 80, 140, (0, 0), 0, 0.5, 0.05, 0, 8)
# one bank of accumulators: to 60 tilings each of the layers of four networks
_ONE_BANK = _Fit(1.0, 0.6, 100, 80, (0.75, 0.5), 0.7, 0, 0, 0.05, math.inf)


def prices_exactly(option: TilingOption, accelerator: Accelerator) -> bool:
    """Returns whether an estimate is as good as trials: that of a large layer by single products, without caches.

    Nearly all of its cycles are those of tiles that follow one another. On five configurations trials of such layers
    of six networks won nothing, and took a tenth of the time.
    """
    large = option.cycles > _LARGE and not option.region.tiling.layer
    return large and parameters_of(accelerator).memory is None


def tiling_cost(
    c: Candidates, conv: Convolution, epilogue: Epilogue, gemm: Contraction, accelerator: Accelerator
) -> npt.NDArray[np.float64]:
    """Estimated cycles of each candidate: those of what is slowest."""
    parameters = parameters_of(accelerator)
    fit = _ONE_BANK if gemm.dst.memory.banks == 1 else _BANKS
    dim = parameters.dim
    sent = _instructions(c, conv, epilogue, gemm, dim)
    pixels = c.out_rows * c.out_columns
    row = _request(1, parameters)
    missed = missed_lines(
        c, conv, parameters, weights_in_rows=gemm.weights.blocks > 1, results_in_rows=gemm.data.blocks > 1
    )

    def loaded(loads: Int64, rows: Int64, blocks: Int64 | int = 1, most: int = 1, late: Float64 | int = 0) -> Float64:
        """Cycles of ``loads`` of so many rows, each of ``blocks`` and in requests of at most ``most`` of them.

        Few loads are under way at once, and each waits for memory. ``late`` cycles more are waited for a row's answers.
        """
        beats = rows * np.maximum(np.asarray(blocks) * dim / parameters.dma_bus_bytes, 1)
        alone = (loads * (parameters.answer_latency + _LOAD) + beats) / parameters.commands_tracked
        whole, rest = np.asarray(blocks) // most, np.asarray(blocks) % most
        each = whole * _request(most, parameters) + np.where(rest, _request(_power_of_two(rest), parameters), 0)
        return np.maximum(rows * (each + late / parameters.requests_in_flight), alone)

    lines = c.data_rows * c.data_columns
    late = missed.data * missed.latency / (c.data_loads * lines)
    data = np.where(
        lines == 1,
        loaded(sent.data, c.data_blocks),
        loaded(sent.data, lines, c.data_blocks, gemm.data.blocks, late),
    )
    rows = dim * c.in_blocks * c.kernel_rows * c.kernel_columns
    late = missed.weights * missed.latency / (np.maximum(c.weight_loads, 1) * rows)
    per_load = (np.full_like(rows, dim),) if conv.uniform else (rows, c.out_blocks, gemm.weights.blocks, late)
    weights = loaded(sent.weights, *per_load)
    # all rows of a tile's bias are the same row of DRAM
    alone = parameters.answer_latency + _LOAD
    bias = (sent.bias * (alone + dim) + sent.border * alone) / parameters.commands_tracked
    again = _write_again(c, conv, epilogue, gemm, parameters)
    written = np.maximum(row, ACC_BYTES * dim / parameters.dma_bus_bytes + 1) if epilogue.wide else row
    stored = _stored_cycles(c, conv, np.maximum(written, again))
    stored += missed.results * missed.latency / (c.tiles * parameters.requests_in_flight)
    product = dim * (1 + _shared_banks(c, dim, accelerator.memories[0]))
    products = _product_cycles(c, conv, sent, product, dim, fit.kept_more)
    sums = dim * (1 if accelerator.memories[0].banks > 1 else 2) * sent.sums
    steps, first = c.tiles * c.reductions, data + weights
    loading = c.data_loads * data + c.weight_loads * weights + c.tiles * bias
    # constants of sums come before all else, but for loads that wait for caches; of many steps less of it is seen
    few = np.where((gemm.dst.memory.banks > 1) & (parameters.memory is None), np.minimum(1, (_FEW / steps) ** 2), 0)
    if epilogue.products:  # their weights are loaded for each group of output channels
        groups = np.where(c.data_loads < c.tiles, c.tiles, conv.out_blocks // c.out_blocks)
        loading = loading + epilogue.products * groups * loaded(c.out_blocks, c.out_blocks * dim)
        first = first + few * (
            loaded(np.ones_like(steps), np.full_like(steps, dim)) + loaded(c.out_blocks, c.out_blocks * dim)
        )
    per_step = data * (c.data_loads == steps) + weights * (c.weight_loads == steps)
    line = _line(c, conv)
    ragged, together = (line > dim) & (line % dim > 0), steps * products + c.tiles * (sums + stored)
    # weights of the first of several loads are replaced while products still read those of the others
    groups = ceil_div(c.out_blocks, gemm.weights.blocks)
    held = fit.weights_held * c.weight_loads * weights * (1 - 1 / groups) + fit.data_held * c.data_loads * data
    # with one context of results biases are loaded behind the store before them, and all other loads behind these
    behind = np.where((c.result_contexts == 1) & (gemm.dst.memory.banks > 1) & (sent.bias > 0), per_step, 0)
    way = bias + behind + products * c.reductions + sums + stored + fit.tile_way
    mesh = steps * (products + fit.gaps[0] * dim) + c.tiles * (sums + fit.gaps[1] * dim) + held
    busy = (
        (loading, fit.behind * products + sums + stored),
        (mesh, fit.first * (first + bias) + stored),
        (c.tiles * stored, first + bias),
        (c.tiles * way / c.result_contexts - behind, first),
        (np.where(per_step > 0, steps * (per_step + products + fit.step_way) / c.contexts, 0), 0),
    )
    # stores find the bank free while the mesh waits for weights, as it does in short products
    gaps = steps * products * np.clip(2 * (1 - line / dim), 0, 1)
    waiting = together - gaps - _HIDDEN * c.tiles * (bias + stored) * (1 - 1 / c.reductions)
    limits = (
        _slowest(busy, fit.together),
        # short products of a step begin behind its loads but the last of each row: they are over before the next ones
        np.where(pixels == 1, steps * (per_step * np.maximum(1 - gemm.weights.blocks / c.out_blocks, 0) + products), 0),
        np.where(
            ragged & (gemm.dst.memory.banks == 1), c.tiles * stored + first + bias + 2 * products * c.reductions, 0
        ),
        np.where(again > row, c.tiles * stored + _BEHIND_WRITES * loading + first + bias, 0),
        parameters.issue_cycles * sent.total,
        (missed.data + missed.weights + missed.results) * missed.line_cycles,
        # results of a ragged line are complete together: nothing of the next tile begins where they have one context
        np.where(ragged & (c.result_contexts == 1) & (c.tiles > 1), loading + together, 0),
        # in one bank biases wait for the stores before them, and products for both
        np.where((gemm.dst.memory.banks == 1) & (sent.bias > 0), waiting + first + bias, 0),
        _kept_apart(c, data, weights, products, missed) + first + stored,
    )
    slowest = np.maximum.reduce([np.asarray(limit, np.float64) for limit in limits])
    return np.asarray(slowest + fit.in_the_way * (loading + c.tiles * stored))


def _slowest(busy: Sequence[tuple[Float64, Float64 | int]], power: float) -> Float64:
    """The cycles of the slowest of several that wait for each other, and those at its ends, when it is alone.

    What takes about as long as the slowest holds it up, the more the lower the ``power`` is in which they add up.
    """
    cycles, ends = (
        np.stack(np.broadcast_arrays(*(np.asarray(each[part], np.float64) for each in busy))) for part in (0, 1)
    )
    last = np.take_along_axis(ends, np.argmax(cycles + ends, axis=0)[np.newaxis], axis=0)[0]
    longest = cycles.max(axis=0)
    if math.isinf(power):
        return np.asarray((cycles + ends).max(axis=0))
    return np.asarray(longest * ((cycles / longest) ** power).sum(axis=0) ** (1 / power) + last)


def _kept_apart(c: Candidates, data: Float64, weights: Float64, products: Float64, missed: MissedLines) -> Float64:
    """Cycles (n,) of steps of so many ``products``, between which an operand that stays for several tiles is loaded.

    Its load is sent behind the last of what these tiles need, for which there is room when the last but one begins, and
    before what the next tile needs: all three beside the products of two tiles. 0 where nothing stays, or all does.
    """
    steps = c.tiles * c.reductions
    data = np.maximum(data, missed.data * missed.line_cycles / c.data_loads)
    weights = np.maximum(weights, missed.weights * missed.line_cycles / np.maximum(c.weight_loads, 1))
    limits = []
    for loads, kept, passing in ((c.weight_loads, weights, data), (c.data_loads, data, weights)):
        waited = np.maximum(kept + c.contexts * (passing - products), 0)
        limits.append(np.where((loads > 1) & (loads < steps), steps * products + (loads - 1) * waited, 0))
    return np.asarray(np.maximum(*limits), np.float64)


def _stored_cycles(c: Candidates, conv: Convolution, row: Float64) -> Float64:
    """Cycles (n,) of the stores of a tile, of so many cycles a row, or of windows."""
    if conv.pooled is None:
        return np.asarray(c.out_blocks * (c.out_rows * c.out_columns) * row, np.float64)
    elements = windows_of(c, conv) * math.prod(conv.pooled.window.kernel)
    return np.asarray(c.out_blocks * (_POOLED + _POOLED_READ * elements), np.float64)


def _shared_banks(c: Candidates, dim: int, memory: Memory) -> Float64:
    """The share (n,) of a step's products whose data and weights are in one bank, which are read one after the other.

    In each half of the memory the data lie at the beginning and the weights at the end, of one context or of both.
    """
    if memory.banks == 1:
        return np.ones(c.tiles.shape)
    bank, half = memory.depth // memory.banks, memory.depth // 2
    data = c.data_blocks * c.data_rows * c.data_columns
    weights = dim * c.out_blocks * c.in_blocks * c.kernel_rows * c.kernel_columns
    first = (half - weights) // bank * bank  # of the first bank that has weights
    data_there = np.clip(data - first, 0, data) / data
    weights_there = np.clip(first + bank - half + weights, 0, weights) / weights
    return np.asarray(data_there * weights_there, np.float64)


def _product_cycles(
    c: Candidates, conv: Convolution, sent: "_Instructions", product: Float64, dim: int, kept_more: float
) -> npt.NDArray[np.float64]:
    """Cycles of the products of a step: where a line is no whole number of products, weights stay for all of it.

    Only the last product of a tile of weights takes as long as to bring the next ones then.
    """
    line = _line(c, conv)
    tiles = 1 if conv.uniform else c.out_blocks * c.in_blocks * c.kernel_rows * c.kernel_columns
    whole, rest = line // dim, line % dim
    lines = sent.products / (tiles * ceil_div(line, dim))  # for each tile of weights
    short = np.maximum(rest + kept_more, _KEPT_LEAST)
    ragged = tiles * (product + (lines * whole - 1) * dim + lines * short)
    kept = product * np.minimum(tiles, sent.products) + np.maximum(sent.products - tiles, 0) * short
    return np.asarray(np.where(rest == 0, product * sent.products, np.where(whole == 0, kept, ragged)))


def _line(c: Candidates, conv: Convolution) -> Int64:
    """Pixels of a tile whose data lie in a line for each tap."""
    line = np.where(c.out_columns == 1, c.out_rows, c.out_columns)
    return np.asarray(np.where(_is_dense(c, conv), c.out_rows * c.out_columns, line), np.int64)


def _is_dense(c: Candidates, conv: Convolution) -> npt.NDArray[np.bool_]:
    """Whether the data of a tap's products are in one line, and so are their sums."""
    dense = (c.data_columns == c.out_columns) & (c.data_rows - c.out_rows == c.kernel_rows - 1)
    return np.asarray(dense & (not any(conv.borders[1])))


def _border_loads(c: Candidates, conv: Convolution, dim: int) -> Int64:
    """Loads that fill the border of a tile: rows of its whole width, and columns row by row."""
    (above, below), (left, right) = conv.borders
    wide = c.out_columns + left + right
    rows = ceil_div(above * wide, dim) + ceil_div(below * wide, dim)
    return np.asarray(c.out_blocks * (rows + c.out_rows * (int(left > 0) + int(right > 0))), np.int64)


def _power_of_two(blocks: Int64) -> Int64:
    """The least power of two that is not less: what a request has more is thrown away (DMA.scala ``read_packets``)."""
    return np.asarray(np.exp2(np.ceil(np.log2(np.maximum(blocks, 1)))), np.int64)


def _request(blocks: Int64 | int, parameters: GemminiParameters) -> Float64:
    """Cycles of a request for so many blocks where many follow: the next takes its place when it is answered."""
    beats = np.maximum(np.asarray(blocks) * parameters.dim / parameters.dma_bus_bytes, 1)
    answered = parameters.answer_latency + _WAY + beats - 1
    return np.asarray(np.maximum(beats, answered / parameters.requests_in_flight), np.float64)


def _write_again(
    c: Candidates, conv: Convolution, epilogue: Epilogue, gemm: Contraction, parameters: GemminiParameters
) -> Float64:
    """Cycles (n,) from one row of results to the next, which waits in the L2 if it is of the same line.

    Rows of a tile of one column are in lines of their own. 0 without an L2.
    """
    memory = parameters.memory
    if memory is None:
        return np.zeros(c.tiles.shape)
    apart = (conv.out_blocks if gemm.data.blocks > 1 else 1) * parameters.dim * (ACC_BYTES if epilogue.wide else 1)
    together = np.where(c.out_columns == conv.out_width, c.out_rows * c.out_columns, c.out_columns)
    own = np.maximum(1 / together, min(apart / LINE_BYTES, 1))  # the share of rows that begin a line
    return np.asarray(1 + memory.l2_write_cycles * (1 - own))


class _Instructions(NamedTuple):
    """Instructions of a region, and those of a tile: products of a step; loads of data, weights, bias; other sums.

    ``border`` are loads of what lies around the sums of a tile.
    """

    total: Int64
    products: Int64
    data: Int64
    weights: Int64
    bias: Int64
    border: Int64
    sums: Int64


def _instructions(c: Candidates, conv: Convolution, epilogue: Epilogue, gemm: Contraction, dim: int) -> _Instructions:
    """Counts of an instruction for each ``dim`` rows that lie in a line: of an image's row, or of whole rows."""
    side_by_side = gemm.data.blocks > 1
    pixels = c.out_rows * c.out_columns
    taps = c.kernel_rows * c.kernel_columns
    products = c.out_blocks * _in_lines(c.out_rows, c.out_columns, dim, _is_dense(c, conv))
    if conv.uniform:  # the weights of all blocks
        products = np.where(pixels == 1, ceil_div(c.out_blocks, dim), products)
    products = products * c.in_blocks * taps

    full = conv.data.width + conv.padding[1] + conv.padding[3]
    lines = _in_lines(c.data_rows, c.data_columns, dim, c.data_columns == full)
    data = ceil_div(c.data_blocks, gemm.data.blocks) * lines
    all_rows = (c.data_columns == full) & (c.data_rows == conv.data.height + conv.padding[0] + conv.padding[2])
    one = c.data_rows * c.data_columns == 1  # whose blocks lie in a line
    data = np.where(
        one if side_by_side else all_rows, ceil_div(c.data_blocks * c.data_rows * c.data_columns, dim), data
    )
    # a column is loaded with a stride of its own, which the weights do not have
    data = data + np.where((c.data_columns == 1) & (full > 1), _CONFIGURES, 0)
    weights = np.ones_like(taps) if conv.uniform else ceil_div(c.out_blocks, gemm.weights.blocks) * c.in_blocks * taps
    lines_of_sums = _in_lines(c.out_rows, c.out_columns, dim, np.full(pixels.shape, not any(conv.borders[1])))
    start = c.out_blocks * lines_of_sums if epilogue.start == "bias" else np.zeros_like(pixels)
    border = _border_loads(c, conv, dim)
    whole = c.out_columns == conv.out_width
    store = c.out_blocks * _in_lines(c.out_rows, c.out_columns, dim, whole)
    all_stored = pixels == 1 if side_by_side else whole & (c.out_rows == conv.out_height)
    store = np.where(all_stored, ceil_div(c.out_blocks * pixels, dim), store)
    if conv.pooled is not None:
        store = c.out_blocks
    sums = epilogue.sums * c.out_blocks * ceil_div(pixels, dim)
    total = 2 * c.tiles * c.reductions * products + c.data_loads * data + c.weight_loads * weights
    total = total + c.tiles * (start + border + store + 2 * sums) + _ONCE
    total = total + (c.data_loads + c.weight_loads) * side_by_side  # each with a stride of its own
    return _Instructions(total, products, data, weights, start, border, sums)


def _in_lines(rows: Int64, columns: Int64, dim: int, dense: npt.NDArray[np.bool_]) -> Int64:
    """Pieces of at most ``dim`` elements of a rectangle, which may be in a line as a whole."""
    pieces = np.where(columns == 1, ceil_div(rows, dim), rows * ceil_div(columns, dim))
    return np.where(dense, ceil_div(rows * columns, dim), pieces)
