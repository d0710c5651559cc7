"""All jobs of a store: made, found, run, ended.

A job is a handful of documents (``worker/records/job_record.py``) and its attempts (:class:`Attempts`). An
object under ``open/`` marks the jobs that have not ended, so that finding them does not read all jobs.
"""

import contextlib
import copy
import logging
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Self, TypeVar

import pydantic
import redis

from worker.identity.ownership import Ownership
from worker.records.annotations import Annotations, annotation_objects
from worker.records.job_record import (
    FORMAT,
    LOCAL,
    Document,
    End,
    Job,
    Origin,
    Progress,
    Request,
    RequestFormat,
    Stage,
    Summary,
    assemble,
    assembled_or_none,
    documents,
    pin_key,
)
from worker.records.job_request import JobRequest
from worker.records.listing.job_index import JobIndex
from worker.records.problem_details import Problem, problem
from worker.storage.identifiers import new_id, utc_now
from worker.storage.object_store import Store

_log = logging.getLogger(__name__)
_ID = re.compile(r"[0-9a-f]{32}")
MOST_ATTEMPTS = 3
# seconds between a death and the next attempt: what kills processes may be over by then; after the last one none
_PAUSES = (1.0, 4.0)
_Document = TypeVar("_Document", bound=pydantic.BaseModel)


class Jobs:
    """The job records of a store: of all owners, or those visible to one owner (:meth:`seen_by`).

    Every change updates the index, if there is one.
    """

    def __init__(self, store: Store, index: JobIndex | None = None) -> None:
        self._store = store
        self._index = index
        self._running: tuple[str, int] | None = None
        self._owner: str | None = None
        self._shared: str | None = None

    def seen_by(self, owner: str, shared: str | None = None) -> Self:
        """Returns a view limited to the owner's jobs and the one that ``shared`` names."""
        seen = copy.copy(self)
        seen._owner, seen._shared = owner, shared  # noqa: SLF001 - it is our own class
        return seen

    def create(
        self,
        request: JobRequest,
        owner: str = LOCAL,
        job_id: str | None = None,
        origin: Origin | None = None,
        document: Document | None = None,
        annotations: Annotations | None = None,
    ) -> str:
        """Records an accepted job under ``job_id`` or a new id, and returns the id; existing objects are kept."""
        job_id = job_id or new_id()
        asked = request.model_dump(include=set(JobRequest.model_fields))
        record = Request(
            **asked,
            created=utc_now(),
            owner=owner,
            format=FORMAT,
            origin=origin or Origin(),
            document=document or Document(),
        )
        self._store.create(f"open/{job_id}", b"")
        Ownership(self._store, owner).add("jobs", job_id)
        for key, text in annotation_objects(job_id, annotations or Annotations()).items():
            if text is not None:
                self._store.create(key, text)
        self._store.create(f"jobs/{job_id}/request.json", record.model_dump_json().encode())
        self._try_update_index(job_id)
        return job_id

    def withdraw(self, job_id: str) -> bool:
        """Undoes :meth:`create` for a job that was not reported as accepted; returns False if it had ended before.

        Its end stays, so that no process that knows the id can end the job again.
        """
        if not self._end(job_id, End(state="withdrawn", finished=utc_now())):
            return False
        request = self._read(f"jobs/{job_id}/request.json", Request)
        if request is not None:
            Ownership(self._store, request.owner).remove("jobs", job_id)
        self._store.delete(f"jobs/{job_id}/request.json")
        return True

    def get(self, job_id: str) -> Job:
        """Returns the job's record.

        Raises:
            KeyError: the job does not exist or is not visible.
        """
        if not _ID.fullmatch(job_id):
            raise KeyError(job_id)
        return self.get_with(job_id)[0]

    def get_with(self, job_id: str, *keys: str) -> tuple[Job, list[bytes | None]]:
        """Returns the job's record and the objects under ``keys``, None for each missing one.

        Raises:
            KeyError: the job does not exist or is not visible.
        """
        own = documents(job_id)
        found = self._store.read_many([*own, *keys])
        job = assemble(job_id, *found[: len(own)])
        if not self._visible(job):
            raise KeyError(job_id)
        return job, found[len(own) :]

    def _visible(self, job: Job) -> bool:
        return self._owner in {None, job.owner} or job.id == self._shared

    def runnable(self, job_id: str) -> bool:
        """Returns whether the job exists, has not ended, and has a record format that this version reads."""
        if not _ID.fullmatch(job_id):
            return False
        request = self._read(f"jobs/{job_id}/request.json", RequestFormat)
        return request is not None and request.format <= FORMAT and not self.ended(job_id)

    def _read(self, key: str, document: type[_Document]) -> _Document | None:
        try:
            return document.model_validate_json(self._store.read(key))
        except FileNotFoundError:
            return None

    def ids(self) -> list[str]:
        """Returns the ids of all jobs, newest first."""
        ids = self._store.folders("jobs") if self._owner is None else Ownership(self._store, self._owner).all("jobs")
        return ids[::-1]

    def oldest(self, after: str = "") -> Iterator[str]:
        """Yields the ids of all owners' jobs after the id ``after``, oldest first."""
        return self._store.folders_after("jobs", after)

    def existing(self, job_ids: Iterable[str]) -> list[Job]:
        """Returns the records of those jobs that exist and are visible; unreadable records are skipped."""
        ids = [job_id for job_id in job_ids if _ID.fullmatch(job_id)]
        read = iter(self._store.read_many([key for job_id in ids for key in documents(job_id)]))
        found = [assembled_or_none(job_id, *(next(read) for _ in documents(job_id))) for job_id in ids]
        return [job for job in found if job is not None and self._visible(job)]

    def open_ids(self) -> list[str]:
        """Returns the ids of the jobs that may not have ended, oldest first."""
        return [key.removeprefix("open/") for key in self._store.sizes("open")]

    def from_request(self, job_id: str, request: bytes) -> Job:
        """Returns the record that the request alone gives, for a job that is being deleted."""
        return assemble(job_id, request, *(None for _ in documents(job_id)[1:]))

    def recorded(self, job_id: str) -> bool:
        """Returns whether the job has a request: False before its creation is complete, and after its withdrawal."""
        return self._store.exists(f"jobs/{job_id}/request.json")

    def close(self, job_id: str) -> None:
        """Removes an ended job from :meth:`open_ids`."""
        self._store.delete(f"open/{job_id}")

    def progress(self, job_id: str, attempt: int, started: datetime, stage: Stage | None) -> None:
        """Records that the attempt runs, and its stage."""
        record = Progress(attempt=attempt, started=started, stage=stage)
        self._store.write(f"jobs/{job_id}/progress.json", record.model_dump_json().encode())
        if self._running != (job_id, attempt) and self._try_update_index(job_id):
            self._running = (job_id, attempt)

    def wait_again(self, job_id: str) -> int | None:
        """Records that the running attempt died and the job waits for another; returns its number, None if none ran.

        The caller holds the job's lease, or held it: no attempt may begin meanwhile.
        """
        progress = self._read(f"jobs/{job_id}/progress.json", Progress)
        if progress is None:
            return None
        self._store.delete(f"jobs/{job_id}/progress.json")
        self._running = None
        self._try_update_index(job_id)
        return progress.attempt

    def ended(self, job_id: str) -> bool:
        """Returns whether the job has ended."""
        return self._store.exists(f"jobs/{job_id}/end.json")

    def succeed(self, job_id: str, attempt: int, result: Summary) -> bool:
        """Ends the job with its result and this attempt's artifacts; returns False if it had ended before."""
        return self._end(job_id, End(state="succeeded", finished=utc_now(), attempt=attempt, result=result))

    def fail(self, job_id: str, error: Problem, attempt: int | None = None) -> bool:
        """Ends the job with the problem and this attempt's artifacts; returns False if it had ended before."""
        return self._end(job_id, End(state="failed", finished=utc_now(), attempt=attempt, error=error))

    def cancel(self, job_id: str) -> bool:
        """Ends the job as canceled; returns False if it had ended before."""
        return self._end(job_id, End(state="canceled", finished=utc_now()))

    def _end(self, job_id: str, end: End) -> bool:
        created = self._store.create(f"jobs/{job_id}/end.json", end.model_dump_json().encode())
        if self._try_update_index(job_id):  # else the reconciler finds it in :meth:`open_ids`
            self.close(job_id)
        return created

    def annotate(self, job_id: str, annotations: Annotations) -> None:
        """Changes those annotations of the job that are set."""
        with self._changing(job_id):
            for key, text in annotation_objects(job_id, annotations).items():
                if text is None:
                    self._store.delete(key)
                else:
                    self._store.write(key, text)

    def pin(self, job_id: str) -> None:
        """Pins the job: it is kept beyond its retention time."""
        with self._changing(job_id):
            self._store.write(pin_key(job_id), b"")

    def unpin(self, job_id: str) -> None:
        """Removes the pin."""
        with self._changing(job_id):
            self._store.delete(pin_key(job_id))

    @contextlib.contextmanager
    def _changing(self, job_id: str) -> Iterator[None]:
        """Updates the index with what is changed inside.

        The job counts as open meanwhile, and as long as the index is away: the reconciler notes jobs that are.
        """
        self._store.create(f"open/{job_id}", b"")
        yield
        if not self._try_update_index(job_id):
            self._store.create(f"open/{job_id}", b"")  # another change may have been noted, and have closed the job

    def pinned(self, job_id: str) -> bool:
        """Returns whether the job is pinned."""
        return self._store.exists(pin_key(job_id))

    def update_index(self, job_id: str) -> None:
        """Updates the index with the job's record, and closes the job if it has ended.

        Raises:
            redis.RedisError: the index is away.
        """
        if self._index is None:
            return
        for job in self.put_into(self._index, [job_id]):
            if job.ended:
                self.close(job_id)
            return
        if not self.recorded(job_id):
            self._index.forget_open(job_id)

    def put_into(self, index: JobIndex, job_ids: Iterable[str]) -> list[Job]:
        """Puts the records of those jobs that exist into an index, and returns them.

        Raises:
            redis.RedisError: the index is away.
        """
        stamp = index.stamp()  # before they are read
        jobs = self.existing(job_ids)
        for job in jobs:
            index.put(job, stamp)
        return jobs

    def _try_update_index(self, job_id: str) -> bool:
        try:
            self.update_index(job_id)
        except redis.RedisError as error:
            _log.warning("job %s is not noted in the index: %s", job_id, error)
            return False
        return True


class Attempt(pydantic.BaseModel):
    """The host and worker that run a job, and the start time. ``token`` identifies the process."""

    started: datetime
    host: str
    worker: str
    token: str


class _Death(pydantic.BaseModel):
    seen: datetime
    reason: str


class Attempts:
    """The attempts of one job: which process began each, and how a dead process ended.

    The process that begins attempt ``n`` creates ``jobs/<job>/attempts/<n>.json``; a process that notices its death
    creates ``jobs/<job>/deaths/<n>.json``. Both are created once, so that two processes never share an attempt,
    whatever the queue says.
    """

    def __init__(self, store: Store, job_id: str) -> None:
        self._store = store
        self._home = f"jobs/{job_id}"

    def begin(self, attempt: Attempt) -> int | None:
        """Records the attempt and returns its number; None if all ``MOST_ATTEMPTS`` have been used."""
        data = attempt.model_dump_json().encode()
        for number in range(1, MOST_ATTEMPTS + 1):
            if self._store.create(f"{self._home}/attempts/{number}.json", data):
                return number
        return None

    def record_death(self, token: str, reason: str) -> float:
        """Records why the attempt of this token died, if it had begun; returns seconds until the job may run again."""
        pause = 0.0
        for number in self._numbers():
            if self._attempt(number).token == token:
                death = _Death(seen=utc_now(), reason=reason)
                self._store.create(f"{self._home}/deaths/{number}.json", death.model_dump_json().encode())
                pause = _PAUSES[number - 1] if number <= len(_PAUSES) else 0.0
        return pause

    def exhausted_problem(self) -> Problem:
        """Returns the problem of a job whose last attempt has died."""
        history = "; ".join(self._describe(number) for number in self._numbers())
        return problem("worker_lost", "The processes that ran the job died, each time.", history)

    def _numbers(self) -> list[int]:
        return sorted(int(key.rsplit("/", 1)[1].removesuffix(".json")) for key in self._keys())

    def _keys(self) -> list[str]:
        return list(self._store.sizes(f"{self._home}/attempts"))

    def _attempt(self, number: int) -> Attempt:
        return Attempt.model_validate_json(self._store.read(f"{self._home}/attempts/{number}.json"))

    def _describe(self, number: int) -> str:
        attempt = self._attempt(number)
        try:
            death = _Death.model_validate_json(self._store.read(f"{self._home}/deaths/{number}.json"))
            reason = death.reason
        except FileNotFoundError:
            reason = "no cause was recorded; its worker is gone"
        return f"attempt {number} on {attempt.host} at {attempt.started:%Y-%m-%d %H:%M:%S} UTC: {reason}"
