"""Prices of regions that are asked for once: regions of one key have the same."""

from collections.abc import Callable, Hashable, Sequence

from accel.region.kinds import AnyRegion, Prices


class KnownPrices:
    """Prices as they become known.

    Args:
        prices: the cycles of regions of which none is known.
        key: what regions of the same cycles have in common.
    """

    def __init__(self, prices: Prices, key: Callable[[AnyRegion], Hashable]) -> None:
        self._prices, self._key = prices, key
        self._cycles: dict[Hashable, int | None] = {}

    def __call__(self, regions: Sequence[AnyRegion]) -> list[int | None]:
        """Returns the cycles of regions, None where they cannot be said; new ones are asked for together."""
        keys = [self._key(region) for region in regions]
        new = {key: region for key, region in zip(keys, regions, strict=True) if key not in self._cycles}
        self._cycles |= dict(zip(new, self._prices(list(new.values())), strict=True)) if new else {}
        return [self._cycles[key] for key in keys]
