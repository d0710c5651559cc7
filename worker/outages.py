"""A store that is away for a while, and waiting for it."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from worker.store import StoreUnavailableError

_log = logging.getLogger(__name__)
_PATIENCE = 60.0
_LONGEST_PAUSE = 5.0

Result = TypeVar("Result")


def patiently(action: Callable[[], Result]) -> Result:
    """Do it, again and again while the store is away, for a minute; then the last exception is the caller's.

    What is done must bear being done twice.
    """
    deadline = time.monotonic() + _PATIENCE
    pause = 0.1
    while True:
        try:
            return action()
        except StoreUnavailableError as error:
            if time.monotonic() + pause > deadline:
                raise
            _log.warning("the store is away: %s", error)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
