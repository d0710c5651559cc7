"""Family ``explicit``: everything about the instruction set is in the document; what its launches need at least."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from accel.accelerator.base import Model
from accel.accelerator.contraction import Contraction, contraction
from accel.accelerator.document import Accelerator
from accel.accelerator.timing_model import TimingModel
from accel.errors import InvalidAccelerator
from accel.isa.decode import Decoded
from accel.isa.explicit.accesses import extents_of
from accel.isa.explicit.box_hazards import ExplicitHazardChecker, prepare_hazards
from accel.isa.explicit.boxes import boxes_of, check_bounds, effort_of
from accel.isa.explicit.costs import costs_of, cycles_of
from accel.isa.explicit.document_support import check_explicit
from accel.isa.explicit.document_tiling_cost import tiling_cost
from accel.isa.explicit.operations import executions_of
from accel.isa.explicit.parameters import ExplicitParameters
from accel.isa.explicit.timing import prepare_timing, queue_names, time_launch, units_of
from accel.isa.family import Boxes, HazardChecker, Machine, Timing, Work, dram_traffic
from accel.program.program_model import Window
from accel.region.epilogue import Epilogue
from accel.region.shapes import Convolution
from accel.region.tilings import Candidates


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
    bus = -(-max(dram_traffic(boxes_of(decoded))) // accelerator.dram.bus_bytes)
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


class ExplicitFamily:
    """Everything that the engine, the planner and the reports ask for; see :class:`accel.isa.family.Family`.

    What needs the compiler is imported where it is asked for: a document is checked without it.
    """

    name = "explicit"
    parameters: type[Model] = ExplicitParameters
    takes_windows = False

    def check(self, accelerator: Accelerator) -> None:
        """See :func:`accel.isa.explicit.document_support.check_explicit`."""
        check_explicit(accelerator)

    def tiling_cost(
        self,
        candidates: Candidates,
        shape: Convolution,
        epilogue: Epilogue,
        gemm: Contraction,
        accelerator: Accelerator,
    ) -> npt.NDArray[np.float64]:
        """See :func:`accel.isa.explicit.document_tiling_cost.tiling_cost`."""
        return tiling_cost(candidates, shape, epilogue, gemm, accelerator)

    def first_context(self, accelerator: Accelerator, windows: tuple[Window, ...]) -> None:
        """No register that an instruction reads outlasts a launch."""

    def next_context(self, decoded: Decoded) -> None:
        """As :meth:`first_context`."""

    def check_launch(self, decoded: Decoded, dram_bytes: int) -> None:
        """See :func:`accel.isa.explicit.boxes.check_bounds`."""
        check_bounds(decoded, dram_bytes)

    def effort(self, decoded: Decoded) -> npt.NDArray[np.float64]:
        """See :func:`accel.isa.explicit.boxes.effort_of`."""
        return effort_of(decoded)

    def boxes(self, decoded: Decoded) -> Boxes:
        """See :func:`accel.isa.explicit.boxes.boxes_of`."""
        return boxes_of(decoded)

    def machine(self, accelerator: Accelerator) -> Machine:
        """See :class:`accel.isa.explicit.document_function.ExplicitMachine`."""
        from accel.isa.explicit import document_function

        return document_function.ExplicitMachine(accelerator)

    def hazard_checker(self, accelerator: Accelerator, tokens: dict[str, int], dram_bytes: int) -> HazardChecker:
        """See :class:`accel.isa.explicit.box_hazards.ExplicitHazardChecker`."""
        return ExplicitHazardChecker(accelerator, tokens, dram_bytes)

    def token_queues(self, accelerator: Accelerator) -> list[str]:
        """See :func:`accel.isa.explicit.timing.queue_names`."""
        return queue_names(accelerator)

    def time(self, decoded: Decoded, tokens: dict[str, int]) -> Timing:
        """See :func:`accel.isa.explicit.timing.time_launch`."""
        return time_launch(decoded, tokens)

    def work(self, decoded: Decoded) -> Work:
        """See :func:`accel.isa.explicit.family.work_of`."""
        return work_of(decoded)

    def energy(self, decoded: Decoded) -> float | None:
        """The sum of :func:`accel.isa.explicit.costs.costs_of`."""
        known = any(instruction.energy is not None for instruction in decoded.accelerator.instructions)
        return float(costs_of(decoded, "energy").sum()) if known else None

    def timing_model(self, accelerator: Accelerator, launches: Iterable[Decoded] = ()) -> TimingModel:
        """See :func:`accel.isa.explicit.family.timing_model`."""
        return timing_model(accelerator)

    def prepare(self, accelerator: Accelerator) -> None:
        """Compile the kernels."""
        from accel.isa.explicit import document_function

        document_function.build(accelerator)
        prepare_timing()
        prepare_hazards()


FAMILY = ExplicitFamily()
"""The entry point ``explicit`` of the group ``cyclops.isa``."""
