"""Autotuning: of the options of each layer that are priced alike, the one that the timing engine finds fastest."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from accel.region.kinds import Region, TilingOption
from accel.region.tilings import LAYER_WORTH

_CLOSE_RATIO = 1.05  # how far the estimates are off, mostly
_SMALLER_RATIO = 2.2  # of one by smaller instructions against a layer's, whose price knows no caches
_MAX_OPTIONS = 2  # options of a layer; a third is faster than both by less than a hundredth
_MOST_OPTIONS = 6  # where the first takes so much more than its price that this says little of their order
_FURTHER_RATIO = 1.1  # of such an option to the cheapest
_DOUBT = 1.25  # of the first's cycles to its price
_NEVER = 1 << 62  # cycles of an option of which they cannot be said, beside one of which they can
_MAX_TRIALS = 12
_LEAST_GAIN = 0.002  # of the cycles of all layers, for a trial
_AT_ONCE = 2  # trials of different layers, whatever the machine: which ones are made must not depend on it

Measure = Callable[[Sequence[Region], Sequence[Region]], Sequence[int | None]]
"""Cycles of each region as it would be compiled, or None if that would take too long to say.

It is told of regions too that it is likely to be asked for next.
"""


def autotune(
    options: Mapping[str, Sequence[TilingOption]],
    measure: Measure | None,
    exact: Callable[[TilingOption], bool] | None = None,
) -> dict[str, Region]:
    """The region of each layer, given its options, the cheapest first.

    Layers that differ in numbers alone are settled once. Without ``measure`` the estimates decide, and of a layer whose
    cheapest option has an ``exact`` price.
    """
    settled = {
        name: _cheapest(ranked)
        for name, ranked in options.items()
        if measure is None or (exact is not None and exact(ranked[0]))
    }
    if measure is None or len(settled) == len(options):
        return settled
    close = {name: _close_options(ranked) for name, ranked in options.items() if name not in settled}
    alike = {name: tuple(map(_unnumbered, tried)) for name, tried in close.items()}
    layers = Counter(alike.values())
    calls = {
        alike[name]: _LayerOptions(tried, layers[alike[name]], _further_options(options[name], tried), options[name][0])
        for name, tried in close.items()
    }
    whole = sum(ranked[0].cycles for ranked in options.values())
    _run_trials(calls.values(), measure, _LEAST_GAIN * whole)
    chosen = settled | {
        name: (*tried, *_further_options(options[name], tried))[calls[alike[name]].best_place].region
        for name, tried in close.items()
    }
    return {name: chosen[name] for name in options}


def _unnumbered(option: TilingOption) -> TilingOption:
    """An option without the numbers of its epilogue: instructions take as long for others."""
    return replace(option, region=replace(option.region, epilogue=option.region.epilogue.unnumbered))


def _cheapest(ranked: Sequence[TilingOption]) -> Region:
    """The region of the least price; of equal ones that which keeps the weights, as each load waits for something."""
    equal = (option.region for option in ranked[:_MAX_OPTIONS] if option.cycles == ranked[0].cycles)
    return next((region for region in equal if region.tiling.order == "weights"), ranked[0].region)


def _run_trials(calls: Collection["_LayerOptions"], measure: Measure, least: float) -> None:
    """Trials where they may win most, until none may win more than ``least`` cycles or the budget is spent.

    What is left of the budget goes to further options of layers whose prices are in doubt.
    """
    left = _MAX_TRIALS
    while left:
        promising = [call for call in calls if call.gain() > least]
        if not promising:
            promising = [call for call in calls if call.take_further() and call.gain() > least]
        most = min(_AT_ONCE, left)
        urgent = sorted(promising, key=_LayerOptions.urgency, reverse=True)[:most]
        if not urgent:
            return
        # what is known of one option alone says nothing, and two of a single layer are timed in the time of one
        each = most if len(urgent) == 1 and not urgent[0].known else 1
        tried = [(call, region) for call in urgent for region in call.next_ones(each)]
        ahead = [region for call in urgent for region in call.next_ones(each + 1)[each:]]
        for (call, _), cycles in zip(tried, measure([region for _, region in tried], ahead), strict=True):
            call.learn(cycles)
        left -= len(tried)


def _close_options(ranked: Sequence[TilingOption]) -> tuple[TilingOption, ...]:
    """The options worth a trial."""
    best = ranked[0]
    close = [option for option in ranked[:_MAX_OPTIONS] if option.cycles <= _CLOSE_RATIO * best.cycles]
    other = next((option for option in ranked if _is_layer(option) != _is_layer(best)), None)
    if other is not None and other not in close and other.cycles <= _ratio_to(other) * best.cycles:
        close.insert(1, other)
    if any(option.cycles > LAYER_WORTH * best.cycles for option in close):
        return tuple(close)
    return tuple(sorted(close, key=_is_layer))  # what is not tried is done by smaller instructions, priced the nearer


def _further_options(ranked: Sequence[TilingOption], close: Sequence[TilingOption]) -> tuple[TilingOption, ...]:
    """The options worth a trial besides the ``close`` ones, if these turn out otherwise than their prices say.

    Those of the cheapest one's way, if the prices say little; those of the other way, if that is the faster, or priced
    at less than what is known of the cheapest.
    """
    best = ranked[0]
    own = [
        option
        for option in ranked[:_MOST_OPTIONS]
        if option not in close
        and option.cycles <= _FURTHER_RATIO * best.cycles
        and _is_layer(option) == _is_layer(best)
    ]
    others = [option for option in ranked if _is_layer(option) != _is_layer(best)][:_MAX_OPTIONS]
    near = [each for each in others if each not in close and each.cycles <= _CLOSE_RATIO * others[0].cycles]
    return *own, *near


def _ratio_to(other: TilingOption) -> float:
    """How much more than the cheapest an option of the other way may cost that is worth a trial."""
    return LAYER_WORTH if _is_layer(other) else _SMALLER_RATIO


def _is_layer(option: TilingOption) -> bool:
    """Whether an instruction as large as a layer does it."""
    return bool(option.region.tiling.layer)


@dataclass
class _LayerOptions:
    """The options of so many equal ``layers``, and the cycles of those tried so far.

    ``further`` ones are taken if these are in doubt; ``cheapest`` is so by its price.
    """

    options: tuple[TilingOption, ...]
    layers: int
    further: tuple[TilingOption, ...]
    cheapest: TilingOption
    known: list[int] = field(default_factory=list)
    given_up: bool = False

    def __post_init__(self) -> None:
        self._places = self.options + self.further

    def gain(self) -> float:
        """Cycles that trying one more option may win, if the first's estimate is as far off as they are."""
        untried = self.options[max(1, len(self.known)) :]
        if self.given_up or not untried:
            return 0
        now = min(self.known) if self.known else _CLOSE_RATIO * self.options[0].cycles
        return self.layers * (now - self._hoped_of(untried[0]))

    def _hoped_of(self, option: TilingOption) -> float:
        """The cycles that an option may take: less than its price of another way, whose prices say little of it."""
        if self.known and self._other_way_is_faster() and _is_layer(option) == _is_layer(self._best):
            return option.cycles * min(self.known) / self._best.cycles / _CLOSE_RATIO
        if _is_layer(option) == _is_layer(self.options[0]):
            return option.cycles
        return option.cycles * _CLOSE_RATIO / _ratio_to(option)

    def _other_way_is_faster(self) -> bool:
        return _is_layer(self._best) != _is_layer(self.cheapest)

    def take_further(self) -> bool:
        """Add the further options, where all others are tried and say little by their prices; returns if there are."""
        if self.given_up or not self.known or len(self.known) < len(self.options):
            return False
        others = [option for option in self.further if _is_layer(option) != _is_layer(self.cheapest)]
        if self._other_way_is_faster() or any(min(self.known) > _CLOSE_RATIO * option.cycles for option in others):
            taken = others
        elif self.known[0] > _DOUBT * self.options[0].cycles:
            taken = [option for option in self.further if _is_layer(option) == _is_layer(self.cheapest)]
        else:
            return False
        self.options = self.options + tuple(taken)
        self.further = tuple(option for option in self.further if option not in taken)
        return bool(taken)

    def urgency(self) -> tuple[bool, float]:
        """What is tried first is greater: options of which one is known, as it says nothing by itself, then gains."""
        return bool(self.known), self.gain()

    def next_ones(self, most: int) -> list[Region]:
        """The regions to try next."""
        return [option.region for option in self.options[len(self.known) :][:most]]

    def learn(self, cycles: int | None) -> None:
        """Take the cycles of the next option; where those of the first cannot be said the estimate decides."""
        if cycles is None and not self.known:
            self.given_up = True
        else:
            self.known.append(_NEVER if cycles is None else cycles)

    @property
    def _best(self) -> TilingOption:
        """The fastest, as far as is known."""
        return self.options[0 if self.given_up or not self.known else self.known.index(min(self.known))]

    @property
    def best_place(self) -> int:
        """The place of the fastest among those close and those further."""
        return self._places.index(self._best)
