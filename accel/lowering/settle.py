"""Close calls: of the options of each layer the one that the timing engine finds fastest.

The estimate decides where it is plain. Where a layer's cheapest options lie close they are compiled and timed, as far
as a budget of trials goes: each trial where it may win most, which mostly is where an estimate has turned out wrong.
The budget does not grow with the depth of the network.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from accel.lowering.attributes import Region

_CLOSE = 1.05  # how far the estimates are off, mostly
_TRIED = 2  # options of a layer; a third is faster than both by less than a hundredth
_TRIALS = 12

Measure = Callable[[Region], int | None]
"""Cycles of a region as it would be compiled, or None if that would take too long to say."""


@dataclass(frozen=True)
class Option:
    """A way to run a layer, and its estimated cycles."""

    cycles: float
    region: Region


def settle(options: Mapping[str, Sequence[Option]], measure: Measure | None) -> dict[str, Region]:
    """The region of each layer, given its options, the cheapest first; equal layers are settled once."""
    close = {name: _close(ranked) for name, ranked in options.items()}
    calls = {tried: _Call(tried, layers) for tried, layers in Counter(close.values()).items()}
    if measure is not None:
        _try(calls.values(), measure)
    return {name: calls[tried].best() for name, tried in close.items()}


def _try(calls: Collection["_Call"], measure: Measure) -> None:
    """One trial after the other, where it may win most, until none may win anything or the budget is spent."""
    for _ in range(_TRIALS):
        call = max(calls, key=_Call.gain, default=None)
        if call is None or call.gain() <= 0:
            return
        call.try_next(measure)


def _close(ranked: Sequence[Option]) -> tuple[Option, ...]:
    """The options worth a trial."""
    limit = _CLOSE * ranked[0].cycles
    return tuple(option for option in ranked[:_TRIED] if option.cycles <= limit)


@dataclass
class _Call:
    """The options of so many equal ``layers``, and the cycles of those tried so far."""

    options: tuple[Option, ...]
    layers: int
    known: list[int] = field(default_factory=list)
    given_up: bool = False

    def gain(self) -> float:
        """Cycles that trying one more option may win, if the first's estimate is as far off as they are."""
        untried = self.options[max(1, len(self.known)) :]
        if self.given_up or not untried:
            return 0
        now = min(self.known) if self.known else _CLOSE * self.options[0].cycles
        return self.layers * (now - untried[0].cycles)

    def try_next(self, measure: Measure) -> None:
        """Time the next option; where that cannot be said the estimate decides."""
        cycles = measure(self.options[len(self.known)].region)
        if cycles is None:
            self.given_up = True
        else:
            self.known.append(cycles)

    def best(self) -> Region:
        """The fastest, as far as is known."""
        if self.given_up or not self.known:
            return self.options[0].region
        return self.options[self.known.index(min(self.known))].region
