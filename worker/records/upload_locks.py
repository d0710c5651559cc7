"""Locks of uploads: a submission and a deletion each write a marker into the store, and then look for the other's.

A submission creates ``uses/<kind>/<digest>/<owner>/<job>/<stamp>`` for each upload that its job needs, and then looks
for ``erasing/<kind>/<digest>/<stamp>``, and whether the upload exists; only then the job is recorded. A deletion does
the reverse (``worker/retention/deletion.py``). Whichever of the two looks last sees the other, so that no job is
accepted without its uploads. The locks of a job stay until it is deleted. An upload holds a lock while it is stored.

A stamp begins with its creation time. Its creator relies on it for 15 seconds at most; if it is older than five
minutes and its job is not recorded, its process is taken for dead.
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Literal, NamedTuple

from worker.examples import is_example
from worker.records.job_record import Job
from worker.records.job_request import JobRequest
from worker.storage.identifiers import age, new_id, owner_digest
from worker.storage.object_store import Store

UploadKind = Literal["models", "programs", "tensors", "accelerators"]
LOCKS, DELETIONS = "uses", "erasing"
LOCK_SECONDS = 15.0
_DEAD_AFTER = 300.0
_WAIT = 2.0
_LOOK_EVERY = 0.05


class BeingDeletedError(Exception):
    """The upload is being deleted."""


class MissingUploadError(Exception):
    """The upload does not exist, or has been deleted."""

    def __init__(self, upload: "UploadName") -> None:
        super().__init__(f"there is none of {upload.kind} {upload.digest}")
        self.upload = upload


class UploadName(NamedTuple):
    """An upload of a kind."""

    kind: UploadKind
    digest: str

    @property
    def locks_folder(self) -> str:
        """The folder of its locks."""
        return f"{LOCKS}/{self.kind}/{self.digest}"

    @property
    def deletions_folder(self) -> str:
        """The folder of markers of its deletion."""
        return f"{DELETIONS}/{self.kind}/{self.digest}"

    @property
    def document(self) -> str:
        """The key of the object that exists if and only if the upload does."""
        name = "document.json" if self.kind == "accelerators" else "info.json"
        return f"{self.kind}/{self.digest}/{name}"


class UploadLock:
    """The locks that one submission, or one upload, holds."""

    def __init__(self, store: Store, keys: list[str], begun: float) -> None:
        self._store = store
        self._keys = keys
        self._begun = begun

    def write(self) -> None:
        """Writes the locks."""
        for key in self._keys:
            self._store.create(key, b"")

    def is_valid(self) -> bool:
        """Returns whether deletions still respect the locks."""
        return time.monotonic() - self._begun < LOCK_SECONDS

    def release(self) -> None:
        """Removes the locks."""
        for key in self._keys:
            self._store.delete(key)


class UploadLocks:
    """The upload locks of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def acquire(self, job_id: str, request: JobRequest, owner: str) -> UploadLock:
        """Locks all uploads that the job needs, before it is recorded.

        Raises:
            BeingDeletedError: an upload is being deleted.
            MissingUploadError: an upload does not exist.
        """
        lock = self._acquire(needed_uploads(request), f"{owner_digest(owner)}/{job_id}")
        missing = [upload for upload in needed_uploads(request) if not self._store.exists(upload.document)]
        if missing:
            lock.release()
            raise MissingUploadError(missing[0])
        return lock

    @contextlib.contextmanager
    def during_upload(self, upload: UploadName) -> Iterator[UploadLock]:
        """Prevents a deletion of the upload inside the context.

        Raises:
            BeingDeletedError: a deletion has begun already.
        """
        lock = self._acquire([upload], "arriving/upload")
        try:
            yield lock
        finally:
            lock.release()

    def _acquire(self, uploads: list[UploadName], user: str) -> UploadLock:
        deadline = time.monotonic() + _WAIT
        while True:
            lock = UploadLock(
                self._store, [f"{each.locks_folder}/{user}/{new_id()}" for each in uploads], time.monotonic()
            )
            lock.write()
            if not self._any_deletion(uploads):
                return lock
            lock.release()
            if time.monotonic() > deadline:
                raise BeingDeletedError
            time.sleep(_LOOK_EVERY)

    def _any_deletion(self, uploads: list[UploadName]) -> bool:
        folders = tuple(f"{each.deletions_folder}/" for each in uploads)
        return bool(uploads) and any(key.startswith(folders) for key in self._store.keys(DELETIONS))

    def release_of_job(self, job: Job) -> None:
        """Removes the locks of a job that is being deleted."""
        for upload in needed_uploads(job):
            self._store.delete_all(self._store.keys(f"{upload.locks_folder}/{owner_digest(job.owner)}/{job.id}"))


def needed_uploads(request: JobRequest | Job) -> list[UploadName]:
    """Returns the uploads that a request names, without presets and examples, which always exist."""
    named: list[tuple[UploadKind, str | None]] = [
        ("models", request.model),
        ("programs", request.program),
        ("tensors", request.options.inputs),
        ("tensors", request.options.calibration),
        ("accelerators", request.accelerator if len(request.accelerator or "") == 64 else None),
    ]
    return [
        UploadName(kind, digest)
        for kind, digest in dict.fromkeys(named)
        if digest is not None and not is_example(kind, digest)
    ]


def is_abandoned(stamp: str) -> bool:
    """Returns whether the stamp is so old that its process has ended or died."""
    return age(stamp) > _DEAD_AFTER
