"""What a tiling costs on Gemmini, for the planner: an estimate in cycles from the rules of the timing model."""

import numpy as np
import numpy.typing as npt

from accel.accelerator.contraction import Contraction
from accel.accelerator.document import Accelerator
from accel.region.epilogue import Epilogue
from accel.region.shapes import Convolution
from accel.region.tilings import Candidates

_ROW = 1  # cycles a row of 16 elements takes on the bus, at 16 bytes a beat: its beats, at least one


def tiling_cost(
    c: Candidates, conv: Convolution, epilogue: Epilogue, gemm: Contraction, accelerator: Accelerator
) -> npt.NDArray[np.float64]:
    """Estimated cycles of each candidate: the busiest of loads, mesh and stores, plus the first load and last store.

    A product takes the mesh as many cycles as it has rows, though not fewer than a preload of the weights takes.
    """
    dim, bus, latency = gemm.out_channels, accelerator.dram.bus_bytes, accelerator.dram.read_latency
    whole = (conv.kernel == (1, 1)) & (c.out_columns == conv.out_width) & (conv.strides == (1, 1))
    pixels = c.out_rows * c.out_columns
    pieces = np.where(whole, -(-pixels // dim), c.out_rows * -(-c.out_columns // dim))
    taps = c.kernel_rows * c.kernel_columns
    products = c.out_blocks * c.in_blocks * taps * pieces

    beats = max(_ROW, gemm.data.memory.element_bytes // bus)
    data = c.data_blocks * c.data_rows * c.data_columns * beats + latency
    weights = c.out_blocks * c.in_blocks * taps * dim * beats + latency
    results = c.out_blocks * pixels
    start = c.out_blocks * -(-pixels // dim) * dim  # the bias, a row for each row of accumulators
    load = c.data_loads * data + c.weight_loads * weights + c.tiles * start
    store = c.tiles * (results * (1 if epilogue.result == "int8" else 4) + latency)
    compute = c.tiles * c.reductions * products * dim

    return c.overlapped(load, compute, store, data + weights + results)
