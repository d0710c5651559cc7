"""The family ``explicit``: everything about the instruction set is in the document."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from accel.accelerator.base import Model
from accel.accelerator.document import Accelerator
from accel.accelerator.roles import Contraction
from accel.accelerator.timing_model import TimingModel
from accel.isa.decode import Decoded
from accel.isa.explicit.bounds import check_bounds
from accel.isa.explicit.boxes import boxes_of, effort_of
from accel.isa.explicit.check import check_explicit
from accel.isa.explicit.cost import tiling_cost
from accel.isa.explicit.costs import costs_of
from accel.isa.explicit.hazards import ExplicitHazardChecker, prepare_hazards
from accel.isa.explicit.parameters import ExplicitParameters
from accel.isa.explicit.timing import prepare_timing, time_launch
from accel.isa.explicit.tokens import queue_names
from accel.isa.explicit.work import timing_model, work_of
from accel.isa.family import Boxes, HazardChecker, Machine, Timing, Work
from accel.lowering.candidates import Candidates
from accel.lowering.geometry import Convolution, Epilogue
from accel.program import Window


class ExplicitFamily:
    """Everything that the engine, the planner and the reports ask for; see :class:`accel.isa.family.Family`.

    What needs the compiler is imported where it is asked for: a document is checked without it.
    """

    name = "explicit"
    parameters: type[Model] = ExplicitParameters
    takes_windows = False

    def check(self, accelerator: Accelerator) -> None:
        """See :func:`accel.isa.explicit.check.check_explicit`."""
        check_explicit(accelerator)

    def tiling_cost(
        self,
        candidates: Candidates,
        shape: Convolution,
        epilogue: Epilogue,
        gemm: Contraction,
        accelerator: Accelerator,
    ) -> npt.NDArray[np.float64]:
        """See :func:`accel.isa.explicit.cost.tiling_cost`."""
        return tiling_cost(candidates, shape, epilogue, gemm, accelerator)

    def first_context(self, accelerator: Accelerator, windows: tuple[Window, ...]) -> None:
        """No register that an instruction reads outlasts a launch."""

    def next_context(self, decoded: Decoded) -> None:
        """As :meth:`first_context`."""

    def check_launch(self, decoded: Decoded, dram_bytes: int) -> None:
        """See :func:`accel.isa.explicit.bounds.check_bounds`."""
        check_bounds(decoded, dram_bytes)

    def effort(self, decoded: Decoded) -> npt.NDArray[np.float64]:
        """See :func:`accel.isa.explicit.boxes.effort_of`."""
        return effort_of(decoded)

    def boxes(self, decoded: Decoded) -> Boxes:
        """See :func:`accel.isa.explicit.boxes.boxes_of`."""
        return boxes_of(decoded)

    def machine(self, accelerator: Accelerator) -> Machine:
        """See :class:`accel.isa.explicit.function.ExplicitMachine`."""
        from accel.isa.explicit import function

        return function.ExplicitMachine(accelerator)

    def hazard_checker(self, accelerator: Accelerator, tokens: dict[str, int], dram_bytes: int) -> HazardChecker:
        """See :class:`accel.isa.explicit.hazards.ExplicitHazardChecker`."""
        return ExplicitHazardChecker(accelerator, tokens, dram_bytes)

    def token_queues(self, accelerator: Accelerator) -> list[str]:
        """See :func:`accel.isa.explicit.tokens.queue_names`."""
        return queue_names(accelerator)

    def time(self, decoded: Decoded, tokens: dict[str, int]) -> Timing:
        """See :func:`accel.isa.explicit.timing.time_launch`."""
        return time_launch(decoded, tokens)

    def work(self, decoded: Decoded) -> Work:
        """See :func:`accel.isa.explicit.work.work_of`."""
        return work_of(decoded)

    def energy(self, decoded: Decoded) -> float | None:
        """The sum of :func:`accel.isa.explicit.costs.costs_of`."""
        known = any(instruction.energy is not None for instruction in decoded.accelerator.instructions)
        return float(costs_of(decoded, "energy").sum()) if known else None

    def timing_model(self, accelerator: Accelerator, launches: Iterable[Decoded] = ()) -> TimingModel:
        """See :func:`accel.isa.explicit.work.timing_model`."""
        return timing_model(accelerator)

    def prepare(self, accelerator: Accelerator) -> None:
        """Compile the kernels."""
        from accel.isa.explicit import function_kernel

        function_kernel.build(accelerator)
        prepare_timing()
        prepare_hazards()


FAMILY = ExplicitFamily()
"""The entry point ``explicit`` of the group ``cyclops.isa``."""
