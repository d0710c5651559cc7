"""Cycles of a region alone, for autotuning."""

import json

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.errors import CyclopsError
from accel.isa.decode import decode
from accel.isa.family import Family
from accel.isa.family_registry import arrangement_of, family_of
from accel.lowering.codegen.region_lowering import LoweredRegion
from accel.lowering.ir.function_attributes import buffer_extents, dump_region, fits
from accel.lowering.pipeline import TRIAL_INSTRUCTIONS, lower_region, region_words
from accel.region.kinds import AnyRegion
from accel.util.arrays import Words
from accel.util.content_cache import CacheStore, SealedCache, cache_key


class RegionTimer:
    """Times regions alone on an accelerator; what is known already is in a cache.

    Cycles are kept under the whole document. The words that they are of are kept under what lowering reads of it, so
    that a document which differs in time, or in sizes of memories, times them again.

    Attributes:
        lowered: the regions that were compiled for it, by their attribute, so that a job need not compile them again.
        spare: how many instructions more than usual it may time, of all regions that have more.

    Raises:
        InvalidAccelerator: its family is not installed.
    """

    def __init__(self, target: Target, cache: CacheStore | None = None, *, spare: int = 0) -> None:
        self.lowered: dict[str, LoweredRegion] = {}
        self.spare = spare
        self._target, self._kept = target, SealedCache(cache)
        self._family = family_of(target.accelerator)
        self._document = target.accelerator.model_dump_json()
        self._unsized = target.accelerator.unsized().model_dump_json()

    def __call__(self, region: AnyRegion) -> int | None:
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

    def _words(self, region: AnyRegion) -> Words | None:
        """The words of a region as :func:`region_words` makes them, or as they were kept.

        None for a region that cannot be compiled: the stages will say why, if it is taken.
        """
        attribute = dump_region(region)
        key = cache_key("words", self._unsized, attribute)
        known = self._kept.get(key)
        words = None if known is None else _load_words(known, self._target.accelerator)
        if words is not None:
            return words
        try:
            lowered = lower_region(region, self._target, TRIAL_INSTRUCTIONS + self.spare)
        except CyclopsError:
            return None
        if lowered is None:
            return None
        self.lowered[attribute] = lowered
        words = region_words(lowered, self._target.accelerator)
        self.spare -= max(len(words) - TRIAL_INSTRUCTIONS, 0)
        self._kept.put(key, _dump_words(words, lowered))
        return words


def _dump_words(words: Words, lowered: LoweredRegion) -> bytes:
    """An entry: a line that says what the region needs of each memory, and its words."""
    return json.dumps(buffer_extents(lowered.made.buffers)).encode() + b"\n" + words.astype("<u8").tobytes()


def _load_words(entry: bytes, accelerator: Accelerator) -> Words | None:
    """The words of an entry; None where the region does not fit into the memories, or these are no words of it."""
    needed, _, words = entry.partition(b"\n")
    wide = accelerator.word_bits // 64
    if len(words) % (8 * wide) or not fits(json.loads(needed), accelerator):
        return None
    return np.frombuffer(words, "<u8").astype(np.uint64).reshape(-1, wide)


def _cycles(words: Words, target: Target, family: Family) -> int | None:
    """None for words that cannot be timed: the stages will say why, if the region is taken."""
    try:
        arranged = arrangement_of(target.accelerator)
        return family.time(decode(target.accelerator, words if arranged is None else arranged(words)[0]), {}).cycles
    except CyclopsError:
        return None
