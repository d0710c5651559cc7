"""Cycles of regions on one document, kept as one entry of a cache: a job asks for all of its trials at once."""

import hashlib
from functools import cached_property
from itertools import islice

from pydantic import TypeAdapter, ValidationError

from accel.accelerator.document import Accelerator
from accel.util.content_cache import CacheStore, SealedCache, cache_key

_MOST = 4096  # regions, of which the latest are kept
_CYCLES = TypeAdapter(dict[str, int])


class KeptCycles:
    """Cycles of regions by their attributes, as earlier jobs on the same document found them; none without a cache."""

    def __init__(self, accelerator: Accelerator, cache: CacheStore | None) -> None:
        self._accelerator, self._cache = accelerator, SealedCache(cache)
        self._learnt: dict[str, int] = {}

    def find(self, attribute: str) -> int | None:
        """Returns the cycles of a region; None if they are not known."""
        return self._known.get(_digest(attribute)) if self._cache.present else None

    def learn(self, attribute: str, cycles: int) -> None:
        """Takes the cycles of a region, for :meth:`keep`."""
        if self._cache.present:
            self._learnt[_digest(attribute)] = cycles

    def keep(self) -> None:
        """Keeps what was learnt, beside what was known; of two jobs at a time the later one's counts."""
        if self._learnt:
            known = self._known | self._learnt
            self._learnt = {}
            self._known = dict(islice(known.items(), max(len(known) - _MOST, 0), None))
            self._cache.put(self._key, _CYCLES.dump_json(self._known))

    @cached_property
    def _known(self) -> dict[str, int]:
        data = self._cache.get(self._key)
        try:
            return {} if data is None else _CYCLES.validate_json(data)
        except ValidationError:
            return {}

    @cached_property
    def _key(self) -> str:
        return cache_key("cycles", self._accelerator.model_dump_json())


def _digest(attribute: str) -> str:
    return hashlib.sha256(attribute.encode()).hexdigest()
