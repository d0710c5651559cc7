"""A cache of the keys that recent requests sent, so that not every request reads the store."""

import threading
import time
from collections.abc import Callable

from worker.identity import secret_tokens
from worker.identity.api_keys import ApiKeys, Key

_MOST = 10_000


class KeyCache:
    """Finds keys; thread-safe.

    A valid key is cached for a while, in which a revocation may go unnoticed. An invalid one is looked up each time, so
    that a new key works at once and false ones cannot fill the cache.

    Args:
        keys: the keys in the store.
        seconds: how long a key is cached.
        clock: returns the time, in seconds.
    """

    def __init__(self, keys: ApiKeys, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._seconds = seconds
        self._clock = clock
        self._known: dict[str, tuple[float, Key]] = {}
        self._lock = threading.Lock()

    def get(self, text: str) -> Key | None:
        """Returns the record of a key in the cache, without reading the store."""
        until, key = self._known.get(secret_tokens.token_digest(text), (0.0, None))
        return key if self._clock() < until else None

    def find(self, text: str) -> Key | None:
        """Returns the record of a valid key from the store, and cache it; None if the key is unknown or revoked.

        Raises:
            StoreUnavailableError: the store cannot be reached.
        """
        digest = secret_tokens.token_digest(text)
        asked = self._clock()
        key = self._keys.find(text)
        with self._lock:
            self._known.pop(digest, None)
            if key is not None:
                while len(self._known) >= _MOST:
                    del self._known[next(iter(self._known))]  # the one that was read longest ago
                self._known[digest] = asked + self._seconds, key
        return key
