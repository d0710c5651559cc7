"""Cycles of a region alone, for autotuning."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.driver.helpers.lowering_assistant import LoweringAssistant
from accel.driver.trials.kept_cycles import KeptCycles
from accel.errors import CompileError, CyclopsError
from accel.isa.decode import decode
from accel.isa.family import Family
from accel.isa.family_registry import arrangement_of, family_of
from accel.lowering.analysis.kept_answers import kept_answers
from accel.lowering.codegen.like_regions import LikeRegions
from accel.lowering.codegen.region_cache import LoweredBeside, entered_region, load_entry, region_key
from accel.lowering.codegen.region_lowering import LoweredRegion
from accel.lowering.codegen.region_object import RegionObject, dump_object, load_object
from accel.lowering.ir.function_attributes import dump_region
from accel.lowering.pipeline import TRIAL_INSTRUCTIONS, lower_region, placed_anywhere
from accel.region.kinds import AnyRegion
from accel.util.arrays import Words
from accel.util.content_cache import CacheStore, SealedCache, cache_key

_BYTES = 8  # of an element of words
_Key = TypeVar("_Key")
_FEW = 1 << 13  # instructions whose words are noted beside what else a job asks


class RegionTimer:
    """Times regions alone on an accelerator; what is known already is in a cache.

    Cycles are kept under the whole document (:meth:`keep`). The code that they are of is kept under what lowering reads
    of it, so that a document which differs in time, or in sizes of memories, times it again.

    Attributes:
        lowered: the regions that were compiled for it, by their attribute, so that a job need not compile them again;
            those that another process compiled as it has them.
        spare: how many instructions more than usual it may time, of all regions that have more.

    Raises:
        InvalidAccelerator: its family is not installed.
    """

    def __init__(
        self,
        target: Target,
        cache: CacheStore | None = None,
        *,
        spare: int = 0,
        assistant: LoweringAssistant | None = None,
    ) -> None:
        self.lowered: dict[str, LoweredRegion | bytes] = {}
        self.spare = spare
        self._target, self._kept = target, SealedCache(cache)
        self._assistant = assistant
        self._expected: dict[str, Future[LoweredBeside]] = {}
        self._ahead: dict[str, Future[LoweredBeside]] = {}
        self._objects: dict[str, RegionObject] = {}
        self._like = LikeRegions(target)
        self._family = family_of(target.accelerator)
        self._answers, self._word_bytes = target.derived(kept_answers), target.accelerator.word_bits // 8
        self._cycles = KeptCycles(target.accelerator, cache)
        self._unsized = target.accelerator.unsized().model_dump_json()

    def __call__(self, region: AnyRegion) -> int | None:
        """Returns the cycles of a region; None where they cannot be said."""
        return self.times([region])[0]

    def times(self, regions: Sequence[AnyRegion], ahead: Sequence[AnyRegion] = ()) -> list[int | None]:
        """Returns the cycles of each region as :func:`__call__` does; every second one is lowered beside, if it can.

        So is one of those ``ahead``, which are likely to be asked for next, where nothing else is.
        """
        attributes = [dump_region(region) for region in regions]
        known = {place: self._cycles.find(attribute) for place, attribute in enumerate(attributes)}
        left = [place for place, cycles in known.items() if cycles is None]
        found = {place: self._known_words(attributes[place]) for place in left}
        found |= {place: self._like_words(attributes[place]) for place in left if found[place] is None}
        new = [place for place in left if found[place] is None]
        beside = {place: self._ahead.pop(attributes[place]) for place in new if attributes[place] in self._ahead}
        here = [place for place in new if place not in beside]
        beside |= self._lowered_beside({place: attributes[place] for place in here[1::2]})
        if here and not beside:
            self._begin_ahead(map(dump_region, ahead))
        with ThreadPoolExecutor(len(left) or 1, "trial") as pool:  # timing runs without Python's lock
            timing = {
                place: pool.submit(self._timed, attributes[place], words)
                for place, words in found.items()
                if words is not None
            }
            for place in sorted(new, key=beside.__contains__):  # those beside take as long, and need nobody meanwhile
                region, attribute = regions[place], attributes[place]
                words = (
                    self._words_beside(region, attribute, beside[place].result())
                    if place in beside
                    else self._lowered_here(region, attribute)
                )
                timing[place] = pool.submit(self._timed, attribute, words)
        return [each if place not in timing else timing[place].result() for place, each in known.items()]

    def keep(self) -> None:
        """Keeps the cycles that were timed; their code is kept already.

        What was lowered beside and not asked for is kept for later jobs, if it is there.
        """
        for attribute in [each for each, answer in self._ahead.items() if answer.done()]:
            answer = self._ahead.pop(attribute).result()
            if answer.entry is not None and answer.placed is not None:
                self._keep(attribute, answer.entry, answer.placed)
        self._cycles.keep()

    def object_of(self, region: AnyRegion) -> RegionObject | None:
        """Returns the object of a region, as the job or a cache has it, or lowered now; None where it cannot be."""
        attribute = dump_region(region)
        known = self._known_object(attribute)
        if known is not None:
            return known
        found: LoweredRegion | bytes | None = self._like.find(attribute) if attribute not in self._expected else None
        if found is None:
            found = self._lowered_for(region, attribute)
        if found is None:
            return None
        made = load_entry(found)[1] if isinstance(found, bytes) else found.made
        self.lowered[attribute], self._objects[attribute] = found, made
        self._kept.put(self._object_key(attribute), dump_object(made))
        return made

    def find_lowered(self, region: AnyRegion) -> LoweredRegion | bytes | None:
        """Returns a region that was timed as it was compiled; None where it was not, or cannot be.

        One of which the words alone are noted, as by another timer of the target, is compiled now.
        """
        attribute = dump_region(region)
        if attribute not in self.lowered and self._known_words(attribute) is not None:
            self.object_of(region)
        return self.lowered.get(attribute)

    def expect(self, regions: Sequence[AnyRegion], *, share: bool = False) -> None:
        """Begin to lower what :meth:`object_of` will be asked for, in another process if there is one.

        ``share``: every second one of these alone, as they are all asked for next.
        """
        if self._assistant is None:
            return
        attributes = dict.fromkeys(dump_region(region) for region in regions)
        new = [each for each in attributes if each not in self._expected and self._known_object(each) is None]
        for attribute in new[1::2] if share else new:
            if self._like.find(attribute) is None:
                self._expected[attribute] = self._assistant.lower(self._target, attribute, TRIAL_INSTRUCTIONS)

    def _known_object(self, attribute: str) -> RegionObject | None:
        """The object of a region that the job or a cache has."""
        if attribute not in self._objects:
            known = self.lowered.get(attribute)
            if known is not None:
                self._objects[attribute] = load_entry(known)[1] if isinstance(known, bytes) else known.made
            else:
                kept = _loaded(self._kept.get(self._object_key(attribute)), self._target.accelerator)
                if kept is None:
                    taken = self._taken(attribute)
                    if taken is None:
                        return None
                    self.lowered[attribute], kept = taken[0], taken[1].made
                self._objects[attribute] = kept
        return self._objects[attribute]

    def _object_key(self, attribute: str) -> str:
        return cache_key("object", self._unsized, attribute)

    def _lowered_for(self, region: AnyRegion, attribute: str) -> LoweredRegion | bytes | None:
        """A region as another process has lowered it, if it was to, or lowered here."""
        answer = self._expected[attribute].result() if attribute in self._expected else LoweredBeside(gone=True)
        if answer.gone:
            return self._lowered_anew(region, attribute, TRIAL_INSTRUCTIONS)
        if answer.entry is not None:
            self._like.add(attribute, partial(entered_region, attribute, answer.entry, self._target))
        return answer.entry

    def _lowered_beside(self, attributes: Mapping[_Key, str]) -> dict[_Key, Future[LoweredBeside]]:
        """Begin to lower regions in another process, if there is one."""
        if self._assistant is None:
            return {}
        lower, most = partial(self._assistant.lower, self._target, placed=True), TRIAL_INSTRUCTIONS + self.spare
        return {place: lower(attribute, most) for place, attribute in attributes.items()}

    def _begin_ahead(self, attributes: Iterable[str]) -> None:
        """Begin to lower the first of these that nothing is known of in another process, if there is one."""
        for attribute in attributes:
            known = self._cycles.find(attribute) is not None or self._known_words(attribute) is not None
            if not known and attribute not in self._ahead and not self._like.may_find(attribute):
                self._ahead |= self._lowered_beside({attribute: attribute})
                return

    def _timed(self, attribute: str, words: Words | None) -> int | None:
        """The cycles of a region's words; None where they cannot be said."""
        cycles = None if words is None else _cycles(words, self._target, self._family)
        if cycles is not None:
            self._cycles.learn(attribute, cycles)
        return cycles

    def _known_words(self, attribute: str) -> Words | None:
        noted = self._answers.find(f"words {attribute}")
        if noted is not None and len(noted) % self._word_bytes == 0:
            return np.frombuffer(noted, np.uint64).reshape(-1, self._word_bytes // _BYTES)
        known = self._kept.get(self._code_key(attribute))
        if known is None:
            return self._taken_words(attribute)
        words = _linked(known, self._target.accelerator)
        if words is not None:
            self._note(attribute, words)
        return words

    def _taken_words(self, attribute: str) -> Words | None:
        """The words of a region that an earlier job has taken without a trial; None if there is none."""
        taken = self._taken(attribute)
        if taken is None:
            return None
        entry, made = taken
        return self._keep(attribute, entry, dump_object(placed_anywhere(made)))

    def _taken(self, attribute: str) -> tuple[bytes, LoweredRegion] | None:
        """A region that an earlier job has taken, and its entry; None if there is none, or it lies otherwise."""
        entry = self._kept.get(region_key(self._unsized, attribute))
        try:
            taken = None if entry is None else entered_region(attribute, entry, self._target)
        except ValueError:
            return None
        if entry is None or taken is None or not taken.made.is_for(self._target.accelerator):
            return None
        return entry, taken

    def _note(self, attribute: str, words: Words) -> None:
        """Note the words of a region for jobs that differ from this one in time."""
        if len(words) <= _FEW:
            self._answers.note(f"words {attribute}", words.tobytes())

    def _code_key(self, attribute: str) -> str:
        return cache_key("code", self._unsized, attribute)

    def _lowered_here(self, region: AnyRegion, attribute: str) -> Words | None:
        """The words of a region as :func:`accel.lowering.pipeline.region_words` makes them.

        None for a region that cannot be compiled: the stages will say why, if it is taken.
        """
        lowered = self._lowered_anew(region, attribute, TRIAL_INSTRUCTIONS + self.spare)
        return None if lowered is None else self._keep(attribute, lowered, dump_object(placed_anywhere(lowered)))

    def _lowered_anew(self, region: AnyRegion, attribute: str, most: int) -> LoweredRegion | None:
        """A region of ``most`` instructions, which others may be like; None for one that cannot be compiled."""
        try:
            lowered = lower_region(region, self._target, most)
        except CyclopsError:
            return None
        if lowered is not None:
            self._like.add(attribute, lambda: lowered)
        return lowered

    def _like_words(self, attribute: str) -> Words | None:
        """The words of a region that is like one that was lowered; None if there is none."""
        found = self._like.find(attribute)
        if found is None:
            return None
        return self._keep(attribute, found, dump_object(placed_anywhere(found)))

    def _words_beside(self, region: AnyRegion, attribute: str, answer: LoweredBeside) -> Words | None:
        """The words of a region that was lowered beside, or, if the process is gone, here."""
        if answer.gone:
            return self._lowered_here(region, attribute)
        if answer.entry is None or answer.placed is None:
            return None
        self._like.add(attribute, partial(entered_region, attribute, answer.entry, self._target))
        return self._keep(attribute, answer.entry, answer.placed)

    def _keep(self, attribute: str, lowered: LoweredRegion | bytes, placed: bytes) -> Words | None:
        """Keep a region, and its object with tensors placed; returns the words of that."""
        words = _linked(placed, self._target.accelerator)
        if words is not None:
            self.lowered[attribute] = lowered
            self._note(attribute, words)
            self.spare -= max(len(words) - TRIAL_INSTRUCTIONS, 0)
            self._kept.put(self._code_key(attribute), placed)
        return words


def _loaded(kept: bytes | None, accelerator: Accelerator) -> RegionObject | None:
    """An object that was kept; None where there is none, or the region lies otherwise in the memories."""
    try:
        found = None if kept is None else load_object(kept)
    except ValueError:
        return None
    return None if found is None or not found.is_for(accelerator) else found


def _linked(placed: bytes, accelerator: Accelerator) -> Words | None:
    """The words of a region whose tensors are placed; None where the region lies otherwise in the memories."""
    try:
        region = load_object(placed)
        if not region.is_for(accelerator):
            return None
        words, _ = region.link([], accelerator)
    except (ValueError, CompileError):
        return None
    return words


def _cycles(words: Words, target: Target, family: Family) -> int | None:
    """None for words that cannot be timed: the stages will say why, if the region is taken."""
    try:
        arranged = arrangement_of(target.accelerator)
        return family.time(decode(target.accelerator, words if arranged is None else arranged(words)[0]), {}).cycles
    except CyclopsError:
        return None
