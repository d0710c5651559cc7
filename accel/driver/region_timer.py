"""Cycles of a region alone, for autotuning."""

import numpy as np

from accel.accelerator.target import Target
from accel.errors import CyclopsError
from accel.isa.decode import decode
from accel.isa.family import Family
from accel.isa.family_registry import family_of
from accel.lowering.codegen.region_lowering import LoweredRegion
from accel.lowering.ir.function_attributes import dump_region
from accel.lowering.pipeline import lower_region, region_words
from accel.region.kinds import Region
from accel.util.arrays import Words
from accel.util.content_cache import CacheStore, SealedCache, cache_key


class RegionTimer:
    """Times regions alone on an accelerator; what is known already is in a cache.

    Cycles are kept under the whole document. The words that they are of are kept under what lowering reads of it, so
    that a document which differs in time alone times them again.

    Attributes:
        lowered: the regions that were compiled for it, by their attribute, so that a job need not compile them again.

    Raises:
        InvalidAccelerator: its family is not installed.
    """

    def __init__(self, target: Target, cache: CacheStore | None = None) -> None:
        self.lowered: dict[str, LoweredRegion] = {}
        self._target, self._kept = target, SealedCache(cache)
        self._family = family_of(target.accelerator)
        self._document = target.accelerator.model_dump_json()
        self._untimed = target.accelerator.untimed().model_dump_json()

    def __call__(self, region: Region) -> int | None:
        """Returns the cycles of a region; None where they cannot be said."""
        key = cache_key("cycles", self._document, dump_region(region))
        known = self._kept.get(key)
        if known is not None and known.isdigit():
            return int(known)
        words = self._words(region)
        cycles = None if words is None else _cycles(words, self._target, self._family)
        if cycles is not None:
            self._kept.put(key, str(cycles).encode())
        return cycles

    def _words(self, region: Region) -> Words | None:
        """The words of a region as :func:`region_words` makes them, or as they were kept.

        None for a region that cannot be compiled: the stages will say why, if it is taken.
        """
        attribute, wide = dump_region(region), self._target.accelerator.word_bits // 64
        key = cache_key("words", self._untimed, attribute)
        known = self._kept.get(key)
        if known is not None and len(known) % (8 * wide) == 0:
            return np.frombuffer(known, "<u8").astype(np.uint64).reshape(-1, wide)
        try:
            lowered = lower_region(region, self._target)
        except CyclopsError:
            return None
        if lowered is None:
            return None
        self.lowered[attribute] = lowered
        words = region_words(lowered, self._target.accelerator)
        self._kept.put(key, words.astype("<u8").tobytes())
        return words


def _cycles(words: Words, target: Target, family: Family) -> int | None:
    """None for words that cannot be timed: the stages will say why, if the region is taken."""
    try:
        return family.time(decode(target.accelerator, words), {}).cycles
    except CyclopsError:
        return None
