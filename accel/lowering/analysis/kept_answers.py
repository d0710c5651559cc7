"""Answers that depend on no time of a document, kept for other jobs.

Those on what an accelerator can do depend on no size either, and are kept each by itself. All that a job asks while it
chooses regions, its candidates that fit and the words that it times among it, is kept together as well, with the job's
program: one that differs in time alone finds all of it at once.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from pydantic import TypeAdapter

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.util.content_cache import SealedCache, cache_key

MOST_BYTES = 16 << 20
"""Of all answers of a job: beyond that they are not kept together."""

_LENGTHS = TypeAdapter(dict[str, int])
_LENGTH = 8  # bytes of the header's length


@dataclass(frozen=True)
class GivenAnswer:
    """An answer that was given anew; ``sizeless``: it depends on no size of the document."""

    question: str
    answer: bytes
    sizeless: bool


class KeptAnswers:
    """The answers about an accelerator in a cache; without one each is given anew.

    Attributes:
        cache: where they are, of the job's owner alone.
        asked_anew: whether there are answers that were not recalled.
        given: those that neither the cache nor an earlier job had.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self.cache = SealedCache(None)
        self.asked_anew = False
        self.given: list[GivenAnswer] = []
        self._accelerator = accelerator
        self._answers: dict[str, bytes] = {}

    def ask(self, question: str, answer: Callable[[], bytes]) -> bytes:
        """Returns the answer of an earlier job on the same question, or else what ``answer`` returns.

        It depends on no time and no size of the document.
        """
        known = self.find(question)
        if known is None:
            known = self.cache.get(self._key(question))
            if known is None:
                known = answer()
                self.take([GivenAnswer(question, known, sizeless=True)])
            else:
                self._know(question, known)
        return known

    def find(self, question: str) -> bytes | None:
        """Returns the answer of this job, or of one that is :meth:`recalled <recall>`; None if neither has it."""
        return self._answers.get(_digest(question))

    def note(self, question: str, answer: bytes) -> None:
        """Notes an answer, which depends on no time of the document, but on its sizes."""
        self.take([GivenAnswer(question, answer, sizeless=False)])

    def take(self, given: Iterable[GivenAnswer]) -> None:
        """Takes answers that were given anew, here or in another process of the job."""
        for each in given:
            if each.sizeless:
                self.cache.put(self._key(each.question), each.answer)
            self._know(each.question, each.answer)
            self.given.append(each)

    def dump(self) -> bytes | None:
        """Returns all answers; None if they are too many."""
        header = _LENGTHS.dump_json({key: len(answer) for key, answer in self._answers.items()})
        data = b"".join([len(header).to_bytes(_LENGTH, "little"), header, *self._answers.values()])
        return data if len(data) <= MOST_BYTES else None

    def recall(self, dump: bytes) -> None:
        """Takes the answers of an earlier job, on the same document but for times.

        Raises:
            ValueError: it is no dump.
        """
        at = _LENGTH + int.from_bytes(dump[:_LENGTH], "little")
        for key, length in _LENGTHS.validate_json(dump[_LENGTH:at]).items():
            self._answers[key], at = dump[at : at + length], at + length

    def _know(self, question: str, answer: bytes) -> None:
        self._answers[_digest(question)] = answer
        self.asked_anew = True

    def _key(self, question: str) -> str:
        return cache_key("answer", self._document, question)

    @cached_property
    def _document(self) -> str:
        return cache_key("document", self._accelerator.unsized().model_dump_json())


def _digest(question: str) -> str:
    return hashlib.sha256(question.encode()).hexdigest()


def kept_answers(target: Target) -> KeptAnswers:
    """Returns the kept answers of a target, for :meth:`Target.derived`."""
    return KeptAnswers(target.accelerator)
