"""Deadlines of computations."""

import time


class OutOfTimeError(Exception):
    """The deadline has passed, and the computation was given up."""


class Deadline:
    """A deadline ``seconds`` from now."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def end(self) -> None:
        """Make the deadline now; another thread may ask what remains."""
        self._end = time.monotonic()

    def remaining(self) -> float:
        """Returns the seconds until the deadline.

        Raises:
            OutOfTimeError: the deadline has passed.
        """
        remaining = self._end - time.monotonic()
        if remaining <= 0:
            raise OutOfTimeError
        return remaining
