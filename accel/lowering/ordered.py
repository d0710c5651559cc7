"""Whether tokens order a program's units: its calls replayed one by one, with clocks of what each unit has seen."""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy
from accel.lowering.handshake import Signals, replay
from accel.lowering.turns import Extents, Step

Clock = dict[str, int]  # of each unit how many of its calls have ended for certain


@dataclass(frozen=True)
class Held:
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


def unordered(
    steps: Sequence[Step], signals: Signals, held: Mapping[int, Held], extents: Extents, accelerator: Accelerator
) -> str | None:
    """What two units may do in either order, or wait for in vain; None where all is ordered.

    A compute is taken to write all that it touches.
    """
    clocks: dict[str, Clock] = defaultdict(dict)
    queues: dict[tuple[str, str], deque[Clock]] = defaultdict(deque)
    uses: dict[tuple[int, int], _Uses] = defaultdict(_Uses)
    for step, place in replay(steps, extents):
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


def _set(signals: Signals, step: Step, name: str, place: Mapping[int, int], extents: Extents) -> bool:
    ways = signals.get((step.index, name), ())
    return any(all(bound.holds(place, extents) for bound in where) for where in ways)


def _see(clock: Clock, other: Clock) -> None:
    for unit, when in other.items():
        clock[unit] = max(clock.get(unit, 0), when)
