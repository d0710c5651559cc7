"""Retention policy: deletes expired jobs, unused uploads and cache entries in small steps, never an upload in use.

A pass goes over the store once. The first process that may begin one, as a key in Redis says, does it alone.
"""

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import cast, get_args

from worker.config.settings import Settings
from worker.queue.job_queue import JobQueue
from worker.queue.rq_interface import as_text
from worker.records.idempotency import expired_keys
from worker.records.job_record import Job
from worker.records.job_store import Jobs
from worker.records.result_cache import FOLDER as RESULTS
from worker.records.result_cache import ResultCache
from worker.records.upload_locks import BeingDeletedError, UploadKind, UploadName
from worker.retention.deletion import Deleter, InUseError
from worker.storage.compiler_cache import FOLDER as CACHE
from worker.storage.identifiers import age
from worker.storage.object_store import Store

_log = logging.getLogger(__name__)
_STEP_SECONDS = 0.2
_AT_ONCE = 32
_DAY = 86400.0


class RetentionCollector:
    """Deletes from a store what the settings do not keep; ``jobs`` are of all owners."""

    def __init__(
        self, settings: Settings, store: Store, jobs: Jobs, results: ResultCache, deleter: Deleter, queue: JobQueue
    ) -> None:
        self._settings = settings
        self._store = store
        self._jobs = jobs
        self._results = results
        self._deleter = deleter
        self._queue = queue
        self._pass: Iterator[None] | None = None

    def step(self) -> None:
        """Continues the pass for a fifth of a second, or begins one if it is time.

        Raises:
            redis.RedisError: Redis is away.
            StoreUnavailableError: the store is away; the pass begins anew later.
        """
        if self._pass is None and self._may_begin():
            self._pass = self.full_pass()
        if self._pass is None:
            return
        deadline, going = time.monotonic() + _STEP_SECONDS, self._pass
        self._pass = None  # whatever is raised ends it
        for _ in going:
            if time.monotonic() > deadline:
                self._pass = going
                return

    def _may_begin(self) -> bool:
        key = f"cyclops:collector:{self._queue.rq.name}"
        return bool(self._queue.connection.set(key, b"", nx=True, ex=self._settings.collect_seconds))

    def full_pass(self) -> Iterator[None]:
        """Runs a whole pass; yields after each small step."""
        yield from self._deleter.resume_interrupted()
        yield from self._old_jobs()
        yield from self._leftovers()
        yield from self._unused_uploads()
        yield from self._orphaned_results()
        yield from self._old_cache()
        yield from self._expired_keys()

    def _old_jobs(self) -> Iterator[None]:
        keep = self._settings.keep_jobs_seconds
        if keep is None:
            return
        # a job ends after it was created, so that younger ones need not be looked at, nor listed
        old = takewhile(lambda job_id: age(job_id) > keep, self._jobs.oldest())
        while some := list(islice(old, _AT_ONCE)):
            for job in self._jobs.existing(some):
                if _ended_before(job, keep) and not job.pinned:
                    if self._deleter.delete_expired_job(job):
                        _log.info("job %s has expired", job.id)
                    yield
            yield

    def _leftovers(self) -> Iterator[None]:
        """Deletes the folders of withdrawn jobs, and files written after a job's deletion."""
        place = f"cyclops:collected:{self._queue.rq.name}"  # the job up to which all folders were those of records
        seen = as_text(cast("bytes | None", self._queue.connection.get(place)) or b"")
        old = takewhile(lambda job_id: age(job_id) >= _DAY, self._jobs.oldest(seen))
        while some := list(islice(old, _AT_ONCE)):
            for job_id in some:
                if not self._jobs.recorded(job_id) and not self._store.exists(f"open/{job_id}"):
                    self._store.delete_all(self._store.keys(f"jobs/{job_id}"))
                yield
            self._queue.connection.set(place, some[-1])

    def _unused_uploads(self) -> Iterator[None]:
        for kind in get_args(UploadKind):
            for digest in sorted({key.split("/")[1] for key in self._old_uploads(kind)}):
                try:
                    upload = UploadName(kind, digest)
                    if self._deleter.delete_unused_upload(upload, lambda each=upload: self._is_old(each)):  # type: ignore[misc]
                        _log.info("%s %s was needed by no job", kind, digest)
                except (InUseError, BeingDeletedError):
                    pass
                yield

    def _is_old(self, upload: UploadName) -> bool:
        return bool(self._old_uploads(f"{upload.kind}/{upload.digest}"))

    def _old_uploads(self, folder: str) -> list[str]:
        """Returns the documents that have expired, and old blobs without a document, which were never accepted."""
        keep = self._settings.keep_uploads_seconds
        found = self._store.modified(folder)
        parents = {key.rsplit("/", 1)[0] for key in found if key.endswith(".json")}
        documents = {key: time for key, time in found.items() if key.endswith(".json")}
        orphans = {key: time for key, time in found.items() if key.rsplit("/", 1)[0] not in parents}
        old = [key for key, time in documents.items() if keep is not None and _since(time) > keep]
        return old + [key for key, time in orphans.items() if _since(time) > _DAY]

    def _orphaned_results(self) -> Iterator[None]:
        for key in self._store.keys(RESULTS):
            self._results.remove_if_orphaned(key)
            yield

    def _old_cache(self) -> Iterator[None]:
        keep = self._settings.keep_cache_seconds
        if keep is None:
            return
        old = iter([key for key, time in self._store.modified(CACHE).items() if _since(time) > keep])
        while some := list(islice(old, _AT_ONCE)):
            self._store.delete_all(some)
            yield

    def _expired_keys(self) -> Iterator[None]:
        while keys := expired_keys(self._store, time.time()):
            for some in (keys[begin : begin + _AT_ONCE] for begin in range(0, len(keys), _AT_ONCE)):
                self._store.delete_all(some)
                yield


def _ended_before(job: Job, seconds: float) -> bool:
    return job.finished is not None and _since(job.finished) > seconds


def _since(moment: datetime) -> float:
    return (datetime.now(UTC) - moment).total_seconds()
