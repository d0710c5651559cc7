"""The compiler's cache between jobs, in the store under ``cache/``.

Entries are named by what they were made from, so those of all workers are the same, and none is ever out of date. An
entry is replaced when it is put again: what was there could not be used. Entries stay as long as a setting says
(``worker/retention/retention_policy.py``); the folder may be deleted at any time.

Each owner has entries of its own. What is put comes from a process that works on what a user sent, and may be in the
user's hands: an entry that it has forged reaches none but itself, and how long a job takes tells nothing of others.
"""

import logging

from worker.storage.identifiers import owner_digest
from worker.storage.object_store import Store, StoreUnavailableError

FOLDER = "cache"

_log = logging.getLogger(__name__)


class StoreCache:
    """``accel.util.content_cache.CacheStore`` over the store: where the store fails, there is no entry.

    Args:
        store: the store.
        max_bytes: the largest entry that is kept or read.
        owner: the owner of the entries.
    """

    def __init__(self, store: Store, max_bytes: int, owner: str) -> None:
        self._store = store
        self._home = f"{FOLDER}/{owner_digest(owner)}"
        self._max_bytes = max_bytes

    def get(self, key: str) -> bytes | None:
        """Returns the entry; None if there is none or the store is away."""
        try:
            size = self._store.size(self._path(key))
            return self._store.read(self._path(key)) if size is not None and size <= self._max_bytes else None
        except FileNotFoundError:  # deleted meanwhile
            return None
        except StoreUnavailableError as error:
            _log.warning("cache entry %s cannot be read: %s", key, error)
            return None

    def put(self, key: str, data: bytes) -> None:
        """Writes or replaces the entry; a failure is only logged."""
        if len(data) > self._max_bytes:
            _log.info("cache entry %s would have %d bytes: not kept", key, len(data))
            return
        try:
            self._store.write(self._path(key), data)
        except StoreUnavailableError as error:
            _log.warning("cache entry %s cannot be written: %s", key, error)

    def _path(self, key: str) -> str:
        """Returns the key in the store, in one of the owner's 256 folders."""
        return f"{self._home}/{key[:2]}/{key}"
