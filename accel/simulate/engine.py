"""Running a Program: launches on the simulated accelerator, host steps through Relax, over one DRAM.

Function and timing are separate engines; either can run alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from accel.errors import InvalidTensors, SimulationError
from accel.isa.arrays import aligned_zeros
from accel.isa.decode import Decoded, decode
from accel.isa.vta.function import Machine
from accel.isa.vta.timing import Timing, time_launch
from accel.program import HostStep, Launch, Program, Segment
from accel.simulate.host import HostFunctions

Array = npt.NDArray[Any]
Dram = npt.NDArray[np.uint8]
T = TypeVar("T")


@dataclass(frozen=True)
class LaunchResult:
    """One launch as it ran. ``timing`` is None where only function was asked for.

    ``first_cycle`` is where it begins on the program's clock, which stands still during host steps.
    """

    launch: Launch
    decoded: Decoded
    first_cycle: int
    timing: Timing | None


@dataclass(frozen=True)
class Simulation:
    """A program as it ran: its outputs, and DRAM as it was left.

    ``outputs`` and ``dram`` are empty where only timing was asked for, ``cycles`` is 0 where only function was.
    """

    outputs: dict[str, Array]
    launches: tuple[LaunchResult, ...]
    cycles: int
    tokens: dict[str, int]
    dram: Dram


def simulate(
    program: Program,
    inputs: Mapping[str, Array],
    *,
    function: bool = True,
    timing: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Simulation:
    """Run the program's steps in order.

    Args:
        program: what to run.
        inputs: an array for each of ``program.inputs``, of its segment's shape and type.
        function: compute the outputs.
        timing: count cycles.
        progress: called with (step, total) before each step.

    Raises:
        InvalidTensors: an input is missing, unknown, or of another shape or type.
        SimulationError: an undefined or out-of-range instruction, a deadlock, a host step that does not fit.
    """
    runner = _Runner(program, function=function)
    if function:
        runner.write_inputs(inputs)
    launches: list[LaunchResult] = []
    tokens = dict(program.initial_tokens)
    cycles = 0
    for number, step in enumerate(program.steps):
        if progress is not None:
            progress(number, len(program.steps))
        if isinstance(step, HostStep):
            runner.host(step)
            continue
        decoded = _decode(program, step)
        measured = _in_launch(step, lambda: time_launch(decoded, tokens)) if timing else None  # noqa: B023
        launches.append(LaunchResult(step, decoded, cycles, measured))
        if measured is not None:
            tokens, cycles = measured.tokens, cycles + measured.cycles
        runner.launch(step, decoded)
    return Simulation(runner.outputs(), tuple(launches), cycles, tokens, runner.dram)


def _in_launch(launch: Launch, act: Callable[[], T]) -> T:
    """Errors count instructions from the launch's first; give them the launch's name."""
    try:
        return act()
    except SimulationError as error:
        raise SimulationError(f"launch {launch.name}: {error.detail}", field=error.field) from error


def _decode(program: Program, launch: Launch) -> Decoded:
    if not 0 <= launch.begin <= launch.begin + launch.count <= len(program.words):
        raise SimulationError(
            f"launch {launch.name} covers instructions {launch.begin} to {launch.begin + launch.count}; "
            f"the program has {len(program.words)}"
        )
    words = program.words[launch.begin : launch.begin + launch.count]
    return _in_launch(launch, lambda: decode(program.accelerator, words))


class _Runner:
    """The functional state: DRAM, the accelerator's memories, compiled host steps; inert without function."""

    def __init__(self, program: Program, *, function: bool) -> None:
        self._program = program
        self._function = function
        self.dram: Dram = np.zeros(0, np.uint8)
        if function:
            self.dram = aligned_zeros(program.dram_bytes)
            self._machine = Machine(program.accelerator)
            self._host = HostFunctions()
            for name, array in program.image.items():
                self._view(name)[...] = array

    def _view(self, name: str) -> Array:
        return segment_view(self.dram, self._program.segments[name])

    def write_inputs(self, inputs: Mapping[str, Array]) -> None:
        expected = self._program.inputs
        if set(inputs) != set(expected):
            raise InvalidTensors(
                f"the inputs are {', '.join(expected)}; got {', '.join(inputs) or 'none'}", field="inputs"
            )
        for name in expected:
            segment, array = self._program.segments[name], np.asarray(inputs[name])
            if array.shape != segment.shape or array.dtype != np.dtype(segment.dtype):
                raise InvalidTensors(
                    f"{name} is {segment.dtype}{list(segment.shape)}; got {array.dtype}{list(array.shape)}",
                    field=f"inputs.{name}",
                )
            self._view(name)[...] = array

    def launch(self, launch: Launch, decoded: Decoded) -> None:
        if self._function:
            _in_launch(launch, lambda: self._machine.run(decoded, self.dram))

    def host(self, step: HostStep) -> None:
        if not self._function:
            return
        results = self._host.run(step.module, [self._view(name) for name in step.inputs])
        if len(results) != len(step.outputs):
            raise SimulationError(f"host step {step.name} returned {len(results)} tensors for {len(step.outputs)}")
        for name, result in zip(step.outputs, results, strict=True):
            segment = self._program.segments[name]
            if result.shape != segment.shape or result.dtype != np.dtype(segment.dtype):
                raise SimulationError(
                    f"host step {step.name} returned {result.dtype}{list(result.shape)} for {name}, which is "
                    f"{segment.dtype}{list(segment.shape)}"
                )
            self._view(name)[...] = result

    def outputs(self) -> dict[str, Array]:
        return {name: self._view(name).copy() for name in self._program.outputs} if self._function else {}


def segment_view(dram: Dram, segment: Segment) -> Array:
    """The segment's tensor, as a view of ``dram``.

    Raises:
        SimulationError: it does not lie within ``dram``.
    """
    if not 0 <= segment.address <= segment.address + segment.nbytes <= len(dram):
        raise SimulationError(
            f"segment {segment.name} ends at byte {segment.address + segment.nbytes}; the DRAM has {len(dram)}",
            field=f"segments.{segment.name}",
        )
    data = dram[segment.address : segment.address + segment.nbytes]
    return data.view(np.dtype(segment.dtype)).reshape(segment.shape)
