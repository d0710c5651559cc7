"""Cycles of a launch, and the work that it has: what a family says of how long it takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from accel.isa.decode import Decoded
from accel.util.arrays import Int64, Signed


@dataclass(frozen=True)
class Timing:
    """Cycles of one launch of n instructions.

    ``start`` and ``end`` are (n,); ``waits`` maps a cause to the cycles (n,) that an instruction lost to it, such as
    ``fetch``, ``memory``, ``hazard`` or a token queue ``load_to_compute``: before it started, or to ``memory`` while
    it ran. ``cycles`` is when the launch is over: when FINISH ended, or without one the last instruction. ``busy``
    maps a unit to its cycles at work. ``tokens`` are those left in each queue. Arrays may be of any signed
    integers.

    ``blockers`` says of a cause whose fault it was: the number of the unit that was waited for, for all instructions
    or for each (n,), -1 where it was none; or ``PREVIOUS``, the unit of the instruction before it in the program.
    ``awaited`` says of a cause for which instruction each one waited: how many places before it that one stands (n,),
    behind it where negative, 0 where it is none or not known (:func:`places_back`). The wait ends with that one, or
    with the piece of its work that was waited for.
    ``activity`` returns what the units did where instructions are not that, as a loop instruction that is many.
    """

    start: Signed
    end: Signed
    waits: Mapping[str, Signed]
    cycles: int
    busy: dict[str, int]
    tokens: dict[str, int]
    blockers: Mapping[str, "Signed | int"] = field(default_factory=dict)
    awaited: Mapping[str, Signed] = field(default_factory=dict)
    activity: Callable[[], "Activity"] | None = None


def places_back(instructions: Int64) -> Int64:
    """Returns for ``instructions`` (n,), which each waited for, -1 for none, how far back they stand; 0 for none."""
    return np.where(instructions < 0, 0, np.arange(len(instructions)) - instructions)


PREVIOUS = -2
"""A blocker: the unit of the instruction before in the program, until that has started."""


@dataclass(frozen=True)
class Activity:
    """The pieces of work of a launch, m of them, those of a unit in its order.

    ``unit`` (m,) and ``kind`` (m,) are indices into the document's units and instructions. A piece ran from ``start``
    to ``end`` (m,), of which it lost the last ``held`` (m,) cycles to memory. ``waits`` maps a cause to the cycles
    (m,) that it lost to it before: one cause after the other, the last one until the start. ``blockers`` are as in
    :class:`Timing`.
    """

    unit: Signed
    kind: Signed
    start: Signed
    end: Signed
    held: Signed
    waits: Mapping[str, Signed]
    blockers: Mapping[str, "Signed | int"]


@dataclass(frozen=True)
class Work:
    """What the instructions of a launch must take, whatever the schedule.

    ``compute_cycles``: of the unit that contracts; ``contract_cycles`` the part of it that multiplies.
    ``bus_cycles``: the bytes over the bus. ``lower_bound``: cycles that no order of these instructions goes below.
    ``macs_per_cycle``: multiply-accumulates a cycle at best; None where the contraction does one iteration a cycle.
    ``bus_bytes``: bytes over the bus a cycle; None where it is what the document's ``dram`` says.
    """

    contract_cycles: int
    compute_cycles: int
    bus_cycles: int
    lower_bound: int
    macs_per_cycle: float | None = None
    bus_bytes: int | None = None


class LaunchTime(Protocol):
    """What a launch takes; a :class:`Timing` says more."""

    @property
    def cycles(self) -> int:
        """Its cycles."""

    @property
    def tokens(self) -> dict[str, int]:
        """The tokens that it leaves, by queue."""


@dataclass(frozen=True)
class Cycles:
    """A launch's cycles alone, where nobody asks what they went to."""

    cycles: int
    tokens: dict[str, int]


TimeLaunch = Callable[[Decoded, dict[str, int]], LaunchTime]
