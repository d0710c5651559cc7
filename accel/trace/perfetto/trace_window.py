"""The part of a trace that a document shows."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from accel.errors import CyclopsError
from accel.trace.trace_rows import STRETCH, Rows, RowSource, end_cycles
from accel.util.arrays import Bools, Int64

FEWEST, MOST = 100, 500_000


@dataclass(frozen=True)
class TraceWindow:
    """Cycles ``[begin, end)``, to the trace's end where that is None, in at most ``events`` events.

    Raises:
        CyclopsError: a number is out of range.
    """

    events: int = 50_000
    begin: int = 0
    end: int | None = None

    def __post_init__(self) -> None:
        if not FEWEST <= self.events <= MOST:
            raise CyclopsError(f"{self.events} events; expected {FEWEST} to {MOST}", field="events")
        if self.begin < 0:
            raise CyclopsError(f"cycle {self.begin}; the first is 0", field="begin")
        if self.end is not None and self.end <= self.begin:
            raise CyclopsError(f"the window ends at cycle {self.end} and begins at {self.begin}", field="end")


class View:
    """The instructions that run within a window, and the tokens that the queues hold when it begins.

    Attributes:
        source: the trace.
        begin, end: the cycles, ``end`` at most ``last + 1``: something may begin when all else has ended.
        last: when all has ended.
        moved: tokens pushed and popped (2, queues) by instructions that are not read, as they end before the window.
    """

    def __init__(self, source: RowSource, window: TraceWindow) -> None:
        index = source.index()
        # a launch ends with its last instruction in program order: others may still run
        self.last = max(source.names.cycles, int(index.spans[:, 1].max(initial=0)))
        self.source = source
        self.begin = window.begin
        self.end = max(window.begin, min(window.end or self.last + 1, self.last + 1))
        before = index.spans[:, 1] <= self.begin
        self._read = np.flatnonzero(~before & (index.spans[:, 0] < self.end)) * STRETCH
        self.moved: Int64 = index.tokens[before].sum(axis=0)

    def stretches(self) -> Iterator[Rows]:
        """Yields stretches of rows, in order, that together hold every instruction of the window, and others."""
        for begin in self._read.tolist():
            yield self.source.read(begin, min(begin + STRETCH, len(self.source)))

    def inside(self, rows: Rows) -> Bools:
        """Returns which of the rows run within the window, at least in part (n,)."""
        return np.asarray((end_cycles(rows) > self.begin) & (rows["start"] < self.end))

    def step(self, bins: int) -> int:
        """Returns the cycles of each part if the window is cut into ``bins`` parts."""
        return max(-(-(self.end - self.begin) // bins), 1)
