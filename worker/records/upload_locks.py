"""Who is about to need an upload, and who is about to erase it: each says so in the store, and then looks.

A submission creates ``uses/<kind>/<digest>/<owner>/<job>/<stamp>`` for each upload that its job needs, and then looks
for ``erasing/<kind>/<digest>/<stamp>``, and whether the upload is there; only then the job is recorded. Who erases does
the reverse (``worker/retention/deletion.py``). Whichever of the two looks last sees the other, so that no job is
accepted without what it needs. The claims of a job stay until it is erased. An upload that arrives is a user too, for a
moment.

A stamp begins with the time at which it was made. Who made it acts on it for a quarter of a minute at most; who finds
it older than five minutes, and no job that is recorded, takes it for that of a process that died.
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Literal, NamedTuple

from worker.examples import example_id
from worker.records.job_record import Job
from worker.records.job_request import JobRequest
from worker.storage.identifiers import age, new_id, owner_digest
from worker.storage.object_store import Store

UploadKind = Literal["models", "programs", "tensors", "accelerators"]
USES, ERASING = "uses", "erasing"
LOCK_SECONDS = 15.0
_DEAD_AFTER = 300.0
_WAIT = 2.0
_LOOK_EVERY = 0.05


class BeingDeletedError(Exception):
    """The upload is being erased at this moment."""


class MissingUploadError(Exception):
    """There is no such upload (any more)."""

    def __init__(self, upload: "UploadName") -> None:
        super().__init__(f"there is none of {upload.kind} {upload.digest}")
        self.upload = upload


class UploadName(NamedTuple):
    """An upload of a kind."""

    kind: UploadKind
    digest: str

    @property
    def uses(self) -> str:
        """Folder of the claims on it."""
        return f"{USES}/{self.kind}/{self.digest}"

    @property
    def erasing(self) -> str:
        """Folder of the notes that it is being erased."""
        return f"{ERASING}/{self.kind}/{self.digest}"

    @property
    def document(self) -> str:
        """The object that is there if the upload is."""
        name = "document.json" if self.kind == "accelerators" else "info.json"
        return f"{self.kind}/{self.digest}/{name}"


class UploadLock:
    """What a submission, or an arriving upload, has said it needs."""

    def __init__(self, store: Store, keys: list[str], begun: float) -> None:
        self._store = store
        self._keys = keys
        self._begun = begun

    def say(self) -> None:
        """Write it."""
        for key in self._keys:
            self._store.create(key, b"")

    def counts(self) -> bool:
        """Whether the others still go by it."""
        return time.monotonic() - self._begun < LOCK_SECONDS

    def release(self) -> None:
        """Take it back."""
        for key in self._keys:
            self._store.delete(key)


class UploadLocks:
    """The claims of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def take(self, job_id: str, request: JobRequest, owner: str) -> UploadLock:
        """Claim all that the job needs, before it is recorded.

        Raises:
            BeingErasedError: one of them is being erased.
            MissingUploadError: one of them is not there.
        """
        claim = self._take(needed_uploads(request), f"{owner_digest(owner)}/{job_id}")
        missing = [upload for upload in needed_uploads(request) if not self._store.exists(upload.document)]
        if missing:
            claim.release()
            raise MissingUploadError(missing[0])
        return claim

    @contextlib.contextmanager
    def arriving(self, upload: UploadName) -> Iterator[UploadLock]:
        """Nobody begins to erase the upload inside the context.

        Raises:
            BeingErasedError: somebody has begun already.
        """
        claim = self._take([upload], "arriving/upload")
        try:
            yield claim
        finally:
            claim.release()

    def _take(self, uploads: list[UploadName], user: str) -> UploadLock:
        deadline = time.monotonic() + _WAIT
        while True:
            claim = UploadLock(self._store, [f"{each.uses}/{user}/{new_id()}" for each in uploads], time.monotonic())
            claim.say()
            if not self._any_erasing(uploads):
                return claim
            claim.release()
            if time.monotonic() > deadline:
                raise BeingDeletedError
            time.sleep(_LOOK_EVERY)

    def _any_erasing(self, uploads: list[UploadName]) -> bool:
        folders = tuple(f"{each.erasing}/" for each in uploads)
        return bool(uploads) and any(key.startswith(folders) for key in self._store.keys(ERASING))

    def drop(self, job: Job) -> None:
        """Take back the claims of a job that is erased."""
        for upload in needed_uploads(job):
            self._store.delete_all(self._store.keys(f"{upload.uses}/{owner_digest(job.owner)}/{job.id}"))


def needed_uploads(request: JobRequest | Job) -> list[UploadName]:
    """The uploads that a request names; a preset is none, and neither is an example, which is there in any case."""
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
        if digest is not None and digest != example_id(kind)
    ]


def is_abandoned(stamp: str) -> bool:
    """Whether the process that made the stamp is taken for dead, unless it came to its end."""
    return age(stamp) > _DEAD_AFTER
