"""The files that a job leaves, in the store under ``jobs/<id>/artifacts/``."""

from collections.abc import Iterator
from pathlib import Path

import pydantic
from pydantic import Field

from worker.store import Store

_MEDIA_TYPES = {
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".zip": "application/zip",
    ".npz": "application/octet-stream",
}


class Artifact(pydantic.BaseModel):
    """A file that a job left."""

    name: str = Field(examples=["tir/05-flatten.txt"])
    bytes: int
    media_type: str


def publish(store: Store, job_id: str, directory: Path) -> None:
    """Copy every file of the directory into the store; ``report.json`` last, since it says that all is there."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: (path.name == "report.json", path)):
        store.put_file(f"jobs/{job_id}/artifacts/{path.relative_to(directory).as_posix()}", path)


class Artifacts:
    """The artifacts of one job."""

    def __init__(self, store: Store, job_id: str) -> None:
        self._store = store
        self._prefix = f"jobs/{job_id}/artifacts"

    def all(self, folder: str = "") -> list[Artifact]:
        """Every file, or those under a folder, sorted by name."""
        prefix = f"{self._prefix}/{folder}" if folder else self._prefix
        return [
            Artifact(name=name, bytes=size, media_type=media_type(name))
            for key, size in self._store.sizes(prefix).items()
            for name in [key.removeprefix(f"{self._prefix}/")]
        ]

    def size(self, name: str) -> int:
        """Bytes of the file; KeyError if there is none of this name."""
        try:
            size = self._store.size(f"{self._prefix}/{name}")
        except ValueError:  # not even a key
            size = None
        if size is None:
            raise KeyError(name)
        return size

    def stream(self, name: str, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Bytes ``[begin, end)`` of a file that :meth:`size` knows."""
        return self._store.stream(f"{self._prefix}/{name}", begin, end)

    def read(self, name: str, begin: int, end: int) -> bytes:
        """Bytes ``[begin, end)`` of a file that :meth:`size` knows, at once."""
        return self._store.read_range(f"{self._prefix}/{name}", begin, end)


def media_type(name: str) -> str:
    """The media type of an artifact, by its name."""
    return _MEDIA_TYPES.get(Path(name).suffix, "application/octet-stream")
