"""Gemmini as a family of instruction sets."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from accel.accelerator.contraction import Contraction
from accel.accelerator.document import Accelerator
from accel.accelerator.timing_model import TimingModel
from accel.errors import SimulationError
from accel.isa.cost_expressions import energy_of
from accel.isa.decode import Decoded
from accel.isa.family import Boxes, HazardChecker, Timing, Work
from accel.isa.gemmini.document.gemmini_document import check_gemmini, parameters_of
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.function.stream_machine import StreamMachine
from accel.isa.gemmini.gemmini_tiling_cost import tiling_cost
from accel.isa.gemmini.stream.launch_context import LaunchContext, context_of
from accel.isa.gemmini.stream.loop_expansion import expand_loops
from accel.isa.gemmini.stream.stream_check import GemminiHazardChecker, check_expanded
from accel.isa.gemmini.timing import stream_timing
from accel.isa.gemmini.timing.gemmini_calibration import timing_model
from accel.isa.gemmini.timing.stream_traffic import dram_accesses, work_of
from accel.program.program_model import Window
from accel.region.epilogue import Epilogue
from accel.region.shapes import Convolution
from accel.region.tilings import Candidates
from accel.util.arrays import Bytes, Words


class GemminiFamily:
    """Everything of Gemmini that the engine, the planner and the reports ask for: :class:`accel.isa.family.Family`."""

    name = "gemmini"
    parameters = GemminiParameters
    takes_windows = True

    def check(self, accelerator: Accelerator) -> None:
        """See :func:`accel.isa.gemmini.document.gemmini_document.check_gemmini`."""
        check_gemmini(accelerator)

    def tiling_cost(
        self,
        candidates: Candidates,
        shape: Convolution,
        epilogue: Epilogue,
        gemm: Contraction,
        accelerator: Accelerator,
    ) -> npt.NDArray[np.float64]:
        """See :func:`accel.isa.gemmini.gemmini_tiling_cost.tiling_cost`."""
        return tiling_cost(candidates, shape, epilogue, gemm, accelerator)

    def first_context(self, accelerator: Accelerator, windows: tuple[Window, ...]) -> LaunchContext:
        """See :class:`accel.isa.gemmini.stream.launch_context.LaunchContext`."""
        return LaunchContext.fresh(parameters_of(accelerator), windows)

    def next_context(self, decoded: Decoded) -> LaunchContext:
        """The loops' registers, the configuration and the scales that the launch leaves."""
        with _counted_from(decoded):
            words, parameters, context = _launch(decoded)
            return context.after(words, parameters)

    def check_launch(self, decoded: Decoded, dram_bytes: int) -> None:
        """See :func:`accel.isa.gemmini.stream.stream_check.check_expanded`."""
        with _counted_from(decoded):
            words, parameters, context = _launch(decoded)
            expanded = expand_loops(words, parameters, context.loops.copy())
            check_expanded(expanded, parameters, context.map(dram_bytes), context.state, context.bits)

    def effort(self, decoded: Decoded) -> npt.NDArray[np.float64]:
        """Elements that each instruction (n,) touches at most: a tile for each primitive instruction."""
        with _counted_from(decoded):
            words, parameters, context = _launch(decoded)
            expanded = expand_loops(words, parameters, context.loops.copy())
        return np.bincount(expanded.origin, minlength=len(decoded)).astype(np.float64) * parameters.dim**2

    def boxes(self, decoded: Decoded) -> Boxes:
        """See :func:`accel.isa.gemmini.timing.stream_traffic.dram_accesses`."""
        with _counted_from(decoded):
            found = dram_accesses(*_launch(decoded))
        return Boxes(found.instruction, found.first, found.rows, found.stride, found.row_bytes, found.is_write)

    def machine(self, accelerator: Accelerator) -> "GemminiMachine":
        """See :class:`accel.isa.gemmini.function.stream_machine.StreamMachine`."""
        return GemminiMachine(parameters_of(accelerator))

    def hazard_checker(self, accelerator: Accelerator, tokens: dict[str, int], dram_bytes: int) -> HazardChecker:
        """See :class:`accel.isa.gemmini.stream.stream_check.GemminiHazardChecker`."""
        return GemminiHazardChecker(accelerator, dram_bytes)

    def token_queues(self, accelerator: Accelerator) -> list[str]:
        """There are none."""
        return []

    def time(self, decoded: Decoded, tokens: dict[str, int]) -> Timing:
        """See :func:`accel.isa.gemmini.timing.stream_timing.time_stream`."""
        with _counted_from(decoded):
            timed = stream_timing.time_stream(*_launch(decoded))
        return Timing(timed.start, timed.end, timed.waits, timed.cycles, timed.busy, {})

    def work(self, decoded: Decoded) -> Work:
        """See :func:`accel.isa.gemmini.timing.stream_traffic.work_of`."""
        with _counted_from(decoded):
            return work_of(*_launch(decoded))

    def energy(self, decoded: Decoded) -> float | None:
        """See :func:`accel.isa.cost_expressions.energy_of`."""
        return energy_of(decoded)

    def timing_model(self, accelerator: Accelerator, launches: Iterable[Decoded] = ()) -> TimingModel:
        """See :func:`accel.isa.gemmini.timing.gemmini_calibration.timing_model`."""
        return timing_model(parameters_of(accelerator), launches)

    def prepare(self, accelerator: Accelerator) -> None:
        """Compile the kernels, by running them on a stream of nothing: they start no threads."""
        parameters, words = parameters_of(accelerator), np.zeros((0, 3), np.uint64)
        StreamMachine(parameters).run(words, np.zeros(64, np.uint8))
        stream_timing.time_stream(words, parameters)
        dram_accesses(words, parameters)
        LaunchContext.fresh(parameters).after(words, parameters)


class GemminiMachine:
    """The machine behind the family's interface: it takes decoded launches."""

    def __init__(self, parameters: GemminiParameters) -> None:
        self._machine = StreamMachine(parameters)

    def run(self, decoded: Decoded, dram: Bytes) -> None:
        """Run a launch on ``dram`` (bytes,).

        Raises:
            SimulationError: an instruction that is out of range; nothing has run then.
        """
        with _counted_from(decoded):
            words, _, context = _launch(decoded)
            self._machine.run(words, dram, context.windows if len(context.windows) else None)


def _launch(decoded: Decoded) -> tuple[Words, GemminiParameters, LaunchContext]:
    """The words (n, 3) of a launch, the accelerator's parameters, and the registers that the launch finds."""
    parameters = parameters_of(decoded.accelerator)
    return decoded.words, parameters, context_of(decoded, parameters)


@contextmanager
def _counted_from(decoded: Decoded) -> Iterator[None]:
    """Errors count their instruction from the program's first, and say what it is."""
    try:
        yield
    except SimulationError as error:
        if error.instruction is None or error.kind is None or error.instruction >= len(decoded):
            raise
        message = error.detail.partition(": ")[2] or error.detail
        raise decoded.error(error.instruction, error.kind, message) from error


FAMILY = GemminiFamily()
