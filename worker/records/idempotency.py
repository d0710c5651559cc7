"""Idempotent submissions: the job that belongs to an ``Idempotency-Key``, in the store.

``idempotency/<window>/<owner>/<key>/<n>/begun.json`` is created by the first request with the key, and says which job
it is about to make; ``settled.json`` beside it is created once the job is accepted, or was withdrawn. A request that
finds ``begun.json`` alone continues with the same job, even concurrently, since each object of a job is created once:
no request waits for another, and none depends on a process that died.

A window is as long as a key is good for. A key is looked for in this one and the one before; older ones are removed.
"""

import hashlib
import itertools
import time
from collections.abc import Callable
from typing import NamedTuple

import pydantic

from worker.records.job_store import Jobs
from worker.storage.identifiers import owner_digest
from worker.storage.object_store import Store

FOLDER = "idempotency"


class KeyReusedError(Exception):
    """The key came with another request before."""


class Proposal(NamedTuple):
    """The job that a request is about to create, or a cached one with the same result."""

    job: str
    cached: bool


class SubmissionOutcome(NamedTuple):
    """The job of a request; ``replayed`` says that an earlier request with the same key created it."""

    job: str
    cached: bool = False
    replayed: bool = False


class _Begun(pydantic.BaseModel):
    request: str  # its digest
    job: str
    cached: bool
    created: float  # seconds since 1970


class _Completed(pydantic.BaseModel):
    accepted: bool


Withdraw = Callable[[str], bool]


class Idempotency:
    """The keys that were used.

    Args:
        store: the store.
        jobs: the jobs of everybody.
        seconds: how long a key is good for.
        clock: seconds since 1970.
    """

    def __init__(self, store: Store, jobs: Jobs, seconds: int, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._jobs = jobs
        self._seconds = seconds
        self._clock = clock

    def once(
        self, owner: str, key: str, request: str, begin: Callable[[], Proposal], accept: Callable[[str, Withdraw], None]
    ) -> SubmissionOutcome:
        """Returns the job of all requests with this key, and creates it if this is the first.

        Args:
            owner: the owner of the key.
            key: any text.
            request: digest of what is asked.
            begin: proposes the job of a new request. If it raises, the key stays unused.
            accept: creates the job of this id, or the missing part of it. If it fails once the job may run, it calls
                its second argument, which returns False if the job is accepted nevertheless.

        Raises:
            KeyReusedError: the key came with another request.
        """
        window = int(self._clock() // self._seconds)
        name = f"{owner_digest(owner)}/{hashlib.sha256(key.encode()).hexdigest()}"
        before = f"{self._window(window - 1)}/{name}"
        for number in itertools.count(1):
            begun = self._read_beginning(f"{before}/{number}")
            if begun is None:
                break
            alive = begun.created + self._seconds > self._clock()
            if alive and (done := self._resume(f"{before}/{number}", begun, request, accept, ours=False)):
                return done
        for number in itertools.count(1):
            home = f"{self._window(window)}/{name}/{number}"
            begun, ours = self._begin(home, request, begin)
            if done := self._resume(home, begun, request, accept, ours=ours):
                return done
        raise AssertionError

    def _window(self, number: int) -> str:
        return f"{FOLDER}/{self._seconds}-{number}"

    def _read_beginning(self, home: str) -> _Begun | None:
        try:
            return _Begun.model_validate_json(self._store.read(f"{home}/begun.json"))
        except FileNotFoundError:
            return None

    def _begin(self, home: str, request: str, begin: Callable[[], Proposal]) -> tuple[_Begun, bool]:
        """Returns the beginning, and whether this request created it."""
        if begun := self._read_beginning(home):
            return begun, False
        proposal = begin()
        ours = _Begun(request=request, created=self._clock(), **proposal._asdict())
        if self._store.create(f"{home}/begun.json", ours.model_dump_json().encode()):
            return ours, True
        begun = self._read_beginning(home)
        assert begun is not None  # they go with their window
        return begun, False

    def _resume(
        self, home: str, begun: _Begun, request: str, accept: Callable[[str, Withdraw], None], *, ours: bool
    ) -> SubmissionOutcome | None:
        """Completes a beginning and returns its outcome; None if it was withdrawn or its job has been deleted."""
        settled = self._read_completion(home)
        if settled is None and begun.request == request:
            if not begun.cached:
                accept(begun.job, lambda job: self._withdraw(home, job))
            settled = self._complete(home, accepted=True)
        if settled is not None and not settled.accepted:
            self._jobs.withdraw(begun.job)  # who has said so may have died before this
            return None
        if settled is not None and not self._jobs.recorded(begun.job):
            return None
        if begun.request != request:
            raise KeyReusedError
        return SubmissionOutcome(begun.job, cached=begun.cached, replayed=not ours)

    def _read_completion(self, home: str) -> _Completed | None:
        try:
            return _Completed.model_validate_json(self._store.read(f"{home}/settled.json"))
        except FileNotFoundError:
            return None

    def _complete(self, home: str, *, accepted: bool) -> _Completed:
        """Records whether the job was accepted, unless that is recorded, and returns the record."""
        settled = _Completed(accepted=accepted)
        if self._store.create(f"{home}/settled.json", settled.model_dump_json().encode()):
            return settled
        return _Completed.model_validate_json(self._store.read(f"{home}/settled.json"))

    def _withdraw(self, home: str, job: str) -> bool:
        """Withdraws the job and returns True, unless its acceptance has been recorded."""
        if self._complete(home, accepted=False).accepted:
            return False
        self._jobs.withdraw(job)
        return True


def expired_keys(store: Store, now: float) -> list[str]:
    """Returns the objects of one window that is no longer read; none if there is no such window."""
    for window in store.folders(FOLDER):
        seconds, number = map(int, window.split("-"))
        if (number + 2) * seconds <= now:
            return list(store.sizes(f"{FOLDER}/{window}"))
    return []
