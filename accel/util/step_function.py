"""A quantity that changes at instants: how much of something is in use over time, without a loop over the instants."""

from dataclasses import dataclass

import numpy as np

from accel.util.arrays import Int64


@dataclass(frozen=True)
class StepFunction:
    """A quantity over time.

    Attributes:
        at: the instants at which it changes (k,), ascending.
        value: what it is from each of them to the next (k,); the last is 0, as it is before the first.
    """

    at: Int64
    value: Int64

    @staticmethod
    def of_spans(begin: Int64, end: Int64, amount: Int64) -> "StepFunction":
        """Returns the sum of n spans, each of which adds ``amount`` (n,) in ``[begin, end)`` (n,)."""
        at = np.unique(np.concatenate([begin, end]))
        change = np.zeros(len(at), np.int64)
        np.add.at(change, np.searchsorted(at, begin), amount)
        np.subtract.at(change, np.searchsorted(at, end), amount)
        return StepFunction(at, np.cumsum(change))

    @property
    def peak(self) -> int:
        """The most that it ever is."""
        return int(self.value.max(initial=0))

    @property
    def peak_at(self) -> int | None:
        """The first instant at which it is the most; None where it is always 0."""
        return int(self.at[self.value.argmax()]) if self.peak else None

    @property
    def total(self) -> int:
        """Its sum over all instants."""
        return int((self.value[:-1] * np.diff(self.at)).sum())

    def most(self, edges: Int64) -> Int64:
        """Returns the most that it is in each part ``[edges[i], edges[i + 1])`` (m,), none of which is empty."""
        value = np.concatenate([[0], self.value, [0]])
        first = np.searchsorted(self.at, edges[:-1], "right")
        behind = np.searchsorted(self.at, edges[1:], "left") + 1
        # of pairs: what stands between a part's end and the next one's begin is of no use
        found: Int64 = np.maximum.reduceat(value, np.stack([first, behind], axis=1).ravel())[::2]
        return found
