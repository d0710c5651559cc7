"""Result cache: the last succeeded job of a request, under ``answers/<owner>/<key>``.

The key is a digest of all that the result depends on, and that its report names: this version of Cyclops, those of the
libraries that compute figures, the file and the label of the document. So no entry is ever out of date. An entry is a
hint: readers check the job that it names. Each owner has separate entries.
"""

import contextlib
import json

import pydantic

from accel.catalog.load_accelerator import preset_names
from accel.report.provenance import versions
from accel.util.content_cache import cache_key
from worker.records.accelerator_store import Accelerators
from worker.records.job_artifacts import manifest_key
from worker.records.job_record import FORMAT, Document, Job
from worker.records.job_request import JobRequest
from worker.records.job_store import Jobs
from worker.storage.identifiers import owner_digest
from worker.storage.object_store import Store

FOLDER = "answers"


class _CachedResult(pydantic.BaseModel):
    job: str
    attempt: int


class ResultCache:
    """The result cache of a store."""

    def __init__(self, store: Store, jobs: Jobs, accelerators: Accelerators) -> None:
        self._store = store
        self._jobs = jobs
        self._accelerators = accelerators

    def key(self, request: JobRequest | Job, owner: str) -> str:
        """Returns the store key, which is equal for requests of one owner that have the same result.

        It contains the accelerator's document, file digest and label, but not its name.

        Raises:
            KeyError: no accelerator has this name or id.
        """
        options = request.options.model_dump(mode="json")
        options["host_nodes"] = sorted(set(options["host_nodes"]))
        document = {
            "format": FORMAT,
            "model": request.model,
            "program": request.program,
            "accelerator": request.accelerator and self._accelerators.digest(request.accelerator),
            "options": options,
            "document": self._document(request, owner).model_dump(exclude={"checked"}),
            "versions": versions().model_dump(),
        }
        canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
        return f"{FOLDER}/{owner_digest(owner)}/{cache_key('answer', canonical)}"

    def _document(self, request: JobRequest | Job, owner: str) -> Document:
        """Returns the uploaded document that the report names; of a job, as it was at submission."""
        if request.accelerator in preset_names():  # the same for all who have this version
            return Document()
        if isinstance(request, Job):
            return request.document
        return self._accelerators.seen_by(owner).source(request.accelerator)

    def put(self, job: Job) -> None:
        """Stores a succeeded job as the result of its request."""
        self._store.write(
            self.key(job, job.owner), _CachedResult(job=job.id, attempt=job.attempt or 0).model_dump_json().encode()
        )

    def remove(self, job: Job) -> None:
        """Removes the entry of a job that is being deleted; entries of other versions stay until they are orphaned."""
        with contextlib.suppress(FileNotFoundError, KeyError):
            key = self.key(job, job.owner)
            if _CachedResult.model_validate_json(self._store.read(key)).job == job.id:
                self._store.delete(key)

    def remove_if_orphaned(self, key: str) -> None:
        """Removes the entry if its job no longer exists."""
        with contextlib.suppress(FileNotFoundError):
            if not self._jobs.recorded(_CachedResult.model_validate_json(self._store.read(key)).job):
                self._store.delete(key)

    def find(self, request: JobRequest, owner: str) -> Job | None:
        """Returns the owner's succeeded job, with artifacts, that has the result of the request; None without one."""
        return self.read(self.key(request, owner), owner)

    def read(self, key: str, owner: str) -> Job | None:
        """Returns the job of an entry if both exist and the job still has its artifacts; else None."""
        try:
            entry = _CachedResult.model_validate_json(self._store.read(key))
            job, [manifest] = self._jobs.get_with(entry.job, manifest_key(entry.job, entry.attempt))
        except (FileNotFoundError, KeyError):
            return None
        good = job.state == "succeeded" and job.owner == owner and job.attempt == entry.attempt
        return job if good and manifest is not None else None
