"""Autotuning: of the options of each layer that are priced alike, the one that the timing engine finds fastest."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from accel.region.kinds import Region, TilingOption

_CLOSE_RATIO = 1.05  # how far the estimates are off, mostly
_MAX_OPTIONS = 2  # options of a layer; a third is faster than both by less than a hundredth
_MAX_TRIALS = 12

Measure = Callable[[Region], int | None]
"""Cycles of a region as it would be compiled, or None if that would take too long to say."""


def autotune(options: Mapping[str, Sequence[TilingOption]], measure: Measure | None) -> dict[str, Region]:
    """The region of each layer, given its options, the cheapest first; equal layers are settled once.

    Without ``measure`` the estimates decide.
    """
    if measure is None:
        return {name: _cheapest(ranked) for name, ranked in options.items()}
    close = {name: _close_options(ranked) for name, ranked in options.items()}
    calls = {tried: _LayerOptions(tried, layers) for tried, layers in Counter(close.values()).items()}
    _run_trials(calls.values(), measure)
    return {name: calls[tried].best() for name, tried in close.items()}


def _cheapest(ranked: Sequence[TilingOption]) -> Region:
    """The region of the least price; of equal ones that which keeps the weights, as each load waits for something."""
    equal = (option.region for option in ranked if option.cycles == ranked[0].cycles)
    return next((region for region in equal if region.tiling.order == "weights"), ranked[0].region)


def _run_trials(calls: Collection["_LayerOptions"], measure: Measure) -> None:
    """One trial after the other, where it may win most, until none may win anything or the budget is spent."""
    for _ in range(_MAX_TRIALS):
        call = max(calls, key=_LayerOptions.gain, default=None)
        if call is None or call.gain() <= 0:
            return
        call.try_next(measure)


def _close_options(ranked: Sequence[TilingOption]) -> tuple[TilingOption, ...]:
    """The options worth a trial."""
    limit = _CLOSE_RATIO * ranked[0].cycles
    return tuple(option for option in ranked[:_MAX_OPTIONS] if option.cycles <= limit)


@dataclass
class _LayerOptions:
    """The options of so many equal ``layers``, and the cycles of those tried so far."""

    options: tuple[TilingOption, ...]
    layers: int
    known: list[int] = field(default_factory=list)
    given_up: bool = False

    def gain(self) -> float:
        """Cycles that trying one more option may win, if the first's estimate is as far off as they are."""
        untried = self.options[max(1, len(self.known)) :]
        if self.given_up or not untried:
            return 0
        now = min(self.known) if self.known else _CLOSE_RATIO * self.options[0].cycles
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
