"""Whose is what: marks in the store under ``owners/``, and the labels that owners give under ``labels/``.

What is uploaded is kept once, by its digest, whoever sends it. ``owners/<digest of the owner>/<kind>/<id>`` says that
an owner has sent it, or has submitted the job; each is an object of its own, so that owners never write the same one.
The mark is written once, so that its time says since when; that of an accelerator with each upload, as it says in which
file the owner has the document. ``senders/<kind>/<id>/<digest of the owner>`` says the same of an upload the other way
round, so that who else has sent it is known without asking for every owner. ``senders/<kind>/<id>/all`` says that it is
so of all who have sent it: from the first of them on, or since the others were found by asking.

``labels/<digest of the owner>/<kind>/<id>`` is the label that the owner has given to an upload: the same content may
have another label for another owner.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from worker.storage.identifiers import ObjectKind, owner_digest
from worker.storage.object_store import Store

_ALL = "all"
MOST_LABEL = 200
# no control character, and nothing that ends a line
_LABEL = "^[^\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]*$"


def _one_line(text: str) -> str:
    if not text.strip() or re.fullmatch(_LABEL, text) is None:
        raise PydanticCustomError("label", "must be one line of text, without control characters, and not blank")
    return text


Label = Annotated[
    str,
    Field(min_length=1, max_length=MOST_LABEL, json_schema_extra={"pattern": _LABEL}),
    AfterValidator(_one_line),
]


class OwnedObject(NamedTuple):
    """Something of an owner's; ``since`` is when the owner has sent it first."""

    id: str
    since: datetime


def ownership_key(sender: str, kind: ObjectKind, item: str) -> str:
    """The key of the object that says that something is an owner's too; ``sender`` is the owner's digest."""
    return f"owners/{sender}/{kind}/{item}"


def label_key(sender: str, kind: ObjectKind, item: str) -> str:
    """The key of the object that holds an owner's label; ``sender`` is the owner's digest."""
    return f"labels/{sender}/{kind}/{item}"


class UploadOwners:
    """The owners who have sent an upload, as parts of keys."""

    def __init__(self, store: Store, kind: ObjectKind, item: str) -> None:
        self._store = store
        self._kind = kind
        self._item = item
        self._home = f"senders/{kind}/{item}"

    def add(self, sender: str, *, first: bool) -> None:
        """Note one; ``first``: nobody has sent it before."""
        if first:
            self._store.create(f"{self._home}/{_ALL}", b"")
        self._store.create(f"{self._home}/{sender}", b"")

    def all(self) -> Iterator[str]:
        """All of them, read as they are asked for. Nobody may send it meanwhile (``worker/retention/deletion.py``)."""
        if not self._store.exists(f"{self._home}/{_ALL}"):
            self._find()
        names = (key.rsplit("/", 1)[1] for key in self._store.keys(self._home))
        return (name for name in names if name != _ALL)

    def _find(self) -> None:
        """Note those who sent it when that was only noted under ``owners/``: once for an upload."""
        for name in self._store.folders("owners"):
            if self._store.exists(ownership_key(name, self._kind, self._item)):
                self.add(name, first=False)
        self._store.create(f"{self._home}/{_ALL}", b"")

    def drop(self, sender: str) -> None:
        """Note that it is not this one's any more."""
        self._store.delete(f"{self._home}/{sender}")

    def forget(self) -> None:
        """Remove all notes, once there is no such upload."""
        self._store.delete_all(list(self._store.keys(self._home)))


class Ownership:
    """What belongs to one owner."""

    def __init__(self, store: Store, owner: str) -> None:
        self._store = store
        self._sender = owner_digest(owner)

    def add(self, kind: ObjectKind, item: str, note: bytes = b"", *, first: bool = False) -> None:
        """Note that it is the owner's too.

        Args:
            kind: of what.
            item: its id; it must be there already, but for a job.
            note: what is to be known of this owner's; the last one counts.
            first: it was not there before, and is nobody else's.
        """
        if kind != "jobs":
            UploadOwners(self._store, kind, item).add(self._sender, first=first)
        write = self._store.write if note else self._store.create
        write(self.mark(kind, item), note)

    def note(self, kind: ObjectKind, item: str) -> bytes:
        """Returns the note of what is the owner's; none if it has none, or is not the owner's."""
        try:
            return self._store.read(self.mark(kind, item))
        except FileNotFoundError:
            return b""

    def has(self, kind: ObjectKind, item: str) -> bool:
        """Whether it is the owner's."""
        return self._store.exists(self.mark(kind, item))

    def since(self, kind: ObjectKind, item: str) -> datetime | None:
        """When the owner has sent it first; None if it is not the owner's."""
        return self._store.written(self.mark(kind, item))

    def mark(self, kind: ObjectKind, item: str) -> str:
        """The key of the object that is there if it is the owner's."""
        return ownership_key(self._sender, kind, item)

    def all(self, kind: ObjectKind) -> list[str]:
        """The ids of all of a kind that are the owner's, sorted."""
        return [key.rsplit("/", 1)[-1] for key in self._store.sizes(f"owners/{self._sender}/{kind}")]

    def newest(self, kind: ObjectKind) -> list[OwnedObject]:
        """All of a kind that are the owner's, newest first: one listing of the owner's marks, and no other read."""
        found = self._store.modified(f"owners/{self._sender}/{kind}")
        return sorted(
            (OwnedObject(key.rsplit("/", 1)[-1], time) for key, time in found.items()),
            key=lambda item: (item.since, item.id),
            reverse=True,
        )

    def remove(self, kind: ObjectKind, item: str) -> None:
        """Note that it is not the owner's any more."""
        self._store.delete(self.mark(kind, item))

    def label_key(self, kind: ObjectKind, item: str) -> str:
        """The key of the object that holds the owner's label of it."""
        return label_key(self._sender, kind, item)

    def set_label(self, kind: ObjectKind, item: str, label: str | None) -> None:
        """Give it a label, or take it away."""
        write_label(self._store, self.label_key(kind, item), label)

    def labels(self, kind: ObjectKind, items: list[str]) -> list[str | None]:
        """The owner's labels of these; None for each that has none."""
        return [label_of(data) for data in self._store.read_many([self.label_key(kind, item) for item in items])]


def write_label(store: Store, key: str, label: str | None) -> None:
    """Keep a label in the object ``key``, or take it away."""
    if label is None:
        store.delete(key)
    else:
        store.write(key, label.encode())


def label_of(data: bytes | None) -> str | None:
    """The label that an object holds, if there is one."""
    return None if data is None else data.decode()
