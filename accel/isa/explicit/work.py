"""The work of a launch, and how far its cycles can be trusted."""

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.roles import contraction
from accel.accelerator.timing_model import TimingModel
from accel.errors import InvalidAccelerator
from accel.isa.decode import Decoded
from accel.isa.explicit.accesses import extents_of
from accel.isa.explicit.boxes import boxes_of
from accel.isa.explicit.costs import cycles_of
from accel.isa.explicit.executions import executions_of
from accel.isa.explicit.timing import units_of
from accel.isa.family import Work
from accel.isa.traffic import traffic


def work_of(decoded: Decoded) -> Work:
    """The work of a launch by the document's costs.

    The lower bound is the busiest unit's, as a unit does one instruction at a time. The bus is told apart: the cycles
    of copies are what the document says, which may be less than their bytes take at ``bus_bytes`` a cycle. Reads and
    writes have a channel each, so the larger of the two counts.
    """
    accelerator, cycles, units = decoded.accelerator, cycles_of(decoded), units_of(decoded)
    busy = np.bincount(units, weights=cycles, minlength=len(accelerator.units)).astype(np.int64)
    contract, compute, macs = 0, 0, 0.0
    try:
        gemm = contraction(accelerator)
    except InvalidAccelerator:
        gemm = None  # a program for it may still be run
    if gemm is not None:
        compute = int(busy[accelerator.units.index(gemm.instruction.unit)])
        for executions in executions_of(decoded):
            meaning = executions.sort.meaning
            if meaning.instruction.name == gemm.instruction.name and meaning.operation == gemm.accumulate:
                contract = int(cycles[executions.words.rows].sum())
                iterations = extents_of(executions.words, gemm.instruction.loops).prod(axis=0, dtype=np.float64)
                macs = float(iterations.sum()) * gemm.macs
    bus = -(-max(traffic(boxes_of(decoded))) // accelerator.dram.bus_bytes)
    return Work(contract, compute, bus, int(busy.max(initial=0)), macs / contract if contract else None)


def timing_model(accelerator: Accelerator) -> TimingModel:
    """What is known of the cycle counts: that they follow the document."""
    ways = {
        "in_order": "instructions that start in the order of the program",
        "hazards": "units that wait for addresses",
        "tokens": "units that wait for tokens",
    }
    return TimingModel(
        statement=f"Cycles follow the costs that the document gives, and its {ways[accelerator.synchronisation.kind]}; "
        "nothing was compared with hardware. Instructions do not share the bus: a copy takes what its cost says.",
        calibrated=False,
        exact=0,
        of=0,
        worst_percent=None,
        outside=[],
    )
