"""VTA as a family of instruction sets."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.accelerator.roles import Contraction
from accel.accelerator.timing_model import TimingModel
from accel.isa.costs import energy_of
from accel.isa.decode import Decoded
from accel.isa.family import Boxes, HazardChecker, Machine, Timing, Work
from accel.isa.vta import races
from accel.isa.vta.bounds import check_bounds
from accel.isa.vta.boxes import boxes_of, effort_of
from accel.isa.vta.calibration import timing_model
from accel.isa.vta.check import check_vta
from accel.isa.vta.cost import tiling_cost
from accel.isa.vta.geometry import Geometry
from accel.isa.vta.parameters import VtaParameters
from accel.isa.vta.timing import time_launch, token_names
from accel.isa.vta.timing_table import prepare_timing
from accel.isa.vta.work import work_of
from accel.lowering.candidates import Candidates
from accel.lowering.geometry import Convolution, Epilogue
from accel.program import Window


class VtaFamily:
    """Everything of VTA that the engine, the planner and the reports ask for; see :class:`accel.isa.family.Family`.

    What needs the compiler is imported where it is asked for: a document is checked without it.
    """

    name = "vta"
    parameters = VtaParameters
    takes_windows = False

    def check(self, accelerator: Accelerator) -> None:
        """See :func:`accel.isa.vta.check.check_vta`."""
        check_vta(accelerator)

    def tiling_cost(
        self,
        candidates: Candidates,
        shape: Convolution,
        epilogue: Epilogue,
        gemm: Contraction,
        accelerator: Accelerator,
    ) -> npt.NDArray[np.float64]:
        """See :func:`accel.isa.vta.cost.tiling_cost`."""
        return tiling_cost(candidates, shape, epilogue, gemm, accelerator)

    def first_context(self, accelerator: Accelerator, windows: tuple[Window, ...]) -> None:
        """No register that an instruction reads outlasts a launch."""

    def next_context(self, decoded: Decoded) -> None:
        """As :meth:`first_context`."""

    def check_launch(self, decoded: Decoded, dram_bytes: int) -> None:
        """See :func:`accel.isa.vta.bounds.check_bounds`."""
        check_bounds(decoded, dram_bytes)

    def effort(self, decoded: Decoded) -> npt.NDArray[np.float64]:
        """See :func:`accel.isa.vta.boxes.effort_of`."""
        return effort_of(decoded)

    def boxes(self, decoded: Decoded) -> Boxes:
        """See :func:`accel.isa.vta.boxes.boxes_of`."""
        return boxes_of(decoded)

    def machine(self, accelerator: Accelerator) -> Machine:
        """See :class:`accel.isa.vta.function.Machine`."""
        from accel.isa.vta import function

        return function.Machine(accelerator)

    def hazard_checker(self, accelerator: Accelerator, tokens: dict[str, int], dram_bytes: int) -> HazardChecker:
        """See :class:`accel.isa.vta.races.HazardChecker`."""
        return races.HazardChecker(accelerator, tokens, dram_bytes)

    def token_queues(self, accelerator: Accelerator) -> list[str]:
        """See :func:`accel.isa.vta.timing.token_names`."""
        return token_names(accelerator)

    def time(self, decoded: Decoded, tokens: dict[str, int]) -> Timing:
        """See :func:`accel.isa.vta.timing.time_launch`."""
        return time_launch(decoded, tokens)

    def work(self, decoded: Decoded) -> Work:
        """See :func:`accel.isa.vta.work.work_of`."""
        return work_of(decoded)

    def energy(self, decoded: Decoded) -> float | None:
        """See :func:`accel.isa.costs.energy_of`."""
        return energy_of(decoded)

    def timing_model(self, accelerator: Accelerator, launches: Iterable[Decoded] = ()) -> TimingModel:
        """See :func:`accel.isa.vta.calibration.timing_model`."""
        return timing_model(accelerator, launches)

    def prepare(self, accelerator: Accelerator) -> None:
        """Compile the kernels."""
        from accel.isa.vta import function_kernel

        function_kernel.build(Geometry.of(accelerator))
        prepare_timing()
        races.prepare_races()


FAMILY = VtaFamily()
