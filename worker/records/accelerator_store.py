"""Accelerators: presets, identified by name, and uploaded documents, identified by their canonical SHA-256."""

import hashlib
import json
import re
from pathlib import Path
from typing import Literal, NamedTuple

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import (
    accelerator_id,
    canonical,
    checked_accelerator,
    document_digest,
    load_accelerator,
    preset_names,
)
from accel.util.content_cache import sources_digest
from worker.examples import example_accelerator
from worker.identity.owner_scope import OwnerScopedCollection
from worker.identity.ownership import label_key, label_of
from worker.records.job_record import Document
from worker.records.upload_locks import UploadLocks, UploadName
from worker.storage.object_store import Store

_ID = re.compile(r"[0-9a-f]{64}")
_MOST_BRIEFS = 10_000
_FOLDER: Literal["accelerators"] = "accelerators"


def is_uploaded(name_or_id: str) -> bool:
    """Returns whether this is the id of an uploaded document; else it is a preset's name."""
    return _ID.fullmatch(name_or_id) is not None


class AcceleratorEntry(NamedTuple):
    """An accelerator in a listing."""

    title: str
    family: str


class Accelerators(OwnerScopedCollection):
    """The presets and the uploaded documents of all owners, or those visible to one owner (:meth:`seen_by`)."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, _FOLDER)
        self._summaries: dict[str, AcceleratorEntry] = {}  # they do not change
        self._digests: dict[str, str] = {}

    def add(self, accelerator: Accelerator, file: str | None = None) -> str:
        """Stores a document and returns its id; a repeated upload updates only the time and ``file``.

        Args:
            accelerator: the document, which this version has checked.
            file: SHA-256 of the uploaded bytes.

        Raises:
            BeingDeletedError: the document is being deleted.
        """
        document = canonical(accelerator)
        digest = hashlib.sha256(document).hexdigest()
        with UploadLocks(self._store).during_upload(UploadName("accelerators", digest)):
            first = self._ownership is not None and not self._store.exists(_key(digest))
            self._store.write(_key(digest), document)
            if self._ownership:
                note = Document(sha256=file, checked=sources_digest()) if file else None
                text = b"" if note is None else note.model_dump_json().encode()
                self._ownership.add(_FOLDER, digest, text, first=first)
        return digest

    def ids(self) -> list[str]:
        """Returns the names of all presets, sorted, and then the ids of the uploaded documents, sorted."""
        uploaded = self._ownership.all(_FOLDER) if self._ownership else self._store.folders(_FOLDER)
        return [*preset_names(), *(name for name in uploaded if _ID.fullmatch(name))]

    def exists(self, name_or_id: str) -> bool:
        """Returns whether the accelerator exists and is visible."""
        if _ID.fullmatch(name_or_id):
            stored = self._visible(name_or_id) and self._store.exists(_key(name_or_id))
            return stored or name_or_id == example_accelerator().id
        return name_or_id in preset_names()

    def _visible(self, digest: str) -> bool:
        return self._ownership is None or self._is_shared(digest) or self._ownership.owns(_FOLDER, digest)

    def labels(self, ids: list[str]) -> list[str | None]:
        """Returns the label of each id, given by the owner or by whoever shared it; None where there is none."""
        if self._ownership is None:
            return [None] * len(ids)
        own = self._ownership.labels(_FOLDER, ids)
        if self._shared is None or self._shared.id not in ids or self._ownership.owns(_FOLDER, self._shared.id):
            return own
        [sent] = self._store.read_many([label_key(self._shared.sender, _FOLDER, self._shared.id)])
        return [label_of(sent) if name == self._shared.id else label for name, label in zip(ids, own, strict=True)]

    def get(self, name_or_id: str) -> Accelerator:
        """Returns the accelerator.

        Raises:
            KeyError: no accelerator has this name or id.
            OSError: the stored document does not match its digest.
        """
        if not self.exists(name_or_id):
            raise KeyError(name_or_id)
        if not _ID.fullmatch(name_or_id):
            return load_accelerator(name_or_id)
        return checked_accelerator(self._bytes(name_or_id))

    def summary(self, name_or_id: str) -> AcceleratorEntry:
        """Returns the title and family for a listing.

        Raises:
            KeyError: no accelerator has this name or id.
        """
        if not self.exists(name_or_id):
            raise KeyError(name_or_id)
        if name_or_id not in self._summaries:
            if len(self._summaries) >= _MOST_BRIEFS:
                self._summaries.clear()
            self._summaries[name_or_id] = self._read_summary(name_or_id)
        return self._summaries[name_or_id]

    def _read_summary(self, name_or_id: str) -> AcceleratorEntry:
        if _ID.fullmatch(name_or_id):
            document = json.loads(self._bytes(name_or_id))
            return AcceleratorEntry(str(document["title"]), str(document["family"]))
        preset = load_accelerator(name_or_id)
        return AcceleratorEntry(preset.title, preset.family)

    def digest(self, name_or_id: str) -> str:
        """Returns the digest of the canonical document.

        Raises:
            KeyError: no preset has this name.
        """
        if _ID.fullmatch(name_or_id):
            return name_or_id
        if name_or_id not in self._digests:
            if name_or_id not in preset_names():
                raise KeyError(name_or_id)
            self._digests[name_or_id] = accelerator_id(load_accelerator(name_or_id))
        return self._digests[name_or_id]

    def source(self, name_or_id: str | None) -> Document:
        """Returns digest and label of the file that the owner uploaded; both None for another owner's document."""
        if name_or_id is None:
            return Document()
        if not _ID.fullmatch(name_or_id):
            return Document(sha256=document_digest(name_or_id))
        note = self._ownership.note(_FOLDER, name_or_id) if self._ownership else b""
        if note:
            known = Document.model_validate_json(note)
        elif name_or_id == example_accelerator().id:
            known = Document(sha256=document_digest(example_accelerator().path))
        else:
            known = Document()
        return known.model_copy(update={"label": self.labels([name_or_id])[0]})

    def fetch(self, name_or_id: str, path: Path) -> str:
        """Returns the argument for ``load_accelerator``: a preset's name, or ``path``, where the document is written.

        Args:
            name_or_id: the accelerator.
            path: a file to write; its name ends in ``.json``.

        Raises:
            KeyError: no accelerator has this name or id.
            OSError: the stored document does not match its digest.
        """
        if not self.exists(name_or_id):
            raise KeyError(name_or_id)
        if not _ID.fullmatch(name_or_id):
            return name_or_id
        path.write_bytes(self._bytes(name_or_id))
        return str(path)

    def _bytes(self, digest: str) -> bytes:
        if digest == example_accelerator().id:
            return example_accelerator().info
        data = self._store.read(_key(digest))
        if hashlib.sha256(data).hexdigest() != digest:
            raise OSError(f"the stored accelerator {digest} is damaged")
        return data


def _key(digest: str) -> str:
    return f"{_FOLDER}/{digest}/document.json"
