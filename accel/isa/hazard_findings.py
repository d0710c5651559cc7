"""What a launch leaves open: accesses in no fixed order, reads of what nobody wrote, or of what was there before."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

StaleKind = Literal["stale-out", "stale-accumulator"]
ErratumKind = Literal["preload-alone", "short-compute", "adders-shared", "stale-maximum"]


@dataclass(frozen=True)
class Race:
    """Instructions ``first`` and ``second`` touch ``memory`` in no fixed order; one of them writes.

    Instructions count from the program's first. Where ``second`` ends a launch, ``first`` is a store that it does not
    wait for. ``begin`` to ``end`` (exclusive) spans what both touch: elements of an on-chip memory, bytes of ``dram``.
    """

    first: int
    second: int
    memory: str
    begin: int
    end: int


@dataclass(frozen=True)
class Unwritten:
    """Instruction ``instruction`` reads what nobody wrote: elements of an on-chip memory, or bytes of ``dram``."""

    instruction: int
    memory: str
    begin: int
    end: int


@dataclass(frozen=True)
class Stale:
    """Instruction ``instruction`` may read what was in elements ``begin`` to ``end`` (exclusive) of ``memory`` before.

    ``stale-out``: it stores from a memory of its own, which instruction ``since``, that loaded or cleared the
    accumulator, did not write. ``stale-accumulator``: one of its passes reads what a pass just before it writes;
    ``since`` is itself.
    """

    kind: StaleKind
    instruction: int
    since: int
    memory: str
    begin: int
    end: int


@dataclass(frozen=True)
class Erratum:
    """Instruction ``instruction``, with ``since``, is one that hardware was seen to run otherwise than it says.

    ``preload-alone``: a preload, and what follows it in its queue in place of a compute, or itself; it is never
    complete. ``short-compute``: a compute of few rows, and the configuration right behind it; its results are wrong.
    ``adders-shared``: a load and a product that accumulate into two banks of the accumulator at once; both results are
    wrong. ``stale-maximum``: a sum of exponentials, and the maximum of its row, which is not known yet; its
    results are wrong.
    """

    kind: ErratumKind
    instruction: int
    since: int


@dataclass(frozen=True)
class Hazards:
    """What a launch leaves open, or all of a program's: of each launch at most some hundreds."""

    races: tuple[Race, ...]
    unwritten: tuple[Unwritten, ...]
    stale: tuple[Stale, ...] = ()
    errata: tuple[Erratum, ...] = ()

    @staticmethod
    def of(launches: "Iterable[Hazards]") -> "Hazards":
        """Returns the findings of all launches together."""
        every = list(launches)
        return Hazards(
            tuple(race for hazards in every for race in hazards.races),
            tuple(read for hazards in every for read in hazards.unwritten),
            tuple(read for hazards in every for read in hazards.stale),
            tuple(erratum for hazards in every for erratum in hazards.errata),
        )
