"""Collections of uploads, restricted to what one owner may see: common to the stores of files and of accelerators."""

import copy
from typing import Self

from worker.identity.ownership import Ownership
from worker.identity.share_links import ShareTarget
from worker.storage.identifiers import ObjectKind
from worker.storage.object_store import Store


class OwnerScopedCollection:
    """The objects of one kind in a store: of all owners, or :meth:`seen_by` one of them."""

    def __init__(self, store: Store, kind: ObjectKind) -> None:
        self._store = store
        self._kind = kind
        self._ownership: Ownership | None = None
        self._shared: ShareTarget | None = None

    def seen_by(self, owner: str, shared: ShareTarget | None = None) -> Self:
        """Returns the same without the objects of other owners, but for one that is ``shared``."""
        seen = copy.copy(self)
        seen._ownership, seen._shared = Ownership(self._store, owner), shared  # noqa: SLF001 - it is our own class
        return seen

    def _is_shared(self, digest: str) -> bool:
        return self._shared is not None and digest == self._shared.id

    def set_label(self, digest: str, label: str | None) -> None:
        """Labels an object for the owner that the collection is :meth:`seen_by`, or takes the label away."""
        assert self._ownership is not None
        self._ownership.set_label(self._kind, digest, label)
