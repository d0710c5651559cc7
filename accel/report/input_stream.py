"""The report of a stream of inputs, from how it ran and the end-to-end time of one input."""

from collections.abc import Sequence
from dataclasses import dataclass

from accel.isa.family_registry import family_of
from accel.report.documents.end_to_end_documents import EndToEnd
from accel.report.documents.stream_documents import InputStream
from accel.simulate.engine import LaunchResult, Simulation


@dataclass(frozen=True)
class StreamRun:
    """How a stream of inputs ran: its cycles, when the results of each input were stored, and whether it is joined."""

    cycles: int
    ends: Sequence[int]
    joined: bool


def stream_run(simulation: Simulation, inputs: int) -> StreamRun:
    """Returns how a stream ran, whose launches are as many for each of ``inputs``."""
    results = simulation.launches
    each = len(results) // inputs
    if not each:
        return StreamRun(simulation.cycles, (), joined=False)
    next_ones = [result.launch.joined for result in results[each::each]]
    ends = [_end(results[(place + 1) * each - 1]) for place in range(inputs)]
    for place, joined in enumerate(next_ones):
        if joined:
            ends[place] = max(map(_stored, results[place * each : (place + 1) * each]))
    return StreamRun(simulation.cycles, ends, joined=any(next_ones))


def _end(result: LaunchResult) -> int:
    """When a launch is over, on the program's clock."""
    assert result.timing is not None
    return result.first_cycle + result.timing.cycles


def _stored(result: LaunchResult) -> int:
    """When the last store of a launch that another follows has ended, on the program's clock."""
    assert result.timing is not None
    stores = family_of(result.accelerator).boxes(result.decoded).writes().instruction
    return result.started + int(result.timing.end[stores].max(initial=0))


def stream_document(run: StreamRun, inputs: int, end_to_end: EndToEnd | None, clock_mhz: float) -> InputStream:
    """Returns the report of a stream; without ``end_to_end`` the host costs nothing."""
    beside = 0
    if end_to_end is not None:
        beside = end_to_end.cycles - end_to_end.parts["accelerator"].cycles
    latency = run.ends[0] if run.ends else 0
    interval = -(-(run.ends[-1] - latency) // (inputs - 1)) if run.ends else 0
    whole, second = max(interval, beside), clock_mhz * 1e6
    return InputStream(
        inputs=inputs,
        joined=run.joined,
        accelerator_cycles=run.cycles,
        accelerator_latency=latency,
        accelerator_interval=interval,
        latency_cycles=latency + beside,
        latency_seconds=(latency + beside) / second,
        interval_cycles=whole,
        interval_seconds=whole / second,
        inputs_per_second=second / whole if whole else None,
    )
