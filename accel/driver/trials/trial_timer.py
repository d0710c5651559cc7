"""Cycles of regions for autotuning behind caches: of those too large to be timed whole, what parts of them say.

Prices know little of caches. Where there are none they are as near for large regions as parts are.
"""

import math
from collections.abc import Sequence

from accel.accelerator.target import Target
from accel.driver.launch_estimate import launch_cycles
from accel.driver.trials.region_timer import RegionTimer
from accel.isa.family import FindsInCaches
from accel.isa.family_registry import family_of
from accel.region.kinds import AnyRegion, Region
from accel.region.shapes import Convolution

_MOST_POINTS = 1 << 20  # of a region that is timed whole: what a mesh takes a cycle each for
_MOST_WITHOUT_PARTS = 1 << 21  # where parts would say nothing
_MOST_OF_PART = 1 << 22  # of a part: two of the largest tiles
_SPARE = 1 << 20  # instructions of parts of a region above those of a trial
_UNSEEN = 1.03  # of cycles by parts: they do not fill the caches, so that no lines written back are in the way of moves


class TrialTimer:
    """Times regions as ``timer`` does; behind caches by parts those that have too many instructions, or take too long.

    Parts find nothing in the caches, as a large launch finds next to nothing of its own but for weights: where these
    take more than half of a cache they are read again from behind it, which no part shows, and the price decides.
    """

    def __init__(self, timer: RegionTimer, target: Target) -> None:
        self._timer = timer
        family = family_of(target.accelerator)
        cold = family.cold(target.accelerator) if isinstance(family, FindsInCaches) else None
        self._cold = None if cold is None else Target(cold)
        self._weights = family.cache_bytes(target.accelerator) // 2 if isinstance(family, FindsInCaches) else 0

    def times(self, regions: Sequence[AnyRegion], ahead: Sequence[AnyRegion] = ()) -> list[int | None]:
        """Returns the cycles of each region; None where they cannot be said. Those ``ahead`` are likely to be next."""
        if self._cold is None:
            return self._timer.times(regions, ahead)
        whole = [
            place
            for place, region in enumerate(regions)
            if _points(region) <= (_MOST_WITHOUT_PARTS if self._weighs_much(region) else _MOST_POINTS)
        ]
        known = dict(zip(whole, self._timer.times([regions[place] for place in whole]), strict=True))
        return [
            self._by_parts(region, self._cold) if known.get(place) is None else known[place]
            for place, region in enumerate(regions)
        ]

    def _weighs_much(self, region: AnyRegion) -> bool:
        """Whether a region has more weights than parts of it can say anything of."""
        return self._cold is not None and _weights(region, self._cold) > self._weights

    def _by_parts(self, region: AnyRegion, cold: Target) -> int | None:
        if self._weighs_much(region):
            return None
        timer = RegionTimer(cold, spare=_SPARE)

        def timed(part: AnyRegion) -> int | None:
            return None if part is region or _points(part) > _MOST_OF_PART else timer(part)

        cycles = launch_cycles(region, timed)
        moves = isinstance(region, Region) and not region.tiling.layer
        return round(_UNSEEN * cycles) if cycles is not None and moves else cycles


def _points(region: AnyRegion) -> int:
    """Products of a region, each of a row of data and a tile of weights; 0 of what is no convolution."""
    conv = region.shape if isinstance(region, Region) else None
    if not isinstance(conv, Convolution):
        return 0
    pixels = conv.data.batch * conv.out_height * conv.out_width
    return pixels * math.prod(conv.kernel) * conv.reduced_blocks * conv.out_blocks


def _weights(region: AnyRegion, target: Target) -> int:
    """Bytes of a region's weights; 0 of what is no convolution."""
    conv = region.shape if isinstance(region, Region) else None
    if not isinstance(conv, Convolution):
        return 0
    return math.prod(conv.kernel) * conv.reduced_blocks * conv.out_blocks * math.prod(target.contraction.weights.shape)
