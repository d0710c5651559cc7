"""Token protocol of units that alternate in any order: which tokens they exchange, how far each may run ahead.

Whether tokens order a program's units is found by replaying its calls one by one, with vector clocks.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy, Finish
from accel.lowering.sync.program_order import AdjacentCall, CallStep, Extents, IterationRange, adjacent_calls

Signals = dict[
    tuple[int, str], list[tuple[IterationRange, ...]]
]  # (call, token field) -> where its bit is one, any of these

AHEAD = 2  # turns that a unit may be ahead of the other


@dataclass(frozen=True)
class UnitPair:
    """Two units that signal to each other, and their calls in the order of the text."""

    units: tuple[str, str]
    steps: tuple[CallStep, ...]


@dataclass(frozen=True)
class RunAhead:
    """Loops, the outermost first, that ``unit`` begins: it may be ``AHEAD`` turns ahead of ``other`` in them."""

    unit: str
    other: str
    loops: tuple[int, ...]


def unit_pairs(steps: Sequence[CallStep], accelerator: Accelerator) -> list[UnitPair]:
    """Every two units with fields for tokens of each other, and the calls that have them."""
    units = sorted({step.unit for step in steps}, key=accelerator.units.index)
    found = []
    for number, first in enumerate(units):
        for second in units[number + 1 :]:
            other = {first: second, second: first}
            capabilities = tuple(step for step in steps if _signals(step, other.get(step.unit), accelerator))
            if len({step.unit for step in capabilities}) > 1:
                found.append(UnitPair((first, second), capabilities))
    return found


def _signals(step: CallStep, other: str | None, accelerator: Accelerator) -> bool:
    instruction = accelerator.instruction(step.name)
    tokens = instruction.tokens
    return other in tokens.pop and (other in tokens.push or isinstance(instruction, Finish))


def run_ahead_options(pair: UnitPair, extents: Extents) -> list[tuple[RunAhead, ...]]:
    """Ways in which one of the units may run ahead, the furthest first.

    In the innermost loops in which both have their turns, and in as many loops around each as begin with the same unit.
    """
    inner = [
        path
        for path in _shared_loops(pair)
        if not any(other[: len(path)] == path != other for other in _shared_loops(pair))
    ]
    most = max((len(path) for path in inner), default=0)
    found: list[tuple[RunAhead, ...]] = []
    for climbed in reversed(range(most)):
        lag = tuple(made for path in inner if (made := _lag(pair, path, climbed, extents)) is not None)
        if lag and lag not in found:
            found.append(lag)
    return found


def _shared_loops(pair: UnitPair) -> list[tuple[int, ...]]:
    """The loops, with those around them, in which both units have calls."""
    paths: dict[tuple[int, ...], set[str]] = {}
    for step in pair.steps:
        for depth in range(len(step.loops)):
            paths.setdefault(step.loops[: depth + 1], set()).add(step.unit)
    return [path for path, units in paths.items() if len(units) > 1]


def _lag(pair: UnitPair, path: tuple[int, ...], climbed: int, extents: Extents) -> RunAhead | None:
    begins = [(_inside(pair, path[: depth + 1])[0].unit, _inside(pair, path[: depth + 1])[-1].unit)
              for depth in range(len(path))]  # fmt: skip
    unit, other = begins[-1]
    top = len(path) - 1
    while top > 0 and len(path) - 1 - top < climbed and begins[top - 1] == (unit, other):
        top -= 1
    loops = path[top:]
    return RunAhead(unit, other, loops) if unit != other and prod(extents[loop] for loop in loops) > 1 else None


def _inside(pair: UnitPair, path: tuple[int, ...]) -> list[CallStep]:
    return [step for step in pair.steps if step.loops[: len(path)] == path]


def token_protocol(
    found: Sequence[tuple[UnitPair, tuple[RunAhead, ...]]], extents: Extents, accelerator: Accelerator
) -> Signals:
    """The token fields of every call, and where they are set."""
    signals: Signals = {}
    for pair, ahead in found:
        for after in (True, False):
            for turn in adjacent_calls(pair.steps, extents, after=after):
                if turn.step.unit == turn.other.unit:
                    continue
                tokens = accelerator.instruction(turn.step.name).tokens
                field = (tokens.push if after else tokens.pop)[turn.other.unit]
                where = turn.where + tuple(_later(turn, ahead, extents, after=after))
                signals.setdefault((turn.step.index, field), []).append(where)
    return signals


def _later(turn: AdjacentCall, ahead: Sequence[RunAhead], extents: Extents, *, after: bool) -> Iterator[IterationRange]:
    """What a lag adds: the token of a turn is for the one ``AHEAD`` turns on."""
    sender, receiver = (turn.step, turn.other) if after else (turn.other, turn.step)
    for lag in ahead:
        if turn.around not in lag.loops or (sender.unit, receiver.unit) != (lag.other, lag.unit):
            continue
        within = tuple(loop for loop in lag.loops if loop in turn.step.loops)
        inner = prod(extents[loop] for loop in lag.loops if loop not in within)
        total = prod(extents[loop] for loop in within) * inner
        if after:
            yield IterationRange(within, 0, total - AHEAD, inner, inner - 1)
        else:
            yield IterationRange(within, AHEAD, total, inner)


def shortened_extents(steps: Sequence[CallStep], extents: Extents) -> dict[int, int]:
    """The extents of a program that is like this one but short: it has every first, middle and last turn.

    Of loops in which one unit is alone one iteration is left.
    """
    units: dict[int, set[str]] = {}
    for step in steps:
        for loop in step.loops:
            units.setdefault(loop, set()).add(step.unit)
    return {loop: min(extent, AHEAD + 1) if len(units.get(loop, ())) > 1 else 1 for loop, extent in extents.items()}


def replay_calls(steps: Sequence[CallStep], extents: Extents) -> Iterator[tuple[CallStep, Mapping[int, int]]]:
    """The calls in the order in which they run, each with the iteration of its loops."""
    yield from _replay(list(steps), 0, extents, {})


def _replay(
    steps: list[CallStep], depth: int, extents: Extents, place: Mapping[int, int]
) -> Iterator[tuple[CallStep, Mapping[int, int]]]:
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


Clock = dict[str, int]  # of each unit how many of its calls have ended for certain


@dataclass(frozen=True)
class ContextRotation:
    """How a buffer's contexts follow one another: the loops around it, and how many there are."""

    loops: tuple[int, ...]
    copies: int

    def context(self, place: Mapping[int, int], extents: Extents) -> int:
        """The context in use at an iteration."""
        number = 0
        for loop in self.loops:
            number = number * extents[loop] + place[loop]
        return number % self.copies


@dataclass
class _Uses:
    """The last call of each unit that wrote one context of a buffer, and that read it."""

    written: Clock = field(default_factory=dict)
    read: Clock = field(default_factory=dict)


def ordering_fault(
    steps: Sequence[CallStep],
    signals: Signals,
    held: Mapping[int, ContextRotation],
    extents: Extents,
    accelerator: Accelerator,
) -> str | None:
    """What two units may do in either order, or wait for in vain; None where all is ordered.

    A compute is taken to write all that it touches.
    """
    clocks: dict[str, Clock] = defaultdict(dict)
    queues: dict[tuple[str, str], deque[Clock]] = defaultdict(deque)
    uses: dict[tuple[int, int], _Uses] = defaultdict(_Uses)
    for step, place in replay_calls(steps, extents):
        instruction, clock = accelerator.instruction(step.name), clocks[step.unit]
        for other, name in instruction.tokens.pop.items():
            if _set(signals, step, name, place, extents):
                if not queues[other, step.unit]:
                    return f"{step.name} waits for a token of {other} that none sends"
                _see(clock, queues[other, step.unit].popleft())
        now = clock[step.unit] = clock.get(step.unit, 0) + 1
        writes = not (isinstance(instruction, Copy) and instruction.direction == "store")
        for buffer in step.buffers:
            use = uses[buffer, held[buffer].context(place, extents)]
            before = (use.written, use.read) if writes else (use.written,)
            for unit, when in ((unit, when) for clashing in before for unit, when in clashing.items()):
                if clock.get(unit, 0) < when:
                    return f"nothing makes {step.name} wait for what {unit} does before it"
            (use.written if writes else use.read)[step.unit] = now
        for other, name in instruction.tokens.push.items():
            if _set(signals, step, name, place, extents):
                queues[step.unit, other].append(dict(clock))
    left = next((queue for queue, tokens in queues.items() if tokens), None)
    return None if left is None else f"a token from {left[0]} to {left[1]} is left over"


def _set(signals: Signals, step: CallStep, name: str, place: Mapping[int, int], extents: Extents) -> bool:
    ways = signals.get((step.index, name), ())
    return any(all(bound.holds(place, extents) for bound in where) for where in ways)


def _see(clock: Clock, other: Clock) -> None:
    for unit, when in other.items():
        clock[unit] = max(clock.get(unit, 0), when)
