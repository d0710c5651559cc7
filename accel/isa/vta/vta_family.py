"""VTA as a family of instruction sets."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from accel.accelerator.contraction import Contraction
from accel.accelerator.document import Accelerator
from accel.accelerator.timing_model import TimingModel
from accel.isa.cost_expressions import energy_of
from accel.isa.decode import Decoded
from accel.isa.family import Boxes, HazardChecker, Machine, Timing, Work
from accel.isa.vta import vta_hazards
from accel.isa.vta.document.vta_document_check import check_vta
from accel.isa.vta.document.vta_parameters import VtaParameters
from accel.isa.vta.function.functional_table import Geometry
from accel.isa.vta.function.launch_bounds import check_bounds
from accel.isa.vta.timing.timing_table import prepare_timing
from accel.isa.vta.timing.vta_calibration import timing_model
from accel.isa.vta.timing.vta_timing import time_launch, token_names
from accel.isa.vta.timing.vta_work import boxes_of, effort_of, work_of
from accel.isa.vta.vta_tiling_cost import tiling_cost
from accel.program.program_model import Window
from accel.region.epilogue import Epilogue
from accel.region.shapes import Convolution
from accel.region.tilings import Candidates


class VtaFamily:
    """Everything of VTA that the engine, the planner and the reports ask for; see :class:`accel.isa.family.Family`.

    What needs the compiler is imported where it is asked for: a document is checked without it.
    """

    name = "vta"
    parameters = VtaParameters
    takes_windows = False

    def check(self, accelerator: Accelerator) -> None:
        """See :func:`accel.isa.vta.document.vta_document_check.check_vta`."""
        check_vta(accelerator)

    def tiling_cost(
        self,
        candidates: Candidates,
        shape: Convolution,
        epilogue: Epilogue,
        gemm: Contraction,
        accelerator: Accelerator,
    ) -> npt.NDArray[np.float64]:
        """See :func:`accel.isa.vta.vta_tiling_cost.tiling_cost`."""
        return tiling_cost(candidates, shape, epilogue, gemm, accelerator)

    def first_context(self, accelerator: Accelerator, windows: tuple[Window, ...]) -> None:
        """No register that an instruction reads outlasts a launch."""

    def next_context(self, decoded: Decoded) -> None:
        """As :meth:`first_context`."""

    def check_launch(self, decoded: Decoded, dram_bytes: int) -> None:
        """See :func:`accel.isa.vta.function.launch_bounds.check_bounds`."""
        check_bounds(decoded, dram_bytes)

    def effort(self, decoded: Decoded) -> npt.NDArray[np.float64]:
        """See :func:`accel.isa.vta.timing.vta_work.effort_of`."""
        return effort_of(decoded)

    def boxes(self, decoded: Decoded) -> Boxes:
        """See :func:`accel.isa.vta.timing.vta_work.boxes_of`."""
        return boxes_of(decoded)

    def machine(self, accelerator: Accelerator) -> Machine:
        """See :class:`accel.isa.vta.function.vta_machine.VtaMachine`."""
        from accel.isa.vta.function import vta_machine

        return vta_machine.VtaMachine(accelerator)

    def hazard_checker(self, accelerator: Accelerator, tokens: dict[str, int], dram_bytes: int) -> HazardChecker:
        """See :class:`accel.isa.vta.vta_hazards.VtaHazardChecker`."""
        return vta_hazards.VtaHazardChecker(accelerator, tokens, dram_bytes)

    def token_queues(self, accelerator: Accelerator) -> list[str]:
        """See :func:`accel.isa.vta.timing.vta_timing.token_names`."""
        return token_names(accelerator)

    def time(self, decoded: Decoded, tokens: dict[str, int]) -> Timing:
        """See :func:`accel.isa.vta.timing.vta_timing.time_launch`."""
        return time_launch(decoded, tokens)

    def work(self, decoded: Decoded) -> Work:
        """See :func:`accel.isa.vta.timing.vta_work.work_of`."""
        return work_of(decoded)

    def energy(self, decoded: Decoded) -> float | None:
        """See :func:`accel.isa.cost_expressions.energy_of`."""
        return energy_of(decoded)

    def timing_model(self, accelerator: Accelerator, launches: Iterable[Decoded] = ()) -> TimingModel:
        """See :func:`accel.isa.vta.timing.vta_calibration.timing_model`."""
        return timing_model(accelerator, launches)

    def prepare(self, accelerator: Accelerator) -> None:
        """Compile the kernels."""
        from accel.isa.vta.function import launch_kernel

        launch_kernel.build(Geometry.of(accelerator))
        prepare_timing()
        vta_hazards.prepare_races()


FAMILY = VtaFamily()
