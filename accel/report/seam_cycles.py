"""What launches lose at the seams between them: before a layer's bottleneck begins to work, and after it is done.

A layer's bottleneck is what its bound is of: the arithmetic of its compute unit, or the copies that are on the bus. By
itself a launch takes what leads to the bottleneck's first work, the time from there to the end of its last, and what
follows. The first and the last part could lie beside the bottlenecks of the launches around, so that what single
launches allow is the middle parts one after the other, with what leads to the first of a row and what follows its last:
nothing runs beside these. It is never below the row's bound. A row are launches with no host step between them.

It is a measure of the seams alone. What a launch loses between its bottleneck's first and last work counts in full, and
that a layer may read the very last result of the one before is not allowed for. Joined launches may take fewer cycles,
where one's products run beside the copies of another.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from accel.accelerator.instructions import Copy
from accel.isa.family import Work
from accel.isa.family_registry import family_of
from accel.program.program_model import HostStep, Launch, Program
from accel.simulate.cycle_account import activity_of, compute_unit
from accel.simulate.engine import LaunchResult, simulate


@dataclass(frozen=True)
class LaunchSpan:
    """Cycles of a launch by itself: before its bottleneck's first work, from there to the end of its last, and after.

    ``work`` is what it needs at least.
    """

    name: str
    before: int
    working: int
    after: int
    work: Work


def cycles_without_seams(program: Program) -> int:
    """Returns the cycles that the program's launches allow, timed by themselves, if seams between them cost nothing.

    Raises:
        SimulationError: a launch cannot be timed by itself.
    """
    return sum(row_cycles(row) for row in launch_spans(program))


def launch_spans(program: Program) -> list[list[LaunchSpan]]:
    """Returns the spans of the launches, each by itself, row by row.

    Raises:
        SimulationError: a launch cannot be timed by itself.
    """
    apart = tuple(replace(step, joined=False) if isinstance(step, Launch) else step for step in program.steps)
    results = iter(simulate(replace(program, steps=apart), {}, function=False).launches)
    rows = groupby(program.steps, key=lambda step: isinstance(step, HostStep))
    return [[_span(next(results)) for _ in steps] for host, steps in rows if not host]


def _span(result: LaunchResult) -> LaunchSpan:
    accelerator, decoded = result.accelerator, result.decoded
    family = family_of(accelerator)
    timing, work = family.time(decoded, {}), family.work(decoded)
    pieces = activity_of(decoded, timing)
    copies = np.array([isinstance(each, Copy) for each in accelerator.instructions])[pieces.kind]
    computes = ~copies & (np.asarray(pieces.unit) == accelerator.units.index(compute_unit(accelerator)))
    chosen = copies if work.bus_cycles > work.compute_cycles else computes
    if not chosen.any():
        return LaunchSpan(result.launch.name, 0, timing.cycles, 0, work)
    begin, end = int(pieces.start[chosen].min()), min(int(pieces.end[chosen].max()), timing.cycles)
    return LaunchSpan(result.launch.name, begin, end - begin, timing.cycles - end, work)


def row_cycles(spans: Sequence[LaunchSpan]) -> int:
    """Returns what launches with no host step between them allow."""
    working = spans[0].before + sum(span.working for span in spans) + spans[-1].after
    bounds = (sum(span.work.compute_cycles for span in spans), sum(span.work.bus_cycles for span in spans))
    return max(working, *bounds)
