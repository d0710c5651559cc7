"""Share links: the bearer of one may read one job or one upload, and nothing else.

An object named by the digest of a link's secret holds who shared it; without the object there is no such link. Those of
a job lie in its folder, so that they go with it; those of an upload under ``shares/<kind>/<id>``. A link to an upload
opens it as long as it is the owner's who made the link.
"""

from typing import NamedTuple

from worker.examples import is_example
from worker.identity import secret_tokens
from worker.identity.ownership import ownership_key
from worker.storage.identifiers import ObjectKind, owner_digest
from worker.storage.object_store import Store


class ShareTarget(NamedTuple):
    """The job or upload that a link leads to; the id must be well-formed.

    Attributes:
        kind: the kind of object.
        id: the object's id.
        sender: the digest of the owner who shared it, where that is known.
    """

    kind: ObjectKind
    id: str
    sender: str = ""

    @property
    def folder(self) -> str:
        """The folder of its links."""
        return f"jobs/{self.id}/shares" if self.kind == "jobs" else f"shares/{self.kind}/{self.id}"


class ShareLinks:
    """The links of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, shared: ShareTarget, owner: str) -> str:
        """Creates a link to an object of the owner; returns its secret, which is not stored."""
        text = secret_tokens.make_token(secret_tokens.LINK)
        self._store.create(f"{shared.folder}/{secret_tokens.token_digest(text)}", owner_digest(owner).encode())
        return text

    def resolve(self, text: str, shared: ShareTarget) -> ShareTarget | None:
        """Returns ``shared`` with its sender if the secret is of a valid link to it, else None."""
        if not secret_tokens.is_well_formed(text, secret_tokens.LINK):
            return None
        try:
            sender = self._store.read(f"{shared.folder}/{secret_tokens.token_digest(text)}").decode()
        except FileNotFoundError:
            return None
        kind, item = shared.kind, shared.id
        good = kind == "jobs" or self._store.exists(ownership_key(sender, kind, item)) or is_example(kind, item)
        return shared._replace(sender=sender) if good else None

    def revoke(self, shared: ShareTarget, owner: str | None = None) -> None:
        """Revokes every link to the object, or only those that ``owner`` created."""
        by = None if owner is None else owner_digest(owner).encode()
        for key in self._store.sizes(shared.folder):
            if by is None or self._store.read(key) == by:
                self._store.delete(key)
