"""What a tiling costs on Gemmini, for the planner: an estimate in cycles from the rules of the timing model.

The processor sends one instruction after the other, ``issue_cycles`` apart, which mostly takes longer than what they
do. A burst of loads takes longer than that: each row waits for one of few requests in flight, and the station holds few
loads. ``accel/isa/gemmini/timing/stream_timing.py`` is the measure; this is only the guide.
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


def tiling_cost(
    c: Candidates, conv: Convolution, epilogue: Epilogue, _gemm: Contraction, accelerator: Accelerator
) -> npt.NDArray[np.float64]:
    """Estimated cycles of each candidate: those of the processor, and of the units where it waits for them."""
    parameters = parameters_of(accelerator)
    sent = _instructions(c, conv, epilogue, parameters.dim)
    row = max(1.0, parameters.memory_latency / parameters.requests_in_flight)  # cycles of one, where many follow
    data_rows, weight_rows = c.data_blocks * c.data_rows * c.data_columns, sent.weights * parameters.dim
    together = np.minimum(c.data_loads, c.weight_loads)
    waits = np.zeros(c.out_rows.shape)
    for bursts, loads, rows in (
        (together, sent.data + sent.weights, data_rows + weight_rows),
        (c.data_loads - together, sent.data, data_rows),
        (c.weight_loads - together, sent.weights, weight_rows),
    ):
        # the last loads of a burst wait in the station while the processor goes on
        behind = np.maximum(loads - parameters.load_entries, 0) / np.maximum(loads, 1)
        waits = waits + bursts * np.maximum(row * rows * behind - parameters.issue_cycles * loads, 0)
    loading = row * (c.data_loads * data_rows + c.weight_loads * weight_rows)
    multiplying = c.tiles * c.reductions * sent.products * parameters.dim
    none = np.zeros(c.out_rows.shape)
    busiest = c.overlapped(loading, multiplying, none, none)
    return np.asarray(np.maximum(parameters.issue_cycles * sent.total + waits, busiest))


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
