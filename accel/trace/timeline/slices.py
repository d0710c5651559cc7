"""The cycles of a unit in slices, each of one category: at work, or waiting for one cause.

The slices of a unit do not overlap, and what none of them covers is idle, so that the categories add up to the total.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.util.arrays import Array, Int64, Integers

BUSY = "busy"
MEMORY = "memory"  # the cause that instructions lose cycles to while they run
_NARROW = 1 << 32

Uint32 = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Slices:
    """The k slices of a unit in one category, in the order of their cycles.

    Attributes:
        start: the first cycle of each (k,).
        before: cycles of all slices before each (k + 1,), so that neighbours differ by a slice's length.
        instruction: whose they are, by its place in the trace (k,).
    """

    start: Integers
    before: Integers
    instruction: Uint32

    @staticmethod
    def between(begin: Int64, end: Int64, instruction: Uint32, last: int) -> "Slices":
        """Returns slices ``[begin, end)`` (n,), ascending and within ``last`` cycles, without empty ones."""
        some = np.flatnonzero(end > begin)
        kind = np.uint32 if last < _NARROW - 1 else np.int64
        before: Integers = np.append(0, np.cumsum(end[some] - begin[some])).astype(kind)
        return Slices(begin[some].astype(kind), before, instruction[some])

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it takes."""
        return self.start.nbytes + self.before.nbytes + self.instruction.nbytes

    @property
    def cycles(self) -> int:
        """Cycles of all slices."""
        return int(self.before[-1])

    def places(self, cycles: Int64) -> Int64:
        """Returns how many slices begin before each of the cycles (m,)."""
        return np.searchsorted(self.start, cycles.astype(self.start.dtype)).astype(np.int64)

    def spans(self, places: Int64) -> tuple[Int64, Int64]:
        """Returns the first cycle and the end of the slices at ``places`` (m,)."""
        start = self.start[places].astype(np.int64)
        return start, start + self.before[places + 1].astype(np.int64) - self.before[places].astype(np.int64)

    def until(self, cycles: Int64, places: Int64) -> Int64:
        """Returns the slices' cycles before each of the cycles (m,), of which ``places`` are :meth:`places`."""
        if not len(self.start):
            return np.zeros(len(cycles), np.int64)
        at = np.maximum(places - 1, 0)
        start, end = self.spans(at)
        return np.asarray(self.before[at].astype(np.int64) + np.clip(cycles - start, 0, end - start))


def unit_slices(
    start: Integers,
    end: Integers,
    waits: Mapping[str, Integers],
    instruction: Uint32,
    last: int,
    since: Int64 | None = None,
) -> dict[str, Slices]:
    """Returns the slices of one unit by category: ``BUSY``, then the causes of ``waits``.

    A slice of work begins when its instruction starts, and lasts until the unit's next one starts or nothing of the
    unit runs any more. A wait for memory is within it, at the front, as the trace does not say when it was; the other
    waits stand one after the other before it, as far back as the unit was free; the first of them, where ``since`` is
    given, from when the unit is free or since then.

    Args:
        start: when each instruction starts (n,), cycles.
        end: the cycle after its last (n,).
        waits: what it lost to each cause (n,), in the order in which the waits end.
        instruction: its place in the trace (n,).
        last: the cycles of the trace.
        since: for each instruction the cycle from which its unit waits for it to be sent (n,), its launch's first;
            None where the waits say all.
    """
    if len(start) and (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end, instruction = start[order], end[order], instruction[order]
        waits = {cause: cycles[order] for cause, cycles in waits.items()}
        since = since if since is None else since[order]
    begin: Int64 = start.astype(np.int64)
    busy_until: Int64 = np.maximum.accumulate(np.maximum(end.astype(np.int64), begin))
    done = np.minimum(busy_until, np.append(begin[1:], last))
    free = np.minimum(np.append(0, busy_until[:-1]), begin)[: len(begin)]
    at_work = begin
    found: dict[str, Slices] = {}
    if MEMORY in waits:
        at_work = np.minimum(begin + waits[MEMORY], done)
        found[MEMORY] = Slices.between(begin, at_work, instruction, last)
    found[BUSY] = Slices.between(at_work, done, instruction, last)
    causes = [cause for cause in waits if cause != MEMORY]
    at = begin - sum((waits[cause].astype(np.int64) for cause in causes), np.zeros(len(begin), np.int64))
    for place, cause in enumerate(causes):
        following = at + waits[cause]
        if place == 0 and since is not None:
            at = np.minimum(at, since)
        found[cause] = Slices.between(np.maximum(at, free), np.maximum(following, free), instruction, last)
        at = following
    return {category: found[category] for category in (BUSY, *waits)}


def narrow(column: Array) -> Array:
    """Returns a copy of the column that lies in one piece, in 32 bits where its numbers allow."""
    fits = column.dtype.itemsize <= 4 or not len(column) or -(1 << 31) <= column.min() <= column.max() < 1 << 31
    return np.ascontiguousarray(column, np.int32 if fits else np.int64)
