"""What a tiling costs on Gemmini, for the planner: an estimate in cycles from how the hardware takes a stream.

Instructions enter the station in their order, so the loads of the next step wait until the products of this one have
all entered: what overlaps of a step is what the station holds. Where the scratchpad has banks, data and weights lie in
different ones, and a product takes as many cycles as the mesh has rows, else twice as many; a row that is loaded
meanwhile takes one more. A processor may be slower than all of that. ``accel/isa/gemmini/timing/stream_timing.py`` is
the measure; this is only the guide.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accel.accelerator.contraction import Contraction
from accel.accelerator.document import Accelerator
from accel.isa.gemmini.document.gemmini_document import parameters_of
from accel.region.epilogue import Epilogue
from accel.region.shapes import Convolution
from accel.region.tilings import Candidates, ceil_div
from accel.util.arrays import Int64

_CONFIGURES = 2  # instructions that set the stride of loads, and set it back
_ONCE = 4  # instructions of a launch beside those of its tiles
_LOAD = 14  # cycles of a load alone, beside memory's and one a row (mvin of the recordings)
_WAY = 7  # cycles of a request's and its answer's way through buffers (mvin_chain of the recordings)


def tiling_cost(
    c: Candidates, conv: Convolution, epilogue: Epilogue, _gemm: Contraction, accelerator: Accelerator
) -> npt.NDArray[np.float64]:
    """Estimated cycles of each candidate: those of the processor, and of the units where it waits for them."""
    parameters = parameters_of(accelerator)
    sent = _instructions(c, conv, epilogue, parameters.dim)
    # cycles of one row, where many follow: a request is free again so long after it was sent
    row = max(1.0, (parameters.answer_latency + _WAY) / parameters.requests_in_flight)
    data_rows, weight_rows = c.data_blocks * c.data_rows * c.data_columns, sent.weights * parameters.dim
    loading = np.zeros(c.out_rows.shape)
    for times, loads, rows in (
        (c.data_loads, sent.data, data_rows),
        (c.weight_loads, sent.weights, weight_rows),
    ):
        # few loads are under way at once, and each waits for memory
        alone = (loads * (parameters.answer_latency + _LOAD) + rows) / parameters.commands_tracked
        loading = loading + times * np.maximum(row * rows, alone)
    product = parameters.dim * (1 if accelerator.memories[0].banks > 1 else 2)
    multiplying = product * c.tiles * c.reductions * sent.products
    steps = np.maximum(c.data_loads, c.weight_loads)
    held = parameters.execute_entries // 2 * product  # cycles of the products that the station holds
    together = np.minimum(np.minimum(loading, multiplying) / steps, held) * steps
    shared = together * (1 - 1 / row) if row > 1 else 0 * together
    return np.asarray(np.maximum(parameters.issue_cycles * sent.total, loading + multiplying - shared))


class _Instructions(NamedTuple):
    """Instructions of a region, and of them the products of a step, and the loads of a tile of data or weights."""

    total: Int64
    products: Int64
    data: Int64
    weights: Int64


def _instructions(c: Candidates, conv: Convolution, epilogue: Epilogue, dim: int) -> _Instructions:
    """Counts of an instruction for each ``dim`` rows that lie in a line: of an image's row, or of whole rows."""
    pixels = c.out_rows * c.out_columns
    taps = c.kernel_rows * c.kernel_columns
    dense = (c.data_columns == c.out_columns) & (c.data_rows - c.out_rows == c.kernel_rows - 1)
    products = c.out_blocks * _in_lines(c.out_rows, c.out_columns, dim, dense)
    if conv.uniform:  # the weights of all blocks
        products = np.where(pixels == 1, ceil_div(c.out_blocks, dim), products)
    products = products * c.in_blocks * taps

    full = conv.data.width + conv.padding[1] + conv.padding[3]
    data = c.data_blocks * _in_lines(c.data_rows, c.data_columns, dim, c.data_columns == full)
    all_rows = (c.data_columns == full) & (c.data_rows == conv.data.height + conv.padding[0] + conv.padding[2])
    data = np.where(all_rows, ceil_div(c.data_blocks * c.data_rows * c.data_columns, dim), data)
    # a column is loaded with a stride of its own, which the weights do not have
    data = data + np.where((c.data_columns == 1) & (full > 1), _CONFIGURES, 0)
    weights = c.out_blocks * c.in_blocks * taps
    start = c.out_blocks * ceil_div(pixels, dim) if epilogue.start == "bias" else np.zeros_like(pixels)
    whole = c.out_columns == conv.out_width
    store = c.out_blocks * _in_lines(c.out_rows, c.out_columns, dim, whole)
    store = np.where(whole & (c.out_rows == conv.out_height), ceil_div(c.out_blocks * pixels, dim), store)
    total = 2 * c.tiles * c.reductions * products + c.data_loads * data + c.weight_loads * weights
    return _Instructions(total + c.tiles * (start + store) + _ONCE, products, data, weights)


def _in_lines(rows: Int64, columns: Int64, dim: int, dense: npt.NDArray[np.bool_]) -> Int64:
    """Pieces of at most ``dim`` elements of a rectangle, which may be in a line as a whole."""
    pieces = np.where(columns == 1, ceil_div(rows, dim), rows * ceil_div(columns, dim))
    return np.where(dense, ceil_div(rows * columns, dim), pieces)
