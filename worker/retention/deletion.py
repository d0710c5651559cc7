"""Deletion of ended jobs with their artifacts, and of uploads that no job names.

An upload is deleted in these steps: create the marker ``erasing/<kind>/<digest>/<stamp>``; check that it has no lock
(``worker/records/upload_locks.py``); remove its document, then its blob, then the marker. A job: write the marker
``erasing/jobs/<job>/<stamp>`` with its request, remove the request, so that the job no longer exists, then all the
rest, then the marker. A process that dies in between leaves the marker, by which :meth:`Deleter.resume_interrupted`
continues.
"""

import contextlib
import time
from collections.abc import Callable, Iterator

import redis

from worker.identity.ownership import Ownership, UploadOwners, label_key, ownership_key
from worker.identity.share_links import ShareLinks, ShareTarget
from worker.records.job_record import Job
from worker.records.job_store import Jobs
from worker.records.listing.job_index import JobIndex
from worker.records.result_cache import ResultCache
from worker.records.upload_locks import (
    DELETIONS,
    LOCK_SECONDS,
    BeingDeletedError,
    UploadLocks,
    UploadName,
    is_abandoned,
)
from worker.storage.identifiers import new_id, owner_digest
from worker.storage.object_store import Store
from worker.webhooks.deliveries import DeliveryOrders

_WAIT = 2.0
_LOOK_EVERY = 0.05
_JOBS = f"{DELETIONS}/jobs"


class InUseError(Exception):
    """A job needs the upload."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id)
        self.job_id = job_id


class Deleter:
    """Deletes jobs and uploads of a store; ``jobs`` and ``results`` are of all owners."""

    def __init__(self, store: Store, jobs: Jobs, results: ResultCache, index: JobIndex) -> None:
        self._store = store
        self._jobs = jobs
        self._results = results
        self._index = index
        self._locks = UploadLocks(store)
        self._shares = ShareLinks(store)
        self._orders = DeliveryOrders(store)

    def delete_job(self, job: Job) -> None:
        """Deletes a job that has ended, with its artifacts."""
        with contextlib.suppress(FileNotFoundError):  # another process deletes it
            self._delete_job(job, self._write_note(job))

    def delete_expired_job(self, job: Job) -> bool:
        """Deletes a job that has ended, unless it is pinned by now; returns whether it was deleted."""
        begun = time.monotonic()
        with contextlib.suppress(FileNotFoundError):
            note = self._write_note(job)
            if self._jobs.pinned(job.id) or time.monotonic() - begun > LOCK_SECONDS:
                self._store.delete(note)
                return False
            self._delete_job(job, note)
        return True

    def pin_job(self, job: Job) -> bool:
        """Pins the job; returns False if it was deleted meanwhile.

        Raises:
            BeingDeletedError: the job is being deleted.
        """
        self._jobs.pin(job.id)
        deadline = time.monotonic() + _WAIT
        while self._store.sizes(f"{_JOBS}/{job.id}"):
            if time.monotonic() > deadline:
                raise BeingDeletedError
            time.sleep(_LOOK_EVERY)
        if self._jobs.recorded(job.id):
            return True
        self._jobs.unpin(job.id)
        return False

    def _write_note(self, job: Job) -> str:
        """Writes the marker of the job's deletion and returns its key."""
        note = f"{_JOBS}/{job.id}/{new_id()}"
        self._store.write(note, self._store.read(f"jobs/{job.id}/request.json"))
        return note

    def _delete_job(self, job: Job, note: str) -> None:
        self._store.delete(f"jobs/{job.id}/request.json")
        self._locks.release_of_job(job)
        self._results.remove(job)
        self._orders.remove_of_job(job.id)
        self._store.delete(f"open/{job.id}")
        Ownership(self._store, job.owner).remove("jobs", job.id)
        self._store.delete_all(self._store.keys(f"jobs/{job.id}"))
        with contextlib.suppress(redis.RedisError):  # whoever finds it in the index sees that it is not there
            self._index.remove(job)
        self._store.delete(note)

    def delete_upload(self, upload: UploadName, owner: str) -> None:
        """Deletes an owner's upload; if other owners have sent it too, it stays theirs.

        Raises:
            InUseError: a job of the owner needs it.
            BeingDeletedError: the upload is in use by another submission, upload or deletion.
        """
        with self._deleting(upload) as delete:
            sender, senders = owner_digest(owner), self._upload_owners(upload)
            shared = self._needed_by_others(upload, owner) or any(other != sender for other in senders.all())
            delete([key(sender, upload.kind, upload.digest) for key in (ownership_key, label_key)])
            senders.remove(sender)
            self._shares.revoke(ShareTarget(upload.kind, upload.digest), owner)
            if not shared:
                delete([upload.document, *self._store.keys(f"{upload.kind}/{upload.digest}")])
                senders.remove_all()

    def delete_unused_upload(self, upload: UploadName, still: Callable[[], bool]) -> bool:
        """Deletes an upload for all its owners if no job needs it and ``still()`` is true; returns whether it did.

        Raises:
            InUseError: a job needs it.
            BeingDeletedError: the upload is in use by another submission, upload or deletion.
        """
        with self._deleting(upload) as delete:
            if self._needed_by_others(upload, None) or not still():
                return False
            delete([upload.document, *self._store.keys(f"{upload.kind}/{upload.digest}")])
            senders = self._upload_owners(upload)
            delete(
                [
                    key(sender, upload.kind, upload.digest)
                    for sender in senders.all()
                    for key in (ownership_key, label_key)
                ]
            )
            senders.remove_all()
            self._shares.revoke(ShareTarget(upload.kind, upload.digest))
        return True

    @contextlib.contextmanager
    def _deleting(self, upload: UploadName) -> Iterator[Callable[[list[str]], None]]:
        """Marks the upload as being deleted; yields a function that deletes objects while the marker is valid."""
        begun, note = time.monotonic(), f"{upload.deletions_folder}/{new_id()}"

        def delete(keys: list[str]) -> None:
            for key in keys:
                if time.monotonic() - begun > LOCK_SECONDS:
                    raise BeingDeletedError
                self._store.delete(key)

        self._store.create(note, b"")
        try:
            yield delete
        finally:
            self._store.delete(note)

    def _needed_by_others(self, upload: UploadName, owner: str | None) -> bool:
        """Returns whether other owners need the upload; waits until every pending submission is recorded or gone."""
        deadline = time.monotonic() + _WAIT
        own = upload.locks_folder if owner is None else f"{upload.locks_folder}/{owner_digest(owner)}"
        while True:
            pending = False
            for job_id, recorded in self._locks_on(own):
                if recorded:
                    raise InUseError(job_id)
                pending = True
            for _, recorded in self._locks_on(upload.locks_folder, but=own):
                if recorded:
                    return True
                pending = True
            if not pending:
                return False
            if time.monotonic() > deadline:
                raise BeingDeletedError
            time.sleep(_LOOK_EVERY)

    def _locks_on(self, folder: str, but: str = "") -> Iterator[tuple[str, bool]]:
        """Yields the jobs of the locks in a folder, and whether each is recorded; removes locks of dead processes."""
        for key in self._store.keys(folder):
            job_id, made = key.split("/")[-2:]
            if but and key.startswith(f"{but}/"):
                continue
            if self._jobs.recorded(job_id):
                yield job_id, True
            elif is_abandoned(made):
                self._store.delete(key)
            else:
                yield job_id, False

    def _upload_owners(self, upload: UploadName) -> UploadOwners:
        return UploadOwners(self._store, upload.kind, upload.digest)

    def resume_interrupted(self) -> Iterator[None]:
        """Completes interrupted deletions: one step for each."""
        for note in self._store.sizes(DELETIONS):
            made = note.rsplit("/", 1)[-1]
            with contextlib.suppress(FileNotFoundError):  # the process that wrote it has completed it
                if not note.startswith(f"{_JOBS}/"):
                    if is_abandoned(made):
                        self._store.delete(note)
                elif not self._jobs.recorded(job_id := note.split("/")[2]):
                    self._delete_job(self._jobs.from_request(job_id, self._store.read(note)), note)
                elif is_abandoned(made):  # nothing has been removed yet
                    self._store.delete(note)
            yield
