"""Jobs that were done once, found again by what they were asked: ``answers/<owner>/<key>`` names the last one.

The key is a digest of all that the result depends on, and that its report names: this version of Cyclops, those of the
libraries that compute figures, the file and the label of the document. So no entry is ever out of date. An entry is a
hint: whoever reads it looks at the job that it names. Entries of one owner are never another's.
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
    """The answers that a store has."""

    def __init__(self, store: Store, jobs: Jobs, accelerators: Accelerators) -> None:
        self._store = store
        self._jobs = jobs
        self._accelerators = accelerators

    def key(self, request: JobRequest | Job, owner: str) -> str:
        """The key in the store: the same for requests of an owner that have the same result.

        An accelerator counts by what its document says, and by the file and the label that the report names, not by its
        name. KeyError if there is none of this name or id.
        """
        options = request.options.model_dump(mode="json")
        options["host_nodes"] = sorted(set(options["host_nodes"]))
        document = {
            "format": FORMAT,
            "model": request.model,
            "program": request.program,
            "accelerator": request.accelerator and self._accelerators.digest(request.accelerator),
            "options": options,
            "document": self._document(request, owner).model_dump(),
            "versions": versions().model_dump(),
        }
        canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
        return f"{FOLDER}/{owner_digest(owner)}/{cache_key('answer', canonical)}"

    def _document(self, request: JobRequest | Job, owner: str) -> Document:
        """What the report names of an uploaded document; that of a job is as it was when it was submitted."""
        if request.accelerator in preset_names():  # the same for all who have this version
            return Document()
        if isinstance(request, Job):
            return request.document
        return self._accelerators.seen_by(owner).source(request.accelerator)

    def remember(self, job: Job) -> None:
        """Answer with this job, which has succeeded, from now on."""
        self._store.write(
            self.key(job, job.owner), _CachedResult(job=job.id, attempt=job.attempt or 0).model_dump_json().encode()
        )

    def forget(self, job: Job) -> None:
        """Do not answer with this job any more, which is erased; what another version wrote is left."""
        with contextlib.suppress(FileNotFoundError, KeyError):
            key = self.key(job, job.owner)
            if _CachedResult.model_validate_json(self._store.read(key)).job == job.id:
                self._store.delete(key)

    def collect(self, key: str) -> None:
        """Remove the entry if its job is gone."""
        with contextlib.suppress(FileNotFoundError):
            if not self._jobs.recorded(_CachedResult.model_validate_json(self._store.read(key)).job):
                self._store.delete(key)

    def find(self, request: JobRequest, owner: str) -> Job | None:
        """The job that answers the request: one of this owner that has succeeded and has its artifacts."""
        return self.read(self.key(request, owner), owner)

    def read(self, key: str, owner: str) -> Job | None:
        """The job that the entry names, if there is an entry and the job is still good for it."""
        try:
            answer = _CachedResult.model_validate_json(self._store.read(key))
            job, [manifest] = self._jobs.get_with(answer.job, manifest_key(answer.job, answer.attempt))
        except (FileNotFoundError, KeyError):
            return None
        good = job.state == "succeeded" and job.owner == owner and job.attempt == answer.attempt
        return job if good and manifest is not None else None
