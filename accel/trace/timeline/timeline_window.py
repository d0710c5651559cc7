"""A window of a timeline as bytes: the slices that a picture of a given width can show, and sums of the shorter ones.

The window's cycles are cut into bins of equal length, to the cycle. A slice at least as long as a bin is there itself.
Of shorter ones there is the sum for each track, bin and category, where a slice in two bins counts in both, each with
its part. So the sums of every bin are exact, whatever was merged. Of each counter, such as the elements that a memory
holds, there is the most in each bin.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accel.trace.timeline.slices import Slices
from accel.util.arrays import Array, Int64
from accel.util.step_function import StepFunction

MAGIC = b"CYTL"
VERSION = 2
HEADER = struct.Struct("<4sIQQIIII")
_MOST_COUNT = (1 << 32) - 1
_COLUMNS = (
    *(("start", "<u4"), ("cycles", "<u4"), ("instruction", "<u4"), ("count", "<u4"), ("operation", "<u2")),
    *(("track", "u1"), ("category", "u1")),
)


@dataclass(frozen=True)
class Bins:
    """The bins of cycles ``[begin, end)``; ``edges`` (bins + 1,) are where they meet."""

    begin: int
    end: int
    edges: Int64

    @staticmethod
    def cut(begin: int, end: int, most: int) -> "Bins":
        """Returns at most ``most`` bins, none of them shorter than a cycle; edge i is i times the whole by the bins."""
        count = min(most, end - begin)
        return Bins(begin, end, begin + np.arange(count + 1) * (end - begin) // count)

    def __len__(self) -> int:
        return len(self.edges) - 1

    @property
    def longest(self) -> int:
        """Cycles of the longest bin."""
        return -(-(self.end - self.begin) // len(self))


@dataclass(frozen=True)
class Records:
    """Slices, or sums of slices, of one track and category: (n,) each.

    ``start`` and ``cycles`` count from the window's begin; ``instruction`` is the first that has a part, ``count`` how
    many slices have one.
    """

    start: Int64
    cycles: Int64
    instruction: Int64
    count: Int64


def window_bytes(
    bins: Bins, tracks: Sequence[Sequence[Slices]], operations: Array, counters: Sequence[StepFunction]
) -> bytes:
    """Returns the window of ``tracks``, each its slices by category; ``operations`` are those of all instructions."""
    placed = [(track, category, slices) for track, found in enumerate(tracks) for category, slices in enumerate(found)]
    parts = [(track, category, *_records(slices, bins)) for track, category, slices in placed]
    whole = [(track, category, whole) for track, category, whole, _ in parts]
    sums = [(track, category, merged) for track, category, _, merged in parts]
    columns = {name: np.concatenate([_column(name, *part) for part in (*whole, *sums)]) for name, _ in _COLUMNS[:4]}
    columns["operation"] = operations[columns["instruction"]]
    for place, name in enumerate(("track", "category")):
        columns[name] = np.repeat([part[place] for part in (*whole, *sums)], [len(p[2].start) for p in (*whole, *sums)])
    exact = sum(len(part[2].start) for part in whole)
    merged = len(columns["start"]) - exact
    head = HEADER.pack(MAGIC, VERSION, bins.begin, bins.end, len(bins), exact, merged, len(counters))
    most = [np.minimum(counter.most(bins.edges), _MOST_COUNT).astype("<u4").tobytes() for counter in counters]
    return head + b"".join([*(_aligned(columns[name].astype(kind).tobytes()) for name, kind in _COLUMNS), *most])


def _column(name: str, _track: int, _category: int, records: Records) -> Int64:
    found: Int64 = getattr(records, name)
    return found


def _aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _records(slices: Slices, bins: Bins) -> tuple[Records, Records]:
    """The slices that are at least as long as a bin, cut to the window, and for each bin the sum of the others."""
    places = slices.places(bins.edges)
    # one that is as long as a bin reaches an edge, before which it is the last to begin
    at = np.unique(places[places > 0]) - 1
    start, end = slices.spans(at)
    long = (end - start >= bins.longest) & (end > bins.begin)
    at = at[long]
    start, end = np.maximum(start[long], bins.begin), np.minimum(end[long], bins.end)
    whole = Slices.between(start, end, slices.instruction[at], bins.end)
    cycles = np.diff(slices.until(bins.edges, places)) - np.diff(whole.until(bins.edges, whole.places(bins.edges)))
    some = np.flatnonzero(cycles)
    exact = Records(
        start - bins.begin, end - start, slices.instruction[at].astype(np.int64), np.ones(len(at), np.int64)
    )
    first, behind = places[some], places[some + 1]
    reaches = first > 0
    reaches[reaches] = slices.spans(first[reaches] - 1)[1] > bins.edges[some[reaches]]
    first = first - reaches
    first = first + np.isin(first, at)
    behind = behind - np.isin(behind - 1, at)
    whose = slices.instruction[first].astype(np.int64)
    return exact, Records(bins.edges[some] - bins.begin, cycles[some], whose, behind - first)
