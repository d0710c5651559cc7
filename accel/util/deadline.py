"""How long a computation may take."""

import time


class OutOfTimeError(Exception):
    """The time is over; what was being done is left undone."""


class Deadline:
    """A moment ``seconds`` from now, and the question whether it has passed."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """The seconds left.

        Raises:
            OutOfTimeError: there are none.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise OutOfTimeError
        return left
