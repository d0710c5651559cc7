"""Uploaded models, tensors and programs: blobs named by their SHA-256, with what was found in them."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, Literal, TypeVar

import pydantic
from pydantic import Field

from accel.frontend.inspect import ModelInfo, TensorInfo
from worker.store import Store

_ID = re.compile(r"[0-9a-f]{64}")


class Model(ModelInfo):
    """An uploaded model."""

    id: str = Field(description="SHA-256 of the file", pattern="^[0-9a-f]{64}$")
    bytes: int = Field(description="size of the file")


class Tensors(pydantic.BaseModel):
    """An uploaded npz file."""

    id: str = Field(description="SHA-256 of the file", pattern="^[0-9a-f]{64}$")
    bytes: int = Field(description="size of the file")
    tensors: list[TensorInfo]


class ProgramInfo(pydantic.BaseModel):
    """An uploaded program."""

    id: str = Field(description="SHA-256 of the Program file", pattern="^[0-9a-f]{64}$")
    bytes: int = Field(description="size of the Program file")
    accelerator: str = Field(description="name of the accelerator that it was made for", examples=["vta"])
    instructions: int
    launches: int
    host_steps: int
    dram_bytes: int = Field(description="size of the DRAM that it maps")
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    expects: bool = Field(description="whether it says what memory must hold after the run")


Document = TypeVar("Document", Model, Tensors, ProgramInfo)


class Uploads(Generic[Document]):
    """The uploads of one kind. An upload is accepted once its document is there; the blob comes first."""

    def __init__(self, store: Store, kind: Literal["models", "tensors", "programs"], document: type[Document]) -> None:
        self._store = store
        self._kind = kind
        self._document: type[Document] = document

    def get(self, digest: str) -> Document:
        """What was found in the upload; KeyError if there is none of this id."""
        if not _ID.fullmatch(digest):
            raise KeyError(digest)
        try:
            return self._document.model_validate_json(self._store.read(f"{self._kind}/{digest}/info.json"))
        except FileNotFoundError:
            raise KeyError(digest) from None

    def add(self, path: Path, document: Document) -> None:
        """Keep the file and its document; the same file again changes nothing."""
        if not self._store.exists(f"{self._kind}/{document.id}/data"):
            self._store.put_file(f"{self._kind}/{document.id}/data", path)
        self._store.create(f"{self._kind}/{document.id}/info.json", document.model_dump_json().encode())

    def stream(self, digest: str, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Bytes ``[begin, end)`` of an upload that :meth:`get` knows."""
        return self._store.stream(f"{self._kind}/{digest}/data", begin, end)

    def fetch(self, digest: str, path: Path) -> None:
        """Copy an upload that :meth:`get` knows into a local file.

        Raises:
            OSError: the blob is missing, or is not the file that was uploaded.
        """
        self._store.fetch(f"{self._kind}/{digest}/data", path)
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise OSError(f"the stored {self._kind} blob {digest} is damaged")


def models(store: Store) -> Uploads[Model]:
    """The uploaded models."""
    return Uploads(store, "models", Model)


def tensors(store: Store) -> Uploads[Tensors]:
    """The uploaded tensors."""
    return Uploads(store, "tensors", Tensors)


def programs(store: Store) -> Uploads[ProgramInfo]:
    """The uploaded programs, as Program files."""
    return Uploads(store, "programs", ProgramInfo)
