"""Requests that are sent twice and done once: what came of an ``Idempotency-Key``, in the store.

``idempotency/<window>/<owner>/<key>/<n>/begun.json`` is created by the first request with the key, and says which job
it is about to make; ``settled.json`` beside it is created once the job is accepted, or was withdrawn. Whoever finds a
beginning without its end goes on with the same job, be it at the same time: the job's own objects are created once. So
nobody waits for anybody, and a process that died in between is no obstacle.

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
    """The job that a request is about to make; or one that is there, and answers it."""

    job: str
    cached: bool


class SubmissionOutcome(NamedTuple):
    """The job that a request has; ``replayed``: one with the same key had it before."""

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
        """The job that the requests with this key have: made now, or before.

        Args:
            owner: whose key it is.
            key: any text.
            request: digest of what is asked.
            begin: what to do about a request that is new. What it raises leaves no trace of the key.
            accept: make the job of this id, or what is still missing of it. Where it fails once the job may run, it
                calls what it is given: False says that the job is accepted all the same.

        Raises:
            KeyReusedError: the key came with another request.
        """
        window = int(self._clock() // self._seconds)
        name = f"{owner_digest(owner)}/{hashlib.sha256(key.encode()).hexdigest()}"
        before = f"{self._window(window - 1)}/{name}"
        for number in itertools.count(1):
            begun = self._begun(f"{before}/{number}")
            if begun is None:
                break
            alive = begun.created + self._seconds > self._clock()
            if alive and (done := self._go_on(f"{before}/{number}", begun, request, accept, ours=False)):
                return done
        for number in itertools.count(1):
            home = f"{self._window(window)}/{name}/{number}"
            begun, ours = self._begin(home, request, begin)
            if done := self._go_on(home, begun, request, accept, ours=ours):
                return done
        raise AssertionError

    def _window(self, number: int) -> str:
        return f"{FOLDER}/{self._seconds}-{number}"

    def _begun(self, home: str) -> _Begun | None:
        try:
            return _Begun.model_validate_json(self._store.read(f"{home}/begun.json"))
        except FileNotFoundError:
            return None

    def _begin(self, home: str, request: str, begin: Callable[[], Proposal]) -> tuple[_Begun, bool]:
        """The beginning, and whether it is ours."""
        if begun := self._begun(home):
            return begun, False
        proposal = begin()
        ours = _Begun(request=request, created=self._clock(), **proposal._asdict())
        if self._store.create(f"{home}/begun.json", ours.model_dump_json().encode()):
            return ours, True
        begun = self._begun(home)
        assert begun is not None  # they go with their window
        return begun, False

    def _go_on(
        self, home: str, begun: _Begun, request: str, accept: Callable[[str, Withdraw], None], *, ours: bool
    ) -> SubmissionOutcome | None:
        """What came of a beginning, or comes of it now; None if it was withdrawn, or its job is erased."""
        settled = self._settled(home)
        if settled is None and begun.request == request:
            if not begun.cached:
                accept(begun.job, lambda job: self._withdraw(home, job))
            settled = self._settle(home, accepted=True)
        if settled is not None and not settled.accepted:
            self._jobs.withdraw(begun.job)  # who has said so may have died before this
            return None
        if settled is not None and not self._jobs.recorded(begun.job):
            return None
        if begun.request != request:
            raise KeyReusedError
        return SubmissionOutcome(begun.job, cached=begun.cached, replayed=not ours)

    def _settled(self, home: str) -> _Completed | None:
        try:
            return _Completed.model_validate_json(self._store.read(f"{home}/settled.json"))
        except FileNotFoundError:
            return None

    def _settle(self, home: str, *, accepted: bool) -> _Completed:
        """Say what came of it, unless somebody has; gives what is said."""
        settled = _Completed(accepted=accepted)
        if self._store.create(f"{home}/settled.json", settled.model_dump_json().encode()):
            return settled
        return _Completed.model_validate_json(self._store.read(f"{home}/settled.json"))

    def _withdraw(self, home: str, job: str) -> bool:
        """Withdraw the job, unless somebody was told that it is accepted."""
        if self._settle(home, accepted=False).accepted:
            return False
        self._jobs.withdraw(job)
        return True


def expired_keys(store: Store, now: float) -> list[str]:
    """The keys in the store of what nobody looks for any more, some of them."""
    for window in store.folders(FOLDER):
        seconds, number = map(int, window.split("-"))
        if (number + 2) * seconds <= now:
            return list(store.sizes(f"{FOLDER}/{window}"))
    return []
