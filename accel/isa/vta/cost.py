"""What a tiling costs on VTA, for the planner: an estimate in cycles from the rules of the timing model.

It prices whole regions at once and leaves out what the planner cannot change. ``accel/isa/vta/timing.py`` is
the measure; this is only the guide.
"""

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.accelerator.memories import Memory
from accel.accelerator.roles import Contraction
from accel.lowering.geometry import Convolution, Epilogue
from accel.lowering.plan import Candidates

_PASS = 7  # cycles a GEMM or ALU instruction takes beside its iterations
_STORE_ELEMENT = 3  # cycles a stored element takes, and each burst once more


def tiling_cost(
    c: Candidates, conv: Convolution, epilogue: Epilogue, gemm: Contraction, accelerator: Accelerator
) -> npt.NDArray[np.float64]:
    """Estimated cycles of each candidate: the busiest unit, plus the first load and the last store."""
    bus, latency = accelerator.dram.bus_bytes, accelerator.dram.read_latency

    def beats(memory: Memory) -> float:
        return memory.element_bytes / bus

    data = c.data_blocks * (_PASS + latency) + c.data_blocks * c.data_rows * c.data_columns * beats(gemm.data.memory)
    taps = c.kernel_rows * c.kernel_columns
    weights = c.out_blocks * (_PASS + latency) + c.out_blocks * c.in_blocks * taps * beats(gemm.weights.memory)
    load = c.data_loads * data + c.weight_loads * weights

    results = c.out_blocks * c.out_rows * c.out_columns
    iterations = results * c.in_blocks * taps
    passes = (len(epilogue.steps) + epilogue.planes - 1) * (_PASS + results) + results * epilogue.has_bias
    compute = c.tiles * (c.reductions * (_PASS + iterations) + _PASS + results + passes)
    compute = compute + c.tiles * epilogue.has_bias * (_PASS + latency + c.out_blocks * beats(gemm.dst.memory))

    bursts = c.out_blocks * np.where(c.out_columns == conv.out_width, 1, c.out_rows)
    store_tile = epilogue.planes * (_STORE_ELEMENT * (results + bursts) + 1)
    store = c.tiles * store_tile

    return c.overlapped(load, compute, store, data + weights + store_tile)
