"""Answers on what an accelerator can do that depend on no time of its document and on no size: kept for other jobs."""

from collections.abc import Callable
from functools import cached_property

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.util.content_cache import SealedCache, cache_key


class KeptAnswers:
    """The answers about an accelerator in a cache; without one each is given anew.

    Attributes:
        cache: where they are, of the job's owner alone.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self.cache = SealedCache(None)
        self._accelerator = accelerator

    def ask(self, question: str, answer: Callable[[], bytes]) -> bytes:
        """Returns the answer of an earlier job on the same question, or else what ``answer`` returns."""
        key = cache_key("answer", self._document, question)
        known = self.cache.get(key)
        if known is None:
            known = answer()
            self.cache.put(key, known)
        return known

    @cached_property
    def _document(self) -> str:
        return cache_key("document", self._accelerator.unsized().model_dump_json())


def kept_answers(target: Target) -> KeptAnswers:
    """Returns the kept answers of a target, for :meth:`Target.derived`."""
    return KeptAnswers(target.accelerator)
