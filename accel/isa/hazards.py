"""What a launch leaves open: accesses whose order nothing fixes, and reads of what nobody wrote."""

from collections.abc import Iterable
from dataclasses import dataclass


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
class Hazards:
    """What a launch leaves open, or all of a program's: of each launch at most some hundreds."""

    races: tuple[Race, ...]
    unwritten: tuple[Unwritten, ...]

    @staticmethod
    def of(launches: "Iterable[Hazards]") -> "Hazards":
        """Those of all launches."""
        every = list(launches)
        return Hazards(
            tuple(race for hazards in every for race in hazards.races),
            tuple(read for hazards in every for read in hazards.unwritten),
        )
