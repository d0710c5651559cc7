"""Uploaded models, tensors and programs: blobs named by their SHA-256, each with a document of its contents.

The examples (``worker/examples``) exist for every owner without an upload.
"""

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

import pydantic
from pydantic import Field

from accel.frontend.read.model_info import ModelContents, TensorInfo
from worker.examples import FileKind, examples, find_example
from worker.identity.owner_scope import OwnerScopedCollection
from worker.identity.ownership import OwnedObject, label_key, label_of
from worker.records.listing.list_order import Key, Position, Sort, has_words
from worker.records.upload_locks import UploadLocks, UploadName
from worker.storage.object_store import Store

_NEVER = datetime.fromtimestamp(0, UTC)
_ID = re.compile(r"[0-9a-f]{64}")


class Model(ModelContents):
    """An uploaded model."""

    id: str = Field(
        description="SHA-256 of the model's one file, which has all of its data in it", pattern="^[0-9a-f]{64}$"
    )
    bytes: int = Field(description="size of that file")


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


class StoredUpload(NamedTuple, Generic[Document]):
    """An upload as an owner has it.

    Attributes:
        document: what was found in it.
        label: the label given by the owner, or by whoever shared it; else the title of an example.
        created: when the owner first sent it; None if the owner never did.
    """

    document: Document
    label: str | None
    created: datetime | None


UploadSort = Literal["-created", "created", "-label", "label", "-bytes", "bytes"]
ModelSort = Literal[UploadSort, "-nodes", "nodes", "-macs", "macs", "-parameters", "parameters"]
ProgramSort = Literal[UploadSort, "-instructions", "instructions", "-accelerator", "accelerator"]
LATEST_UPLOAD: UploadSort = "-created"


class _Listed(NamedTuple, Generic[Document]):
    """An upload in a list; ``since`` is when the owner first sent it, to the microsecond."""

    since: datetime
    stored: StoredUpload[Document]


class Uploads(OwnerScopedCollection, Generic[Document]):
    """The uploads of one kind. An upload is accepted once its document is there; the blob comes first."""

    _kind: FileKind

    def __init__(self, store: Store, kind: FileKind, document: type[Document]) -> None:
        super().__init__(store, kind)
        self._document: type[Document] = document

    def get(self, digest: str) -> Document:
        """Returns the document of the upload.

        Raises:
            KeyError: the upload does not exist or is not visible.
        """
        if not _ID.fullmatch(digest):
            raise KeyError(digest)
        if (given := find_example(self._kind, digest)) is not None:
            return self._document.model_validate_json(given.info)
        keys = [f"{self._kind}/{digest}/info.json"]
        if self._ownership is not None and not self._is_shared(digest):
            keys.append(self._ownership.key(self._kind, digest))
        found = self._store.read_many(keys)  # from a bucket in one round: a cached answer waits for it
        info = found[0]
        if info is None or None in found:
            raise KeyError(digest)
        return self._document.model_validate_json(info)

    def stored(self, digest: str) -> StoredUpload[Document]:
        """Returns an upload with its label and time.

        Raises:
            KeyError: the upload does not exist or is not visible.
        """
        return self.as_stored(self.get(digest))

    def as_stored(self, document: Document) -> StoredUpload[Document]:
        """Returns the document of an upload with its label and time."""
        digest = document.id
        if self._ownership is None:
            return StoredUpload(document, None, None)
        created = self._ownership.first_sent(self._kind, digest)
        key = self._ownership.label_key(self._kind, digest)
        if created is None and self._shared is not None and self._is_shared(digest):
            key = label_key(self._shared.sender, self._kind, digest)
        [label] = self._store.read_many([key])
        return StoredUpload(document, self._title(digest, label_of(label)), created and created.replace(microsecond=0))

    def labels(self, ids: list[str]) -> list[str | None]:
        """Returns the owner's label of each id, read together, else an example's title; None where there is neither."""
        labels = [None] * len(ids) if self._ownership is None else self._ownership.labels(self._kind, ids)
        return [self._title(digest, label) for digest, label in zip(ids, labels, strict=True)]

    def _title(self, digest: str, label: str | None) -> str | None:
        given = find_example(self._kind, digest) if label is None else None
        return label if given is None else given.title

    def page(
        self, before: str | None, most: int, sort: str = LATEST_UPLOAD, words: tuple[str, ...] = ()
    ) -> tuple[list[StoredUpload[Document]], str | None]:
        """Returns a page of the owner's uploads, newest first, then the examples, and the next cursor.

        It reads one listing of the owner's ownership keys, and the documents and labels of the page; for another sort,
        and for a search, those of all uploads.

        Args:
            before: the cursor that the page begins after, whatever was added or deleted meanwhile.
            most: the size of the page.
            sort: the sort, one that the kind has.
            words: words that are in the label or the accelerator's name, or begin the id.

        Raises:
            CursorError: the cursor is of another sort.
        """
        assert self._ownership is not None
        order: Sort[_Listed[Document]] = _upload_sort(sort)
        after = None if before is None else order.decode(before)
        own = self._ownership.newest(self._kind)
        sent = {item.id for item in own}
        given = sorted((each.id for each in examples(self._kind) if each.id not in sent), reverse=True)
        own += [OwnedObject(digest, _NEVER) for digest in given]
        if sort == LATEST_UPLOAD and not words:
            places = [(item, Position(_microseconds(item.since), item.id)) for item in own]
            following = [each for each in places if after is None or each[1] < after]
            page = self._read([item for item, _ in following[:most]])
            last = following[most - 1][1] if len(following) > most else None
            return [each.stored for each in page], last and order.encode(last)
        found = order.following((each for each in self._read(own) if _has_words(words, each)), after)
        cursor = order.encode(order.position(found[most - 1])) if len(found) > most else None
        return [each.stored for each in found[:most]], cursor

    def _read(self, items: list[OwnedObject]) -> list[_Listed[Document]]:
        """Returns the owner's uploads, without those that are being deleted."""
        infos = self._store.read_many([f"{self._kind}/{item.id}/info.json" for item in items])
        labels = self.labels([item.id for item in items])
        found = []
        for item, info, label in zip(items, infos, labels, strict=True):
            from_example = find_example(self._kind, item.id)
            known = info if from_example is None else from_example.info
            if known is not None:
                created = None if item.since == _NEVER else item.since.replace(microsecond=0)
                stored = StoredUpload(self._document.model_validate_json(known), label, created)
                found.append(_Listed(item.since, stored))
        return found

    def add(self, path: Path, document: Document) -> None:
        """Stores a file, which belongs to the store afterwards, and its document; a repeated upload updates the time.

        Raises:
            BeingDeletedError: the upload is being deleted.
        """
        blob, upload = f"{self._kind}/{document.id}/data", UploadName(self._kind, document.id)
        while True:
            if not self._store.exists(blob):
                self._store.take_file(blob, path)
            with UploadLocks(self._store).during_upload(upload) as lock:
                if self._store.exists(blob) and lock.is_valid():
                    first = self._ownership is not None and not self._store.exists(upload.document)
                    self._store.write(upload.document, document.model_dump_json().encode())
                    if self._ownership:
                        self._ownership.add(self._kind, document.id, first=first)
                    return

    def stream(self, digest: str, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Returns bytes ``[begin, end)`` of an existing upload, in chunks."""
        if (given := find_example(self._kind, digest)) is not None:
            return iter([given.path.read_bytes()[begin:end]])
        return self._store.stream(f"{self._kind}/{digest}/data", begin, end)

    def fetch(self, digest: str, path: Path) -> None:
        """Copies an existing upload into a local file.

        Raises:
            OSError: the blob is missing, or does not match its digest.
        """
        if (given := find_example(self._kind, digest)) is not None:
            path.write_bytes(given.path.read_bytes())
        else:
            self._store.fetch(f"{self._kind}/{digest}/data", path)
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise OSError(f"the stored {self._kind} blob {digest} is damaged")


def models(store: Store) -> Uploads[Model]:
    """Returns the uploaded models."""
    return Uploads(store, "models", Model)


def tensors(store: Store) -> Uploads[Tensors]:
    """Returns the uploaded tensors."""
    return Uploads(store, "tensors", Tensors)


def programs(store: Store) -> Uploads[ProgramInfo]:
    """Returns the uploaded programs, as Program files."""
    return Uploads(store, "programs", ProgramInfo)


def _upload_sort(name: str) -> Sort[_Listed[Document]]:
    """Returns the sort of a name, by time, by label or by a field of the documents."""
    field = name.removeprefix("-")
    if name == LATEST_UPLOAD:
        return Sort(name, _created, _id, numeric=True, plain=_plain_position, plain_cursor=_plain_cursor)
    if field == "created":
        return Sort(name, _created, _id, numeric=True)
    if field == "label":
        return Sort(name, lambda each: each.stored.label and each.stored.label.casefold(), _id)
    return Sort(name, lambda each: getattr(each.stored.document, field), _id, numeric=field != "accelerator")


def _id(each: _Listed[Document]) -> str:
    return each.stored.document.id


def _created(each: _Listed[Document]) -> Key:
    return None if each.since == _NEVER else _microseconds(each.since)


def _microseconds(time: datetime) -> int:
    return int(time.timestamp() * 1e6)


def _plain_cursor(position: Position) -> str:
    return f"{position.key or 0:014x}{position.id}"


def _plain_position(cursor: str) -> Position:
    return Position(int(cursor[:14], 16), cursor[14:])


def _has_words(words: tuple[str, ...], each: _Listed[Document]) -> bool:
    document = each.stored.document
    accelerator = document.accelerator if isinstance(document, ProgramInfo) else None
    return has_words(words, (each.stored.label, accelerator), (document.id,))
