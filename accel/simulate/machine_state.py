"""The state that a running program changes: DRAM, the accelerator's memories, and the hazards found so far."""

import itertools
from collections.abc import Mapping

import numpy as np

from accel.errors import InvalidTensors, SimulationError
from accel.host.host_executor import HostFunctions
from accel.host.operator_work import OperatorWork
from accel.isa.decode import Decoded
from accel.isa.dram_windows import one_window_holds, place, window_map
from accel.isa.family import Boxes, FunctionalModel, HazardChecker
from accel.isa.family_registry import family_of
from accel.isa.hazard_findings import Hazards
from accel.program.program_model import DramWindow, HostStep, Launch, Program, Segment
from accel.simulate.segment_bounds import Extents, Stray, accesses_outside, extents
from accel.util.arrays import Array, Bytes, aligned_zeros

_ADDRESSES = 1 << 32  # bytes of DRAM for a bare stream, which says nothing of it; what is not touched costs nothing
_LOOKED_AT = 10_000  # rows out of the segments that a launch may write zeros to before we stop looking
_NOTED = 10  # strays of a launch
WORK_LIMIT = 1 << 33  # effort of a program, as its family counts it: some minutes


class MachineState:
    """The functional state of one run; where only timing is computed it is inert: it holds and runs nothing.

    Attributes:
        dram: the program's DRAM (bytes,); empty where it is inert.
        hazards: what each launch left open; empty for a bare stream, whose micro-ops nobody knows.
        host_works: what the operators of each host step so far have to do.
        strays: the first changes of DRAM in each launch that no segment holds.
    """

    def __init__(self, program: Program, *, function: bool) -> None:
        self._program = program
        self._function = function
        self._family: FunctionalModel = family_of(program.accelerator)
        self._inside = extents(program)
        self._windows = window_map(program.windows, program.dram_bytes)
        self._dram_bytes = program.dram_bytes if self._inside is not None else _ADDRESSES
        self.hazards: list[Hazards] = []
        self.strays: list[Stray] = []
        self.host_works: list[list[OperatorWork]] = []
        self._work = 0.0
        self.dram: Bytes = np.zeros(0, np.uint8)
        if function:
            self.dram = aligned_zeros(self._dram_bytes)
            self._machine = self._family.machine(program.accelerator)
            traced = program.dram_bytes if self._inside is not None else 0
            self._checker = self._hazard_checker(traced)
            self._host = HostFunctions()
            later = program.written_later
            for name, array in program.image.items():
                if name not in later:
                    self._write(name, array)

    def _hazard_checker(self, traced: int) -> HazardChecker | None:
        return self._family.hazard_checker(self._program.accelerator, self._program.initial_tokens, traced)

    def _write(self, name: str, array: Array) -> None:
        segment = self._program.segments[name]
        self._view(name)[...] = array
        if self._checker is not None:
            begin = self._place(segment.address)
            self._checker.wrote(begin, begin + segment.nbytes)

    def _place(self, address: int) -> int:
        return int(place(self._windows, np.array(address, np.int64)))

    def _view(self, name: str) -> Array:
        return segment_view(self.dram, self._program.segments[name], self._program.windows)

    def write_inputs(self, inputs: Mapping[str, Array]) -> None:
        """Writes the inputs into their segments of DRAM; an input that has contents in the image may be left out.

        Raises:
            InvalidTensors: one is missing, unknown, or of another shape or type.
        """
        for name in inputs:
            if name not in self._program.inputs:
                known = ", ".join(self._program.inputs) or "none"
                raise InvalidTensors(f"there is no input {name}; the inputs are {known}", field=f"inputs.{name}")
        for name in self._program.inputs:
            if name not in inputs:
                if name not in self._program.image:
                    given = ", ".join(inputs) or "none"
                    raise InvalidTensors(
                        f"the inputs are {', '.join(self._program.inputs)}; got {given}", field="inputs"
                    )
                continue
            segment, array = self._program.segments[name], np.asarray(inputs[name])
            if array.shape != segment.shape or array.dtype != np.dtype(segment.dtype):
                raise InvalidTensors(
                    f"{name} is {segment.dtype}{list(segment.shape)}; got {array.dtype}{list(array.shape)}",
                    field=f"inputs.{name}",
                )
            self._write(name, array)

    def check(self, decoded: Decoded) -> None:
        """Refuses instructions that would run for hours, or access bytes beyond the memories or the program's tensors.

        Raises:
            SimulationError: an instruction does; the error has the instruction and the reason.
        """
        self._family.check_launch(decoded, self._dram_bytes)
        total = self._work + np.cumsum(self._family.effort(decoded))
        if len(total) and total[-1] > WORK_LIMIT:
            at = int(np.argmax(total > WORK_LIMIT))
            raise decoded.error(
                at,
                "work-limit",
                f"it takes the program to {total[at]:.0f} micro-ops and copied elements; {WORK_LIMIT} may be",
            )
        self._work = float(total[-1]) if len(total) else self._work
        if self._inside is not None and self._program.granularity == 1:  # row by row, of which there are not too many
            self._check_copies(decoded, self._family.boxes(decoded), self._inside)

    def _check_copies(self, decoded: Decoded, boxes: Boxes, inside: Extents) -> None:
        for box, begin, end in accesses_outside(boxes, inside):
            verb = "writes" if boxes.write[box] else "reads"
            index = int(boxes.instruction[box])
            raise decoded.error(index, "dram-range", f"it {verb} DRAM bytes {begin} to {end}, which no segment holds")

    def _note_strays(self, decoded: Decoded) -> None:
        """Note stores that changed DRAM outside all segments; a store of zeros may be to a page that was left out."""
        if self._inside is None or self._program.granularity == 1:
            return
        boxes = self._family.boxes(decoded).writes()
        rows = itertools.islice(accesses_outside(boxes, self._inside), _LOOKED_AT)
        found = (
            Stray(decoded.first + int(boxes.instruction[box]), begin, end)
            for box, begin, end in rows
            if self.dram[self._place(begin) : self._place(end - 1) + 1].any()
        )
        self.strays += itertools.islice(found, _NOTED)

    def write_before(self, launch: Launch) -> None:
        """Writes into DRAM the segments that the host fills right before the launch."""
        if self._function:
            for name in launch.writes:
                self._write(name, self._program.image[name])

    def launch(self, decoded: Decoded) -> None:
        """Runs a launch, and collects its hazards.

        Raises:
            SimulationError: an index out of range, or a deadlock.
        """
        if not self._function:
            return
        if self._inside is not None:
            # without a checker the hardware orders all accesses
            self.hazards.append(self._checker.check(decoded, self.dram) if self._checker else Hazards((), ()))
        self._machine.run(decoded, self.dram)
        self._note_strays(decoded)

    def host(self, step: HostStep) -> None:
        """Runs a host step on the DRAM.

        Raises:
            SimulationError: it does not compile, or returns tensors of other shapes or types than its segments.
        """
        if not self._function:
            return
        self.host_works.append(self._host.prepare(step.module).works)
        results = self._host.run(step.module, [self._view(name) for name in step.inputs])
        if len(results) != len(step.outputs):
            raise SimulationError(
                f"host step {step.name} returned {len(results)} tensors for {len(step.outputs)}",
                field=f"steps.{step.name}",
                kind="host-step",
            )
        for name, result in zip(step.outputs, results, strict=True):
            segment = self._program.segments[name]
            if result.shape != segment.shape or result.dtype != np.dtype(segment.dtype):
                raise SimulationError(
                    f"host step {step.name} returned {result.dtype}{list(result.shape)} for {name}, which is "
                    f"{segment.dtype}{list(segment.shape)}",
                    field=f"steps.{step.name}",
                    kind="host-step",
                )
            self._write(name, result)

    def outputs(self) -> dict[str, Array]:
        """Returns a copy of each output, by the name of its segment."""
        return {name: self._view(name).copy() for name in self._program.outputs} if self._function else {}


def segment_view(dram: Bytes, segment: Segment, windows: tuple[DramWindow, ...] = ()) -> Array:
    """Returns the segment's tensor as a view of ``dram`` (bytes,), the DRAM of a program with these ``windows``.

    Raises:
        SimulationError: the segment does not lie within ``dram``.
    """
    table, end = window_map(windows, len(dram)), segment.address + segment.nbytes
    if segment.address < 0 or not one_window_holds(table, segment.address, end):
        raise SimulationError(
            f"segment {segment.name} ends at byte {segment.address + segment.nbytes}; the DRAM has {len(dram)}",
            field=f"segments.{segment.name}",
        )
    begin = int(place(table, np.array(segment.address, np.int64)))
    data = dram[begin : begin + segment.nbytes]
    return data.view(np.dtype(segment.dtype)).reshape(segment.shape)
