"""Where every cycle went, one cycle after the other and in plain Python: written from docs/timing.md."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass
class Piece:
    """A piece of work of a unit; ``waits`` are (cause, cycles), one after the other, the last until the start."""

    unit: str
    name: str
    start: int
    end: int
    held: int = 0
    waits: list[tuple[str, int]] = field(default_factory=list)

    def waits_for(self, now: int) -> str:
        """What it waits for in a cycle before its start."""
        until = self.start
        for cause, cycles in reversed(self.waits):
            if until - cycles <= now < until:
                return cause
            until -= cycles
        return "unknown"


Blocker = Callable[[int, str, int], str | None]
"""From a piece's index, the cause that it waits for and the cycle: the unit whose fault it is."""


def account(
    pieces: Sequence[Piece], units: Sequence[str], main: str, cycles: int, blocker: Blocker
) -> tuple[Counter[tuple[str, str]], dict[str, Counter[tuple[str, str]]]]:
    """Cycles by (what, name) of the whole accelerator, whose compute unit is ``main``, and of each unit."""
    total: Counter[tuple[str, str]] = Counter()
    by_unit: dict[str, Counter[tuple[str, str]]] = {unit: Counter() for unit in units}
    ends = [piece.end if piece.end <= cycles else -1 for piece in pieces]
    last = pieces[ends.index(max(ends))].unit if pieces else main
    for now in range(cycles):
        states = {unit: _state(pieces, unit, now) for unit in units}
        for unit, (what, name, _) in states.items():
            by_unit[unit][what, name] += 1
        whose = last if states[main][0] == "ended" else main
        if states[whose][0] == "ended":
            whose = main
        seen = {whose}
        while states[whose][0] == "waits":
            _, cause, index = states[whose]
            other = blocker(index, cause, now)
            if other is None or other in seen or states[other][0] == "ended":
                break
            seen.add(other)
            whose = other
        what, name, _ = states[whose]
        total[what if whose == main or what != "runs" else "other", name] += 1
    return total, by_unit


def _state(pieces: Sequence[Piece], unit: str, now: int) -> tuple[str, str, int]:
    """What a unit does in a cycle: ``runs``, ``held``, ``waits`` or ``ended``; of what; and the piece's index."""
    mine = [(index, piece) for index, piece in enumerate(pieces) if piece.unit == unit]
    for index, piece in mine:
        if piece.start <= now < piece.end:
            held = now >= piece.end - piece.held
            return ("held", "memory", index) if held else ("runs", piece.name, index)
    for index, piece in mine:
        if now < piece.start:
            return "waits", piece.waits_for(now), index
    return "ended", "ended", -1
