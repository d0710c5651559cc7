"""Handshakes: units that take turns in any order, and run apart as far as the buffers' contexts allow.

Of the calls of two units that can signal to each other, the last of one sends a token to the other wherever that is
next, which the first of the other awaits. So everything that the two do is ordered as in the program, with one token
at a time. A ``Lag`` lets a unit run ahead: in its loops the token that says "done" is awaited one turn later. Whether
the buffers allow it is tried out on the same program with fewer iterations (``replay``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Finish
from accel.lowering.turns import Bound, Extents, Step, Turn, turns

Signals = dict[tuple[int, str], list[tuple[Bound, ...]]]  # (call, token field) -> where its bit is one, any of these

AHEAD = 2  # turns that a unit may be ahead of the other


@dataclass(frozen=True)
class Pair:
    """Two units that signal to each other, and their calls in the order of the text."""

    units: tuple[str, str]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Lag:
    """Loops, the outermost first, that ``unit`` begins: it may be ``AHEAD`` turns ahead of ``other`` in them."""

    unit: str
    other: str
    loops: tuple[int, ...]


def pairs(steps: Sequence[Step], accelerator: Accelerator) -> list[Pair]:
    """Every two units with fields for tokens of each other, and the calls that have them."""
    units = sorted({step.unit for step in steps}, key=accelerator.units.index)
    found = []
    for number, first in enumerate(units):
        for second in units[number + 1 :]:
            other = {first: second, second: first}
            able = tuple(step for step in steps if _signals(step, other.get(step.unit), accelerator))
            if len({step.unit for step in able}) > 1:
                found.append(Pair((first, second), able))
    return found


def _signals(step: Step, other: str | None, accelerator: Accelerator) -> bool:
    instruction = accelerator.instruction(step.name)
    tokens = instruction.tokens
    return other in tokens.pop and (other in tokens.push or isinstance(instruction, Finish))


def lags(pair: Pair, extents: Extents) -> list[tuple[Lag, ...]]:
    """Ways in which one of the units may run ahead, the furthest first.

    In the innermost loops in which both have their turns, and in as many loops around each as begin with the same unit.
    """
    inner = [path for path in _mixed(pair) if not any(other[: len(path)] == path != other for other in _mixed(pair))]
    most = max((len(path) for path in inner), default=0)
    found: list[tuple[Lag, ...]] = []
    for climbed in reversed(range(most)):
        lag = tuple(made for path in inner if (made := _lag(pair, path, climbed, extents)) is not None)
        if lag and lag not in found:
            found.append(lag)
    return found


def _mixed(pair: Pair) -> list[tuple[int, ...]]:
    """The loops, with those around them, in which both units have calls."""
    paths: dict[tuple[int, ...], set[str]] = {}
    for step in pair.steps:
        for depth in range(len(step.loops)):
            paths.setdefault(step.loops[: depth + 1], set()).add(step.unit)
    return [path for path, units in paths.items() if len(units) > 1]


def _lag(pair: Pair, path: tuple[int, ...], climbed: int, extents: Extents) -> Lag | None:
    begins = [(_inside(pair, path[: depth + 1])[0].unit, _inside(pair, path[: depth + 1])[-1].unit)
              for depth in range(len(path))]  # fmt: skip
    unit, other = begins[-1]
    top = len(path) - 1
    while top > 0 and len(path) - 1 - top < climbed and begins[top - 1] == (unit, other):
        top -= 1
    loops = path[top:]
    return Lag(unit, other, loops) if unit != other and prod(extents[loop] for loop in loops) > 1 else None


def _inside(pair: Pair, path: tuple[int, ...]) -> list[Step]:
    return [step for step in pair.steps if step.loops[: len(path)] == path]


def handshakes(found: Sequence[tuple[Pair, tuple[Lag, ...]]], extents: Extents, accelerator: Accelerator) -> Signals:
    """The token fields of every call, and where they are set."""
    signals: Signals = {}
    for pair, ahead in found:
        for after in (True, False):
            for turn in turns(pair.steps, extents, after=after):
                if turn.step.unit == turn.other.unit:
                    continue
                tokens = accelerator.instruction(turn.step.name).tokens
                field = (tokens.push if after else tokens.pop)[turn.other.unit]
                where = turn.where + tuple(_later(turn, ahead, extents, after=after))
                signals.setdefault((turn.step.index, field), []).append(where)
    return signals


def _later(turn: Turn, ahead: Sequence[Lag], extents: Extents, *, after: bool) -> Iterator[Bound]:
    """What a lag adds: the token of a turn is for the one ``AHEAD`` turns on."""
    sender, receiver = (turn.step, turn.other) if after else (turn.other, turn.step)
    for lag in ahead:
        if turn.around not in lag.loops or (sender.unit, receiver.unit) != (lag.other, lag.unit):
            continue
        within = tuple(loop for loop in lag.loops if loop in turn.step.loops)
        inner = prod(extents[loop] for loop in lag.loops if loop not in within)
        total = prod(extents[loop] for loop in within) * inner
        if after:
            yield Bound(within, 0, total - AHEAD, inner, inner - 1)
        else:
            yield Bound(within, AHEAD, total, inner)


def fewer(steps: Sequence[Step], extents: Extents) -> dict[int, int]:
    """The extents of a program that is like this one but short: it has every first, middle and last turn.

    Of loops in which one unit is alone one iteration is left.
    """
    units: dict[int, set[str]] = {}
    for step in steps:
        for loop in step.loops:
            units.setdefault(loop, set()).add(step.unit)
    return {loop: min(extent, AHEAD + 1) if len(units.get(loop, ())) > 1 else 1 for loop, extent in extents.items()}


def replay(steps: Sequence[Step], extents: Extents) -> Iterator[tuple[Step, Mapping[int, int]]]:
    """The calls in the order in which they run, each with the iteration of its loops."""
    yield from _replay(list(steps), 0, extents, {})


def _replay(
    steps: list[Step], depth: int, extents: Extents, place: Mapping[int, int]
) -> Iterator[tuple[Step, Mapping[int, int]]]:
    at = 0
    while at < len(steps):
        step = steps[at]
        if len(step.loops) == depth:
            yield step, place
            at += 1
            continue
        loop, end = step.loops[depth], at
        while end < len(steps) and len(steps[end].loops) > depth and steps[end].loops[depth] == loop:
            end += 1
        for iteration in range(extents[loop]):
            yield from _replay(steps[at:end], depth + 1, extents, {**place, loop: iteration})
        at = end
