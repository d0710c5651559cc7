"""What a tiling costs on VTA, for the planner: an estimate in cycles from the rules of the timing model.

It prices whole regions at once and leaves out what the planner cannot change. ``accel/isa/vta/timing/vta_timing.py`` is
the measure; this is only the guide.
"""

import numpy as np
import numpy.typing as npt

from accel.accelerator.contraction import Contraction
from accel.accelerator.document import Accelerator
from accel.accelerator.memories import Memory
from accel.region.epilogue import Epilogue
from accel.region.shapes import Convolution
from accel.region.tilings import Candidates, Cycles

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
    weights = _PASS + latency + c.out_blocks * c.in_blocks * taps * beats(gemm.weights.memory)
    load = c.data_loads * data + c.weight_loads * weights

    results = c.out_blocks * c.out_rows * c.out_columns
    if epilogue.has_product:
        load = load + (conv.out_blocks // c.out_blocks) * (_PASS + latency + c.out_blocks * beats(gemm.weights.memory))
    if epilogue.adds_operand:
        load = load + c.tiles * (c.out_blocks * (_PASS + latency) + results * beats(gemm.data.memory))
    iterations = results * c.in_blocks * taps
    passes = (len(epilogue.steps) + epilogue.planes - 1) * (_PASS + results) + results * epilogue.tensors
    ending = _PASS + results + passes  # with the clearing before
    ending = ending + epilogue.tensors * (_PASS + latency + c.out_blocks * beats(gemm.dst.memory))
    step = _PASS + iterations
    compute = c.tiles * np.maximum(ending + c.reductions * step, _late(c, ending, step, data, weights))

    bursts = c.out_blocks * np.where(c.out_columns == conv.out_width, 1, c.out_rows)
    store_tile = epilogue.planes * (_STORE_ELEMENT * (results + bursts) + 1)
    store = c.tiles * store_tile

    return c.overlapped(load, compute, store, data + weights + store_tile)


def _late(
    c: Candidates,
    ending: Cycles,
    step: Cycles,
    data: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Cycles of a tile whose loads are slower than its products; 0 of one where they are not.

    While the units end a tile the loads run ahead by as many steps as there are contexts. The others come one after
    the other once the first of those is done, and the last product after the last of them.
    """
    steps = c.tiles * c.reductions
    load = data * (c.data_loads == steps) + weights * (c.weight_loads == steps)
    late = ending + 2 * step + (c.reductions - c.contexts) * load
    return np.where((load > step) & (c.reductions > c.contexts), late, 0.0)
