"""Whose is what: marks in the store under ``owners/``.

What is uploaded is kept once, by its digest, whoever sends it. ``owners/<digest of the owner>/<kind>/<id>`` says that
an owner has sent it, or has submitted the job; each is an object of its own, so that owners never write the same one.
"""

from typing import Literal

from worker.ids import owner_digest
from worker.store import Store

Kind = Literal["models", "tensors", "programs", "accelerators", "jobs"]


def owned(store: Store, kind: Kind) -> set[str]:
    """The ids of all of a kind that are somebody's."""
    return {parts[3] for key in store.sizes("owners") if (parts := key.split("/"))[2] == kind}


def mark(sender: str, kind: Kind, item: str) -> str:
    """The key of the object that says that something is an owner's too; ``sender`` is the owner's digest."""
    return f"owners/{sender}/{kind}/{item}"


class Belongings:
    """What belongs to one owner."""

    def __init__(self, store: Store, owner: str) -> None:
        self._store = store
        self._sender = owner_digest(owner)

    def add(self, kind: Kind, item: str, note: bytes = b"") -> None:
        """Note that it is the owner's too; it must be there already, but for a job.

        ``note`` is what is to be known of this owner's; the last one counts.
        """
        write = self._store.write if note else self._store.create
        write(self.mark(kind, item), note)

    def note(self, kind: Kind, item: str) -> bytes:
        """Returns the note of what is the owner's; none if it has none, or is not the owner's."""
        try:
            return self._store.read(self.mark(kind, item))
        except FileNotFoundError:
            return b""

    def has(self, kind: Kind, item: str) -> bool:
        """Whether it is the owner's."""
        return self._store.exists(self.mark(kind, item))

    def mark(self, kind: Kind, item: str) -> str:
        """The key of the object that is there if it is the owner's."""
        return mark(self._sender, kind, item)

    def all(self, kind: Kind) -> list[str]:
        """The ids of all of a kind that are the owner's, sorted."""
        return [key.rsplit("/", 1)[-1] for key in self._store.sizes(f"owners/{self._sender}/{kind}")]

    def remove(self, kind: Kind, item: str) -> None:
        """Note that it is not the owner's any more."""
        self._store.delete(self.mark(kind, item))
