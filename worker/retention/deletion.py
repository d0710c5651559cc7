"""Erasing what nobody needs: ended jobs with all that they left, and uploads that no job names.

An upload is erased in these steps: create ``erasing/<kind>/<digest>/<stamp>``; see that there is no claim on it
(``worker/records/upload_locks.py``); remove its document, then its blob, then the note. A job: write
``erasing/jobs/<job>/<stamp>`` with its request, remove the request, so that it is there no more, then all the rest,
then the note. A process that dies in between leaves the note, by which :meth:`Eraser.finish` goes on.
"""

import contextlib
import time
from collections.abc import Callable, Iterator

import redis

from worker.identity.ownership import Ownership, UploadOwners, label_key, ownership_key
from worker.identity.share_links import ShareLinks, ShareTarget
from worker.records.job_index import JobIndex
from worker.records.job_record import Job
from worker.records.job_store import Jobs
from worker.records.result_cache import ResultCache
from worker.records.upload_locks import ERASING, LOCK_SECONDS, BeingDeletedError, UploadLocks, UploadName, is_abandoned
from worker.storage.identifiers import new_id, owner_digest
from worker.storage.object_store import Store
from worker.webhooks.deliveries import DeliveryOrders

_WAIT = 2.0
_LOOK_EVERY = 0.05
_JOBS = f"{ERASING}/jobs"


class InUseError(Exception):
    """A job needs the upload."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id)
        self.job_id = job_id


class Deleter:
    """Erases from a store; ``jobs`` and ``answers`` are those of everybody."""

    def __init__(self, store: Store, jobs: Jobs, answers: ResultCache, index: JobIndex) -> None:
        self._store = store
        self._jobs = jobs
        self._answers = answers
        self._index = index
        self._claims = UploadLocks(store)
        self._shares = ShareLinks(store)
        self._orders = DeliveryOrders(store)

    def job(self, job: Job) -> None:
        """Erase a job that has ended, and every file that it left."""
        with contextlib.suppress(FileNotFoundError):  # somebody else erases it
            self._erase(job, self._note_job(job))

    def expired_job(self, job: Job) -> bool:
        """Erase a job that has ended, unless it is pinned by now; gives whether it was erased."""
        begun = time.monotonic()
        with contextlib.suppress(FileNotFoundError):
            note = self._note_job(job)
            if self._jobs.pinned(job.id) or time.monotonic() - begun > LOCK_SECONDS:
                self._store.delete(note)
                return False
            self._erase(job, note)
        return True

    def pin(self, job: Job) -> bool:
        """Pin the job; False if it was erased meanwhile.

        Raises:
            BeingErasedError: it is being erased at this moment.
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

    def _note_job(self, job: Job) -> str:
        """Write that the job is being erased; gives the key."""
        note = f"{_JOBS}/{job.id}/{new_id()}"
        self._store.write(note, self._store.read(f"jobs/{job.id}/request.json"))
        return note

    def _erase(self, job: Job, note: str) -> None:
        self._store.delete(f"jobs/{job.id}/request.json")
        self._claims.drop(job)
        self._answers.forget(job)
        self._orders.erase(job.id)
        self._store.delete(f"open/{job.id}")
        Ownership(self._store, job.owner).remove("jobs", job.id)
        self._store.delete_all(self._store.keys(f"jobs/{job.id}"))
        with contextlib.suppress(redis.RedisError):  # whoever finds it in the index sees that it is not there
            self._index.remove(job)
        self._store.delete(note)

    def upload(self, upload: UploadName, owner: str) -> None:
        """Erase an owner's upload. What others have sent too stays for them.

        Raises:
            InUseError: a job of the owner needs it.
            BeingErasedError: something is being done with it at this moment.
        """
        with self._noted(upload) as delete:
            sender, senders = owner_digest(owner), self._senders(upload)
            shared = self._needed_by_others(upload, owner) or any(other != sender for other in senders.all())
            delete([key(sender, upload.kind, upload.digest) for key in (ownership_key, label_key)])
            senders.drop(sender)
            self._shares.revoke(ShareTarget(upload.kind, upload.digest), owner)
            if not shared:
                delete([upload.document, *self._store.keys(f"{upload.kind}/{upload.digest}")])
                senders.forget()

    def unused_upload(self, upload: UploadName, still: Callable[[], bool]) -> bool:
        """Erase an upload for all its owners if no job needs it, and it is ``still`` to be; gives whether it was.

        Raises:
            InUseError: a job needs it.
            BeingErasedError: something is being done with it at this moment.
        """
        with self._noted(upload) as delete:
            if self._needed_by_others(upload, None) or not still():
                return False
            delete([upload.document, *self._store.keys(f"{upload.kind}/{upload.digest}")])
            senders = self._senders(upload)
            delete(
                [
                    key(sender, upload.kind, upload.digest)
                    for sender in senders.all()
                    for key in (ownership_key, label_key)
                ]
            )
            senders.forget()
            self._shares.revoke(ShareTarget(upload.kind, upload.digest))
        return True

    @contextlib.contextmanager
    def _noted(self, upload: UploadName) -> Iterator[Callable[[list[str]], None]]:
        """Say inside the context that the upload is being erased; gives what removes objects as long as that counts."""
        begun, note = time.monotonic(), f"{upload.erasing}/{new_id()}"

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
        """Whether others need it too; waits until whatever is about to be needed is, or is not."""
        deadline = time.monotonic() + _WAIT
        own = upload.uses if owner is None else f"{upload.uses}/{owner_digest(owner)}"
        while True:
            pending = False
            for job_id, recorded in self._claims_on(own):
                if recorded:
                    raise InUseError(job_id)
                pending = True
            for _, recorded in self._claims_on(upload.uses, but=own):
                if recorded:
                    return True
                pending = True
            if not pending:
                return False
            if time.monotonic() > deadline:
                raise BeingDeletedError
            time.sleep(_LOOK_EVERY)

    def _claims_on(self, folder: str, but: str = "") -> Iterator[tuple[str, bool]]:
        """The jobs of the claims in a folder, and whether each is recorded. Claims of the dead are removed."""
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

    def _senders(self, upload: UploadName) -> UploadOwners:
        return UploadOwners(self._store, upload.kind, upload.digest)

    def finish(self) -> Iterator[None]:
        """Go on where processes died that erased something: a step for each item."""
        for note in self._store.sizes(ERASING):
            made = note.rsplit("/", 1)[-1]
            with contextlib.suppress(FileNotFoundError):  # whoever wrote it has come to the end
                if not note.startswith(f"{_JOBS}/"):
                    if is_abandoned(made):
                        self._store.delete(note)
                elif not self._jobs.recorded(job_id := note.split("/")[2]):
                    self._erase(self._jobs.erased(job_id, self._store.read(note)), note)
                elif is_abandoned(made):  # nothing has been removed yet
                    self._store.delete(note)
            yield
