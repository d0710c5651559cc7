"""Uploaded models, tensors and programs: blobs named by their SHA-256, with what was found in them."""

import copy
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, Literal, Self, TypeVar

import pydantic
from pydantic import Field

from accel.frontend.read.info import ModelInfo, TensorInfo
from worker.belongings import Belongings
from worker.claims import Claims
from worker.claims import Upload as UploadName
from worker.store import Store

_ID = re.compile(r"[0-9a-f]{64}")


class Model(ModelInfo):
    """An uploaded model."""

    id: str = Field(description="SHA-256 of the file", pattern="^[0-9a-f]{64}$")
    bytes: int = Field(description="size of the file")


class TensorsContents(pydantic.BaseModel):
    """The arrays of an npz file."""

    tensors: list[TensorInfo]


class Tensors(TensorsContents):
    """An uploaded npz file."""

    id: str = Field(description="SHA-256 of the file", pattern="^[0-9a-f]{64}$")
    bytes: int = Field(description="size of the file")


class ProgramContents(pydantic.BaseModel):
    """What a program takes, gives and consists of."""

    accelerator: str = Field(description="name of the accelerator that it was made for", examples=["vta"])
    instructions: int
    launches: int
    host_steps: int
    dram_bytes: int = Field(description="size of the DRAM that it maps")
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    expects: bool = Field(description="whether it says what memory must hold after the run")


class ProgramInfo(ProgramContents):
    """An uploaded program."""

    id: str = Field(description="SHA-256 of the Program file", pattern="^[0-9a-f]{64}$")
    bytes: int = Field(description="size of the Program file")


Document = TypeVar("Document", Model, Tensors, ProgramInfo)


class Uploads(Generic[Document]):
    """The uploads of one kind. An upload is accepted once its document is there; the blob comes first.

    They are those of everybody, unless they are :meth:`seen_by` an owner.
    """

    def __init__(self, store: Store, kind: Literal["models", "tensors", "programs"], document: type[Document]) -> None:
        self._store = store
        self._kind = kind
        self._document: type[Document] = document
        self._belongings: Belongings | None = None
        self._shared: str | None = None

    def seen_by(self, owner: str, shared: str | None = None) -> Self:
        """The same, as an owner may see them: what others sent is not there, but for one that is ``shared``."""
        seen = copy.copy(self)
        seen._belongings, seen._shared = Belongings(self._store, owner), shared  # noqa: SLF001 - it is our own class
        return seen

    def get(self, digest: str) -> Document:
        """What was found in the upload; KeyError if there is none of this id."""
        if not _ID.fullmatch(digest):
            raise KeyError(digest)
        keys = [f"{self._kind}/{digest}/info.json"]
        if self._belongings is not None and digest != self._shared:
            keys.append(self._belongings.mark(self._kind, digest))
        found = self._store.read_many(keys)  # from a bucket in one round: a cached answer waits for it
        info = found[0]
        if info is None or None in found:
            raise KeyError(digest)
        return self._document.model_validate_json(info)

    def add(self, path: Path, document: Document) -> None:
        """Keep the file, which is the store's then, and its document; of the same file again only the time changes.

        Raises:
            BeingErasedError: it is being erased at this moment.
        """
        blob, upload = f"{self._kind}/{document.id}/data", UploadName(self._kind, document.id)
        while True:
            if not self._store.exists(blob):
                self._store.take_file(blob, path)
            with Claims(self._store).arriving(upload) as claim:
                if self._store.exists(blob) and claim.counts():
                    first = self._belongings is not None and not self._store.exists(upload.document)
                    self._store.write(upload.document, document.model_dump_json().encode())
                    if self._belongings:
                        self._belongings.add(self._kind, document.id, first=first)
                    return

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
