"""The report of a program's run: its cycles, whether its results are right, and what made its units wait."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.accelerator.timing_model import TimingModel
from accel.isa.family import TimedAlone
from accel.isa.family_registry import family_of
from accel.isa.hazard_findings import Erratum, ErratumKind, Hazards, Race, Stale, Unwritten
from accel.isa.recorded.calibration import timing_model
from accel.program.program_model import HostStep, Launch, Program
from accel.report.documents.report_documents import (
    Engine,
    Instruction,
    LaunchCycles,
    Mismatch,
    ProgramSize,
    ProgramWarning,
    Provenance,
    RaceRecord,
    SimulationReport,
    SimulationSummary,
    StaleRecord,
    UnitTime,
)
from accel.report.end_to_end import program_end_to_end, with_overheads
from accel.report.layer_report import (
    layers_of,
    machine_of,
    network_bound,
    program_traffic,
    total_account,
    total_energy,
)
from accel.report.program_limits import limits_of
from accel.report.run_traffic import energy_of_run
from accel.simulate.engine import Simulation, decoded_together, last_writer
from accel.simulate.machine_state import segment_view
from accel.simulate.segment_bounds import Stray

_SHOWN = 10  # mismatches, races and warnings of a kind that a report lists


def make_simulation_report(
    program: Program, simulation: Simulation, engine: Engine, provenance: Provenance, *, every_change: bool = False
) -> SimulationReport:
    """Returns the report of ``program`` as it ran; ``every_change`` is tried, or of a large program some."""
    timed = engine != "function"
    verdict = _verdict(program, simulation, engine)
    hazards = simulation.hazards or Hazards((), ())
    launches = layers_of(simulation, program.accelerator)
    end_to_end = program_end_to_end(program, launches, simulation.host_works) if timed else None
    instructions, dram = total_energy(launches), program_traffic(program, simulation, launches)
    return SimulationReport(
        accelerator=program.accelerator.name,
        provenance=provenance,
        engine=engine,
        verified=verdict.verified,
        cycles=simulation.cycles if timed else None,
        accelerator_cycles=alone_cycles(program, simulation) if timed else None,
        seconds=seconds_of(simulation, program.accelerator) if timed else None,
        end_to_end=end_to_end,
        mismatch_count=verdict.mismatch_count,
        mismatches=verdict.mismatches,
        race_count=None if simulation.hazards is None else len(hazards.races),
        races=[race_record(race, simulation) for race in hazards.races[:_SHOWN]],
        stale_read_count=None if simulation.hazards is None else len(hazards.stale),
        stale_reads=[stale_record(read, simulation) for read in hazards.stale[:_SHOWN]],
        warnings=verdict.warnings,
        units=unit_times(simulation, program.accelerator) if timed else None,
        account=total_account(simulation),
        bound=network_bound(launches) if timed else None,
        limits=limits_of(program, simulation, every=every_change) if timed else None,
        machine=machine_of(launches, simulation, program.accelerator),
        bytes_read=dram.bytes_read,
        bytes_written=dram.bytes_written,
        energy_pj=instructions,
        energy=energy_of_run(program.accelerator, instructions, dram, end_to_end),
        dram=dram,
        tokens=simulation.tokens if timed else None,
        launches=with_overheads(launches, end_to_end),
        program=program_size(program),
        timing_model=timing_model_of(program, simulation),
    )


def make_simulation_summary(program: Program, simulation: Simulation, engine: Engine) -> SimulationSummary:
    """Returns whether ``program`` did what it expects, and what it took."""
    timed = engine != "function"
    verdict = _verdict(program, simulation, engine)
    hazards = simulation.hazards
    return SimulationSummary(
        accelerator=program.accelerator.name,
        engine=engine,
        verified=verdict.verified,
        cycles=simulation.cycles if timed else None,
        mismatch_count=verdict.mismatch_count,
        race_count=None if hazards is None else len(hazards.races),
        stale_read_count=None if hazards is None else len(hazards.stale),
        instructions=len(program.words),
        launches=[
            LaunchCycles(name=result.launch.name, cycles=result.timing.cycles if result.timing else None)
            for result in simulation.launches
        ],
        warnings=verdict.warnings,
    )


@dataclass(frozen=True)
class _Verdict:
    """Whether a program did what it expects: null where it expects nothing, or nothing was computed."""

    verified: bool | None
    mismatch_count: int
    mismatches: list[Mismatch]
    warnings: list[ProgramWarning]


def _verdict(program: Program, simulation: Simulation, engine: Engine) -> _Verdict:
    function = engine != "timing"
    count, mismatches = _mismatches(program, simulation) if function else (0, [])
    hazards = simulation.hazards or Hazards((), ())
    warnings = warnings_of(program, simulation)
    ends = all(warning.kind != "never-finishes" for warning in warnings)  # or the host never knows when to look
    sure = not hazards.races and not hazards.stale and ends
    verified = not count and sure if function and program.expected else None
    return _Verdict(verified, count, mismatches, warnings)


def _mismatches(program: Program, simulation: Simulation) -> tuple[int, list[Mismatch]]:
    count = 0
    shown: list[Mismatch] = []
    for name, expected in program.expected.items():
        segment = program.segments[name]
        got = segment_view(simulation.dram, segment, program.windows)
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
    """Returns the race with its instructions by name."""
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


def stale_record(read: Stale, simulation: Simulation) -> StaleRecord:
    """Returns the stale read with its instructions by name."""
    reader, since = _instruction(read.instruction, simulation), _instruction(read.since, simulation)
    elements = f"elements {read.begin} to {read.end - 1} of {read.memory}"
    if read.kind == "stale-out":
        detail = (
            f"instruction {reader.index} ({reader.op}) stores {elements}, which instruction {since.index} ({since.op}) "
            f"{'cleared' if since.op == 'gemm' else 'loaded'}: a store reads a memory that only products and the ALU "
            "write, so what was there before is stored"
        )
    else:
        detail = (
            f"passes of instruction {reader.index} ({reader.op}) read {elements} before a pass just ahead of them has "
            "written it: the ALU has no bypass"
        )
    return StaleRecord(
        kind=read.kind,
        instruction=reader,
        since=since,
        memory=read.memory,
        begin=read.begin,
        end=read.end,
        detail=detail,
    )


def _instruction(index: int, simulation: Simulation) -> Instruction:
    for result in reversed(simulation.launches):
        within = index - result.launch.begin
        if 0 <= within < len(result.kind):
            op = result.accelerator.instructions[result.kind[within]].name
            return Instruction(index=index, launch=result.launch.name, op=op)
    raise KeyError(index)


def warnings_of(program: Program, simulation: Simulation) -> list[ProgramWarning]:
    """Returns warnings of reads before any write, writes outside all tensors, and launches without FINISH."""
    unwritten = simulation.hazards.unwritten if simulation.hazards else ()
    found = [_unwritten(read, simulation) for read in unwritten[:_SHOWN]]
    errata = simulation.hazards.errata if simulation.hazards else ()
    found += [_erratum(erratum, simulation) for erratum in errata[:_SHOWN]]
    found += [_stray(stray, simulation) for stray in simulation.strays[:_SHOWN]]
    finish = program.accelerator.finish
    for results in simulation.together() if finish is not None else ():
        assert finish is not None
        result = results[-1]
        if len(result.kind) and not (result.kind == program.accelerator.instructions.index(finish)).any():
            last = result.launch.begin + len(result.kind) - 1
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


_ERRATA: dict[ErratumKind, str] = {
    "preload-alone": "no compute follows instruction {at} ({op}): in the recorded designs it is then never complete; "
    "add the compute",
    "short-compute": "instruction {at} ({op}) computes at most 4 rows right before instruction {since} ({other}) "
    "configures the mesh: in the recorded designs its results, and weights used again, are wrong; "
    "compute more rows, or configure before it",
    "adders-shared": "instruction {at} ({op}) accumulates into one bank of the accumulator while instruction {since} "
    "({other}) may accumulate into another: in the recorded designs they share one set of adders, and both results are "
    "wrong; put a fence between them",
    "stale-maximum": "instruction {at} ({op}) sums exponentials of a row whose maximum instruction {since} ({other}) "
    "gathers: by the RTL, which was read and not recorded, only SUM_EXP takes it over, at least 6 cycles behind it; "
    "sum a block by SUM_EXP first, and gather the maxima of other rows between",
}


def _erratum(erratum: Erratum, simulation: Simulation) -> ProgramWarning:
    at, since = _instruction(erratum.instruction, simulation), _instruction(erratum.since, simulation)
    said = _ERRATA[erratum.kind].format(at=erratum.instruction, op=at.op, since=erratum.since, other=since.op)
    return ProgramWarning(kind="hardware-differs", launch=at.launch, instruction=erratum.instruction, detail=said)


def _stray(stray: Stray, simulation: Simulation) -> ProgramWarning:
    instruction = _instruction(stray.instruction, simulation)
    return ProgramWarning(
        kind="outside-segments",
        launch=instruction.launch,
        instruction=stray.instruction,
        detail=f"instruction {stray.instruction} ({instruction.op}) writes bytes {stray.begin} to {stray.end - 1} of "
        "dram, which no segment holds",
    )


def seconds_of(simulation: Simulation, accelerator: Accelerator) -> float:
    """Returns the time of all launches by the accelerator's clock."""
    return simulation.cycles / (accelerator.clock_mhz * 1e6)


def unit_times(simulation: Simulation, accelerator: Accelerator) -> dict[str, UnitTime]:
    """Returns the instructions and times of each unit over all launches that were timed."""
    times = {unit: UnitTime(instructions=0, busy=0, stalled={}, idle=0) for unit in accelerator.units}
    units = np.array([accelerator.units.index(i.unit) for i in accelerator.instructions])
    for results in simulation.together():
        last, over = [0] * len(times), 0
        for result in results:
            if result.timing is None:
                continue
            over = result.first_cycle + result.timing.cycles - result.started
            unit_of = units[result.kind]
            for number, total in enumerate(times.values()):
                rows = np.flatnonzero(unit_of == number)
                last[number] = int(result.timing.end[rows[-1]]) if len(rows) else last[number]
                total.instructions += len(rows)
                total.busy += result.timing.busy[accelerator.units[number]]
                _add(total.stalled, {cause: int(lost[rows].sum()) for cause, lost in result.timing.waits.items()})
        for total, end in zip(times.values(), last, strict=True):
            total.idle += max(over - end, 0)  # a store may outlive FINISH
    return times


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for cause, cycles in more.items():
        if cycles:
            total[cause] = total.get(cause, 0) + cycles


def timing_model_of(program: Program, simulation: Simulation) -> TimingModel:
    """Returns how far the cycles can be trusted for this program on this accelerator."""
    launches = (decoded_together(results) for results in simulation.together())
    return timing_model(program.accelerator, launches)


def program_size(program: Program) -> ProgramSize:
    """Returns the size of the program."""
    launches = [step for step in program.steps if isinstance(step, Launch)]
    return ProgramSize(
        instructions=len(program.words),
        launches=len(launches),
        starts=sum(not launch.joined for launch in launches),
        host_steps=sum(isinstance(step, HostStep) for step in program.steps),
        dram_bytes=program.dram_bytes,
    )


def alone_cycles(program: Program, simulation: Simulation) -> int | None:
    """Returns the cycles of all launches without processor and memory; None where the document has neither.

    Raises:
        SimulationError: a deadlock.
    """
    family = family_of(program.accelerator)
    if not isinstance(family, TimedAlone) or not simulation.cycles:
        return None
    time = family.alone(program.accelerator)
    if time is None:
        return None
    return sum(time(decoded_together(results), {}).cycles for results in simulation.together())
