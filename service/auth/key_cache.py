"""A cache of the keys that requests sent lately, so that not every request reads the store."""

import threading
import time
from collections.abc import Callable

from worker.identity import secret_tokens
from worker.identity.api_keys import ApiKeys, Key

_MOST = 10_000


class KeyCache:
    """Finds keys; may be used from several threads.

    A key that may enter is remembered for a while, and as long a revocation may go unnoticed. One that may not is asked
    for again each time, so that a new key opens at once and nobody can fill the memory with false ones.

    Args:
        keys: those of the store.
        seconds: how long a key is remembered.
        clock: tells the time, in seconds.
    """

    def __init__(self, keys: ApiKeys, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._seconds = seconds
        self._clock = clock
        self._known: dict[str, tuple[float, Key]] = {}
        self._turn = threading.Lock()

    def remembered(self, text: str) -> Key | None:
        """The record of a key that was found a moment ago; takes no time."""
        until, key = self._known.get(secret_tokens.token_digest(text), (0.0, None))
        return key if self._clock() < until else None

    def find(self, text: str) -> Key | None:
        """The record of a key that may enter, from the store; None if it may not.

        Raises:
            StoreUnavailableError: the store is away.
        """
        digest = secret_tokens.token_digest(text)
        asked = self._clock()
        key = self._keys.find(text)
        with self._turn:
            self._known.pop(digest, None)
            if key is not None:
                while len(self._known) >= _MOST:
                    del self._known[next(iter(self._known))]  # the one that was read longest ago
                self._known[digest] = asked + self._seconds, key
        return key
