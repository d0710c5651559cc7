"""Results of vector programs as they ran: whether each element is one that float32 allows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from tvm import ir

from accel.errors import VerificationError
from accel.lowering.ir.function_attributes import LAUNCHES, load_launches, region_of
from accel.lowering.ir.host_runs import LaunchRun, split_main
from accel.program.program_model import Launch, Program
from accel.region.kinds import VectorRegion
from accel.region.vector_program import VectorProgram
from accel.report.documents.report_documents import FloatResult
from accel.simulate.machine_state import segment_view
from accel.util.arrays import Array, Bytes
from accel.verify.float_intervals import Interval, result_interval

_CLOSE = 1e-9  # of an end, relatively: what double precision may lose on the way


@dataclass(frozen=True)
class VectorResult:
    """A result of a launch as it ran, and what it must come from.

    ``operands`` are variables of the graph by their names, or constants. What is ``found`` has the shape that the
    program has it in, whose axes may be parts of the variable's.
    """

    launch: str
    tensor: str
    program: VectorProgram
    number: int
    operands: tuple[str | Array, ...]
    found: Array

    def interval(self, known: Callable[[str], Array]) -> Interval:
        """Returns what it may be, given the variables by name."""

        def operand(number: int) -> Array:
            given = self.operands[number]
            return known(given) if isinstance(given, str) else given

        return result_interval(self.program, self.number, operand)

    def check(self, interval: Interval, independent: Array | None) -> FloatResult:
        """Returns how the result lies within its bounds.

        Args:
            interval: the bounds.
            independent: the same tensor as ONNX defines it, in double precision; None where that is not known.

        Raises:
            VerificationError: an element is outside, or ``independent`` is.
        """
        self._refuse(~interval.holds(self.found), self.found, interval, "the accelerator computed")
        if independent is not None:
            wide = independent.astype(np.float64).reshape(self.found.shape)
            slack = _CLOSE * np.maximum(np.abs(interval.low), np.abs(interval.high))
            slack = np.where(np.isfinite(slack), slack, 0.0)
            self._refuse(~Interval(interval.low - slack, interval.high + slack).holds(wide), wide, interval, "ONNX has")
        whole = np.issubdtype(self.found.dtype, np.integer)
        return FloatResult(
            launch=self.launch,
            tensor=self.tensor,
            elements=self.found.size,
            undecided=int(np.count_nonzero(interval.high > interval.low)) if whole else 0,
            bound_used=None if whole else interval.used(self.found),
            independent=independent is not None,
        )

    def _refuse(self, wrong: Array, values: Array, interval: Interval, who: str) -> None:
        if not wrong.any():
            return
        at = tuple(int(place) for place in np.argwhere(wrong)[0])
        raise VerificationError(
            f"launch {self.launch}: {np.count_nonzero(wrong)} of {wrong.size} elements of {self.tensor} are outside "
            f"their bounds; the first is {list(at)}: {who} {values[at]}, expected {interval.low[at]} to "
            f"{interval.high[at]}",
            field=self.tensor,
        )


def vector_results(packed: ir.IRModule, layered: Program, dram: Bytes) -> Mapping[str, VectorResult]:
    """Returns the results of vector programs as they ran, by the variables of the graph that they are.

    Args:
        packed: the module over packed tensors.
        layered: its program with the launches in the order of the module's calls, whole, with all that each reads:
            another one of the same segments may have run, in which they are cut, and run stripe by stripe.
        dram: what is in DRAM when it has run; all results are stored there.
    """
    infos = load_launches(str(packed["main"].attrs[LAUNCHES]))
    found: dict[str, VectorResult] = {}
    runs = [run for run in split_main(packed) if isinstance(run, LaunchRun)]
    launches = [step for step in layered.steps if isinstance(step, Launch)]
    for run, launch in zip(runs, launches, strict=True):
        region, values = region_of(packed[run.call.args[0]]), infos[str(run.var.name)].values
        if not isinstance(region, VectorRegion) or values is None:
            continue
        operands = tuple(
            name or layered.image[segment] for name, segment in zip(values.operands, launch.inputs, strict=False)
        )
        for number, (name, segment) in enumerate(zip(values.results, launch.outputs, strict=True)):
            array = segment_view(dram, layered.segments[segment]).copy()
            view = next(iter(region.views[len(operands) + number :]), None)
            array = array if view is None else view.of(array)
            found[name] = VectorResult(launch.name, name, region.shape, number, operands, array)
    return found
