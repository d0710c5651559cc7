"""The artifacts of a job, in the store under ``jobs/<id>/runs/<attempt>/``, and its trace, kept open for the next.

Each attempt publishes into a folder of its own, and its ``manifest.json`` last. The end of the job names the attempt
whose files are its artifacts; what others left is nothing. No manifest: no artifacts.
"""

import contextlib
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pydantic
from pydantic import Field

from accel.report.documents.memory_documents import MemoryPlan
from accel.report.documents.memory_occupancy import MemoryOccupancy, memory_occupancy
from accel.trace.byte_ranges import Ranges
from accel.trace.program_trace import Trace
from accel.trace.timeline import Timeline
from worker.records.job_record import Job
from worker.storage.object_store import Store

MEDIA_TYPES = {
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".txt": "text/plain; charset=utf-8",
    ".zip": "application/zip",
    ".npz": "application/octet-stream",
}
_MANIFEST = "manifest.json"


class Artifact(pydantic.BaseModel):
    """A file that a job left."""

    name: str = Field(examples=["tir/05-flatten.txt"])
    bytes: int
    sha256: str = Field(description="SHA-256 of its bytes; its ETag, in quotes")
    media_type: str


class Manifest(pydantic.BaseModel):
    """All files of an attempt, sorted by name."""

    artifacts: list[Artifact]


def publish(store: Store, job_id: str, attempt: int, files: Mapping[str, Path]) -> Manifest:
    """Stores the files by name, then their manifest, and returns it. The local files must not change afterwards."""
    home = _home(job_id, attempt)
    artifacts = []
    for name, path in files.items():
        if name == _MANIFEST:
            continue
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
        store.take_file(f"{home}/{name}", path)
        artifacts.append(Artifact(name=name, bytes=size, sha256=digest, media_type=media_type(name)))
    manifest = Manifest(artifacts=artifacts)
    store.write(manifest_key(job_id, attempt), manifest.model_dump_json().encode())
    return manifest


def discard(store: Store, job_id: str, attempt: int) -> None:
    """Deletes the artifacts of an attempt that is not the job's result."""
    store.delete(manifest_key(job_id, attempt))
    for key in store.sizes(_home(job_id, attempt)):
        store.delete(key)


class Artifacts:
    """The artifacts of one job, as its record names them: none before it has ended."""

    def __init__(self, store: Store, job: Job) -> None:
        self._store = store
        self._state = job.state
        self._home = _home(job.id, job.attempt or 0)
        self._artifacts = {item.name: item for item in _read(store, job).artifacts}

    def missing(self, what: str) -> str:
        """Returns a message: the file does not exist, and how the job ended if it did not succeed."""
        how = {"canceled": "was canceled, and has", "failed": "has failed, and has"}.get(self._state, "has")
        return f"the job {how} left no {what}"

    def all(self, folder: str = "") -> list[Artifact]:
        """Returns all artifacts, or those in a folder, sorted by name."""
        prefix = f"{folder}/" if folder else ""
        return [item for name, item in self._artifacts.items() if name.startswith(prefix)]

    def get(self, name: str) -> Artifact:
        """Returns the artifact.

        Raises:
            KeyError: no artifact has this name.
        """
        return self._artifacts[name]

    def stream(self, name: str, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Returns bytes ``[begin, end)`` of an existing artifact, in chunks."""
        return self._store.stream(f"{self._home}/{name}", begin, end)

    def read(self, name: str, begin: int, end: int) -> bytes:
        """Returns bytes ``[begin, end)`` of an existing artifact."""
        return self._store.read_range(f"{self._home}/{name}", begin, end)


def media_type(name: str) -> str:
    """Returns the media type of an artifact, by its name."""
    return MEDIA_TYPES.get(Path(name).suffix, "application/octet-stream")


def _read(store: Store, job: Job) -> Manifest:
    if not job.ended or job.attempt is None:
        return Manifest(artifacts=[])
    try:
        return Manifest.model_validate_json(store.read(manifest_key(job.id, job.attempt)))
    except FileNotFoundError:
        return Manifest(artifacts=[])


def _home(job_id: str, attempt: int) -> str:
    return f"jobs/{job_id}/runs/{attempt}"


def manifest_key(job_id: str, attempt: int) -> str:
    """Returns the store key of an attempt's manifest."""
    return f"{_home(job_id, attempt)}/{_MANIFEST}"


TRACE = "trace.npz"


class TraceCache:
    """Opens the traces of ended jobs, and keeps the last few open."""

    def __init__(self, *, keep: int = 16) -> None:
        self._keep = keep
        self._open: OrderedDict[str, Trace] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, job_id: str, artifacts: Artifacts) -> Trace:
        """Returns the trace of an ended job, opened or from the cache.

        Raises:
            KeyError: the job has no trace.
            CyclopsError: it is damaged, or of another version.
        """
        with self._lock:
            found = self._open.get(job_id)
        if found is None:
            size = artifacts.get(TRACE).bytes
            found = Trace.open(Ranges(lambda begin, end: artifacts.read(TRACE, begin, end), size))
        with self._lock:
            self._open[job_id] = found
            self._open.move_to_end(job_id)
            while len(self._open) > self._keep:
                self._open.popitem(last=False)
        return found


MEMORY_PLAN = "memory.json"
_MOST_PLAN = 8 << 20  # bytes of a memory plan that is parsed for somebody: thousands of layers


def read_memory_plan(artifacts: Artifacts) -> MemoryPlan | None:
    """Returns the memory plan; None if there is none, or one that is too large or of another version."""
    try:
        size = artifacts.get(MEMORY_PLAN).bytes
    except KeyError:
        return None
    if size > _MOST_PLAN:
        return None
    try:
        return MemoryPlan.model_validate_json(artifacts.read(MEMORY_PLAN, 0, size))
    except pydantic.ValidationError:
        return None


@dataclass(frozen=True)
class JobTimeline:
    """The timeline of a job, and the occupancy of its memories, of which nothing is known without a memory plan."""

    timeline: Timeline
    memories: tuple[MemoryOccupancy, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it takes."""
        return self.timeline.nbytes + sum(each.held.at.nbytes + each.held.value.nbytes for each in self.memories)


class TimelineCache:
    """Keeps the timelines of ended jobs that were looked at last, up to a number of bytes; the last one in any case."""

    def __init__(self, *, most_bytes: int = 1 << 28) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, JobTimeline] = OrderedDict()
        self._lock = threading.Lock()
        self._building = threading.Lock()

    def get(self, job_id: str, trace: Trace, artifacts: Artifacts) -> JobTimeline:
        """Returns the timeline of a job's trace, built or from the cache; one is built at a time.

        Raises:
            CyclopsError: the trace has no times, or is damaged.
        """
        with self._building if self._find(job_id) is None else contextlib.nullcontext():
            found = self._find(job_id) or _job_timeline(trace, artifacts)
        with self._lock:
            self._kept[job_id] = found
            self._kept.move_to_end(job_id)
            while len(self._kept) > 1 and sum(kept.nbytes for kept in self._kept.values()) > self._most_bytes:
                self._kept.popitem(last=False)
        return found

    def _find(self, job_id: str) -> JobTimeline | None:
        with self._lock:
            return self._kept.get(job_id)


def _job_timeline(trace: Trace, artifacts: Artifacts) -> JobTimeline:
    plan = read_memory_plan(artifacts)
    return JobTimeline(trace.timeline(), () if plan is None else memory_occupancy(plan))
