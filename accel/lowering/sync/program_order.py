"""Program order: the conditions, over the loops around a call, of which calls come directly before and after it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tvm import tirx

Extents = Mapping[int, int]  # iterations of each loop


@dataclass(frozen=True)
class CallStep:
    """A call: its number, its instruction and unit, its loops (outermost first), and the buffers it touches."""

    index: int
    name: str
    unit: str
    loops: tuple[int, ...]
    buffers: tuple[int, ...]


@dataclass(frozen=True)
class IterationRange:
    """``low <= number of the iteration < high``, of all ``loops`` together, the outermost first.

    ``inner`` iterations of loops that the call is not in count as one of these, and it is the ``at``-th of them.
    """

    loops: tuple[int, ...]
    low: int
    high: int
    inner: int = 1
    at: int = 0

    def holds(self, place: Mapping[int, int], extents: Extents) -> bool:
        """Whether it does at the iteration ``place`` of each loop."""
        number = 0
        for loop in self.loops:
            number = number * extents[loop] + place[loop]
        return self.low <= number * self.inner + self.at < self.high

    def expression(self, variables: Mapping[int, tirx.Var], extents: Extents) -> tirx.Expr:
        """The same over the variables of the loops."""
        number: tirx.Expr = tirx.const(0, "int32")
        for loop in self.loops:
            number = number * extents[loop] + variables[loop]
        number = number * self.inner + self.at
        most = prod(extents[loop] for loop in self.loops) * self.inner
        holds: tirx.Expr = tirx.const(True, "bool")
        if self.low > self.at:
            holds = number >= self.low
        if self.high < most:
            holds = tirx.And(holds, number < self.high)
        return holds


@dataclass(frozen=True)
class AdjacentCall:
    """A call, one that runs next before or after it, and where that is so.

    ``around`` is the loop whose next iteration the other is in, or None where it is in the same.
    """

    step: CallStep
    other: CallStep
    around: int | None
    where: tuple[IterationRange, ...]


def adjacent_calls(steps: Sequence[CallStep], extents: Extents, *, after: bool) -> Iterator[AdjacentCall]:
    """For every call of ``steps``, in the order of the text, all that may run next after it (or before it)."""
    ordered = list(steps) if after else list(reversed(steps))
    for number, step in enumerate(ordered):
        follower = ordered[number + 1] if number + 1 < len(ordered) else None
        shared = _common(step.loops, follower.loops) if follower is not None else 0
        ended: tuple[IterationRange, ...] = ()
        for depth in reversed(range(shared, len(step.loops))):
            loop, extent = step.loops[depth], extents[step.loops[depth]]
            begin = next(other for other in ordered if other.loops[: depth + 1] == step.loops[: depth + 1])
            if extent > 1:
                goes_on = IterationRange((loop,), 0, extent - 1) if after else IterationRange((loop,), 1, extent)
                yield AdjacentCall(step, begin, loop, (*ended, goes_on))
                ended = (
                    *ended,
                    IterationRange((loop,), extent - 1, extent) if after else IterationRange((loop,), 0, 1),
                )
        if follower is not None:
            yield AdjacentCall(step, follower, None, ended)


def _common(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """Loops that two calls are both in."""
    count = 0
    while count < min(len(first), len(second)) and first[count] == second[count]:
        count += 1
    return count
