"""What came of running a program: its cycles, whether it is right, and what made its units wait."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pydantic
from pydantic import Field

from accel.accelerator.document import Accelerator
from accel.isa.decode import Decoded
from accel.isa.vta.calibration import TimingModel, timing_model
from accel.isa.vta.timing import traffic
from accel.layer_report import Layer, layer_of
from accel.program import HostStep, Launch, Program
from accel.simulate.engine import Simulation
from accel.simulate.races import Race, Unwritten
from accel.simulate.runner import segment_view
from accel.simulate.writer import last_writer

Engine = Literal["function", "timing", "both"]
_SHOWN = 10  # mismatches, races and warnings of a kind that a report lists


class Mismatch(pydantic.BaseModel):
    """An element of DRAM that is not what was expected."""

    tensor: str = Field(description="the segment it lies in")
    address: int = Field(description="its first byte in DRAM")
    got: int | float
    expected: int | float
    instruction: int | None = Field(description="the last instruction that stored it; null if none did")


class Instruction(pydantic.BaseModel):
    """An instruction of the program."""

    index: int = Field(description="its place in the program, from 0, as in the trace")
    launch: str
    op: str


class RaceRecord(pydantic.BaseModel):
    """Two instructions that touch the same elements in no fixed order, one of them writing."""

    first: Instruction
    second: Instruction
    memory: str = Field(description="an on-chip memory, or `dram`")
    begin: int = Field(description="first element, in DRAM first byte, that both touch")
    end: int = Field(description="the element or byte after the last")
    detail: str


class ProgramWarning(pydantic.BaseModel):
    """Something that is allowed and seldom meant."""

    kind: Literal["never-written", "never-finishes"]
    launch: str
    instruction: int = Field(description="its place in the program")
    detail: str


class UnitTime(pydantic.BaseModel):
    """What one unit did, in cycles; busy, stalled (but for `memory`) and idle add up to the program's cycles."""

    instructions: int
    busy: int = Field(description="cycles in which it ran an instruction")
    stalled: dict[str, int] = Field(
        description="cycles lost by cause: before an instruction to `fetch` or a token queue; within its busy cycles "
        "to `memory`, where the bus served others"
    )
    idle: int = Field(description="cycles after its last instruction of each launch")


class ProgramSize(pydantic.BaseModel):
    """The program: instructions, launches, host steps, and bytes of DRAM it maps."""

    instructions: int
    launches: int
    host_steps: int
    dram_bytes: int


class SimulationReport(pydantic.BaseModel):
    """The report of a program's run."""

    accelerator: str
    engine: Engine
    verified: bool | None = Field(
        description="what was expected is there and no race could change it; null where nothing was expected, or "
        "function did not run"
    )
    cycles: int | None = Field(description="cycles of all launches; null where timing did not run")
    seconds: float | None = Field(description="the same by the accelerator's clock; host steps cost nothing")
    mismatch_count: int = Field(description="elements that differ from what was expected")
    mismatches: list[Mismatch] = Field(description="the first of them")
    race_count: int | None = Field(
        description="pairs of unordered instructions, at most 1,000 a launch; null: not checked"
    )
    races: list[RaceRecord] = Field(description="the first of them")
    warnings: list[ProgramWarning]
    units: dict[str, UnitTime] | None = Field(description="null where timing did not run")
    bytes_read: int
    bytes_written: int
    tokens: dict[str, int] | None = Field(description="what is left in the queues; null where timing did not run")
    launches: list[Layer]
    program: ProgramSize
    timing_model: TimingModel


def make_simulation_report(program: Program, simulation: Simulation, engine: Engine) -> SimulationReport:
    """The report of ``program`` as it ran."""
    function, timed = engine != "timing", engine != "function"
    count, mismatches = _mismatches(program, simulation) if function else (0, [])
    races = simulation.hazards.races if simulation.hazards else ()
    verified = not count and not races if function and program.expected else None
    read, written = _traffic(result.decoded for result in simulation.launches)
    return SimulationReport(
        accelerator=program.accelerator.name,
        engine=engine,
        verified=verified,
        cycles=simulation.cycles if timed else None,
        seconds=simulation.cycles / (program.accelerator.timing.clock_mhz * 1e6) if timed else None,
        mismatch_count=count,
        mismatches=mismatches,
        race_count=None if simulation.hazards is None else len(races),
        races=[race_record(race, simulation) for race in races[:_SHOWN]],
        warnings=warnings_of(program, simulation),
        units=unit_times(simulation, program.accelerator) if timed else None,
        bytes_read=read,
        bytes_written=written,
        tokens=simulation.tokens if timed else None,
        launches=[layer_of(result, program.accelerator) for result in simulation.launches],
        program=program_size(program),
        timing_model=timing_model(program.accelerator),
    )


def _mismatches(program: Program, simulation: Simulation) -> tuple[int, list[Mismatch]]:
    count = 0
    shown: list[Mismatch] = []
    for name, expected in program.expected.items():
        segment = program.segments[name]
        got = segment_view(simulation.dram, segment)
        wrong = np.flatnonzero(_bits(got) != _bits(expected))
        count += len(wrong)
        for at in wrong[: _SHOWN - len(shown)].tolist():
            address = segment.address + at * got.itemsize
            shown.append(
                Mismatch(
                    tensor=name,
                    address=address,
                    got=got.flat[at].item(),
                    expected=expected.flat[at].item(),
                    instruction=last_writer(program, simulation, address),
                )
            )
    return count, shown


def _bits(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The elements as integers, flat, so that equal means equal bits."""
    return np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")


def race_record(race: Race, simulation: Simulation) -> RaceRecord:
    """The race with its instructions by name."""
    first, second = _instruction(race.first, simulation), _instruction(race.second, simulation)
    unit = "bytes" if race.memory == "dram" else "elements"
    return RaceRecord(
        first=first,
        second=second,
        memory=race.memory,
        begin=race.begin,
        end=race.end,
        detail=f"instructions {first.index} ({first.op}) and {second.index} ({second.op}) touch {unit} {race.begin} to "
        f"{race.end - 1} of {race.memory}, and no token says which comes first",
    )


def _instruction(index: int, simulation: Simulation) -> Instruction:
    for result in reversed(simulation.launches):
        within = index - result.launch.begin
        if 0 <= within < len(result.decoded):
            op = result.decoded.accelerator.instructions[result.decoded.kind[within]].name
            return Instruction(index=index, launch=result.launch.name, op=op)
    raise KeyError(index)


def warnings_of(program: Program, simulation: Simulation) -> list[ProgramWarning]:
    """Reads of what nobody wrote, the first of them, and launches that never say that they are done."""
    unwritten = simulation.hazards.unwritten if simulation.hazards else ()
    found = [_unwritten(read, simulation) for read in unwritten[:_SHOWN]]
    for result in simulation.launches:
        if len(result.decoded) and not len(result.decoded.rows(program.accelerator.finish)):
            last = result.launch.begin + len(result.decoded) - 1
            detail = "the launch has no FINISH: the accelerator never says that it is done"
            found.append(
                ProgramWarning(kind="never-finishes", launch=result.launch.name, instruction=last, detail=detail)
            )
    return found


def _unwritten(read: Unwritten, simulation: Simulation) -> ProgramWarning:
    instruction = _instruction(read.instruction, simulation)
    unit = "bytes" if read.memory == "dram" else "elements"
    return ProgramWarning(
        kind="never-written",
        launch=instruction.launch,
        instruction=read.instruction,
        detail=f"instruction {read.instruction} ({instruction.op}) reads {unit} {read.begin} to {read.end - 1} of "
        f"{read.memory}, some of which nothing has written: zero here, anything on hardware",
    )


def unit_times(simulation: Simulation, accelerator: Accelerator) -> dict[str, UnitTime]:
    """What each unit did over all launches that were timed."""
    times = {unit: UnitTime(instructions=0, busy=0, stalled={}, idle=0) for unit in accelerator.units}
    units = np.array([accelerator.units.index(i.unit) for i in accelerator.instructions])
    for result in simulation.launches:
        if result.timing is None:
            continue
        unit_of = units[result.decoded.kind]
        for number, total in enumerate(times.values()):
            rows = np.flatnonzero(unit_of == number)
            last = int(result.timing.end[rows[-1]]) if len(rows) else 0
            total.instructions += len(rows)
            total.busy += result.timing.busy[accelerator.units[number]]
            total.idle += result.timing.cycles - last
            _add(total.stalled, {cause: int(lost[rows].sum()) for cause, lost in result.timing.waits.items()})
    return times


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for cause, cycles in more.items():
        if cycles:
            total[cause] = total.get(cause, 0) + cycles


def _traffic(launches: Iterable[Decoded]) -> tuple[int, int]:
    read = written = 0
    for decoded in launches:
        more_read, more_written = traffic(decoded)
        read, written = read + int(more_read.sum()), written + int(more_written.sum())
    return read, written


def program_size(program: Program) -> ProgramSize:
    """How large the program is."""
    launches = [step for step in program.steps if isinstance(step, Launch)]
    return ProgramSize(
        instructions=len(program.words),
        launches=len(launches),
        host_steps=sum(isinstance(step, HostStep) for step in program.steps),
        dram_bytes=program.dram_bytes,
    )
