"""Ownership: keys in the store under ``owners/``, and the labels that owners give, under ``labels/``.

An upload is stored once, by its digest, for all owners that send it. ``owners/<digest of the owner>/<kind>/<id>`` says
that an owner has sent it, or has submitted the job; each is an object of its own, so that owners never write the same
one. The key is written once, so that its time says since when; that of an accelerator with each upload, as it says in
which file the owner has the document. ``senders/<kind>/<id>/<digest of the owner>`` says the same of an upload the
other way round, so that other senders are found without a request for every owner. ``senders/<kind>/<id>/all`` says
that all its senders are recorded so: from the first of them on, or since the earlier ones were looked up.

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
    """An object of an owner; ``since`` is when the owner first sent it."""

    id: str
    since: datetime


def ownership_key(sender: str, kind: ObjectKind, item: str) -> str:
    """Returns the key whose existence makes an object the owner's; ``sender`` is the owner's digest."""
    return f"owners/{sender}/{kind}/{item}"


def label_key(sender: str, kind: ObjectKind, item: str) -> str:
    """Returns the key of an owner's label of an object; ``sender`` is the owner's digest."""
    return f"labels/{sender}/{kind}/{item}"


class UploadOwners:
    """The owners who have sent an upload, as parts of keys."""

    def __init__(self, store: Store, kind: ObjectKind, item: str) -> None:
        self._store = store
        self._kind = kind
        self._item = item
        self._home = f"senders/{kind}/{item}"

    def add(self, sender: str, *, first: bool) -> None:
        """Adds an owner; ``first`` says that no other has sent the upload."""
        if first:
            self._store.create(f"{self._home}/{_ALL}", b"")
        self._store.create(f"{self._home}/{sender}", b"")

    def all(self) -> Iterator[str]:
        """Returns the digests of all owners, lazily; uploads must be locked out (``worker/retention/deletion.py``)."""
        if not self._store.exists(f"{self._home}/{_ALL}"):
            self._record_earlier_senders()
        names = (key.rsplit("/", 1)[1] for key in self._store.keys(self._home))
        return (name for name in names if name != _ALL)

    def _record_earlier_senders(self) -> None:
        """Adds the owners that are only recorded under ``owners/``, once for an upload."""
        for name in self._store.folders("owners"):
            if self._store.exists(ownership_key(name, self._kind, self._item)):
                self.add(name, first=False)
        self._store.create(f"{self._home}/{_ALL}", b"")

    def remove(self, sender: str) -> None:
        """Removes an owner."""
        self._store.delete(f"{self._home}/{sender}")

    def remove_all(self) -> None:
        """Removes all owners, after the upload is deleted."""
        self._store.delete_all(list(self._store.keys(self._home)))


class Ownership:
    """The objects and labels of one owner."""

    def __init__(self, store: Store, owner: str) -> None:
        self._store = store
        self._sender = owner_digest(owner)

    def add(self, kind: ObjectKind, item: str, note: bytes = b"", *, first: bool = False) -> None:
        """Makes an object the owner's.

        Args:
            kind: the kind of object.
            item: its id; the object exists already, unless it is a job.
            note: data about this owner's copy; the last one counts.
            first: says that no other owner has the object.
        """
        if kind != "jobs":
            UploadOwners(self._store, kind, item).add(self._sender, first=first)
        write = self._store.write if note else self._store.create
        write(self.key(kind, item), note)

    def note(self, kind: ObjectKind, item: str) -> bytes:
        """Returns the note of the owner's object; empty if there is none, or the object is not the owner's."""
        try:
            return self._store.read(self.key(kind, item))
        except FileNotFoundError:
            return b""

    def owns(self, kind: ObjectKind, item: str) -> bool:
        """Returns whether the object is the owner's."""
        return self._store.exists(self.key(kind, item))

    def first_sent(self, kind: ObjectKind, item: str) -> datetime | None:
        """Returns when the owner first sent the object; None if it is not the owner's."""
        return self._store.written(self.key(kind, item))

    def key(self, kind: ObjectKind, item: str) -> str:
        """Returns the key whose existence makes the object the owner's."""
        return ownership_key(self._sender, kind, item)

    def all(self, kind: ObjectKind) -> list[str]:
        """Returns the ids of the owner's objects of a kind, sorted."""
        return [key.rsplit("/", 1)[-1] for key in self._store.sizes(f"owners/{self._sender}/{kind}")]

    def newest(self, kind: ObjectKind) -> list[OwnedObject]:
        """Returns the owner's objects of a kind, newest first, by one listing of the ownership keys."""
        found = self._store.modified(f"owners/{self._sender}/{kind}")
        return sorted(
            (OwnedObject(key.rsplit("/", 1)[-1], time) for key, time in found.items()),
            key=lambda item: (item.since, item.id),
            reverse=True,
        )

    def remove(self, kind: ObjectKind, item: str) -> None:
        """Ends the ownership of the object."""
        self._store.delete(self.key(kind, item))

    def label_key(self, kind: ObjectKind, item: str) -> str:
        """Returns the key of the owner's label of the object."""
        return label_key(self._sender, kind, item)

    def set_label(self, kind: ObjectKind, item: str, label: str | None) -> None:
        """Sets the owner's label of the object, or removes it if it is None."""
        write_label(self._store, self.label_key(kind, item), label)

    def labels(self, kind: ObjectKind, items: list[str]) -> list[str | None]:
        """Returns the owner's label of each object, None where there is none."""
        return [label_of(data) for data in self._store.read_many([self.label_key(kind, item) for item in items])]


def write_label(store: Store, key: str, label: str | None) -> None:
    """Stores a label under ``key``, or deletes it if it is None."""
    if label is None:
        store.delete(key)
    else:
        store.write(key, label.encode())


def label_of(data: bytes | None) -> str | None:
    """Returns the label that the data of an object encode, if there are any."""
    return None if data is None else data.decode()
