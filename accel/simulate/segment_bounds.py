"""Whether a launch stays within the program's tensors in DRAM."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from accel.isa.family import Boxes
from accel.program.program_model import Program
from accel.util.arrays import Bools, Int64

_ROWS = 1 << 20  # rows of boxes looked at in one go


@dataclass(frozen=True)
class Extents:
    """Stretches of DRAM that segments cover, merged and sorted: ``begin`` and ``end`` (stretches,), bytes."""

    begin: Int64
    end: Int64

    def hold(self, begin: Int64, end: Int64) -> Bools:
        """Whether each of ``[begin, end)`` lies within one stretch."""
        at = np.searchsorted(self.begin, begin, side="right") - 1
        return np.asarray((at >= 0) & (end <= self.end[np.maximum(at, 0)]))

    def gaps(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of ``[begin, end)`` that no stretch covers."""
        at = int(np.searchsorted(self.begin, begin, side="right")) - 1
        if at >= 0:
            begin = max(begin, int(self.end[at]))
        while begin < end:
            at += 1
            low = int(self.begin[at]) if at < len(self.begin) else end
            if begin < low:
                yield begin, min(low, end)
            begin = max(begin, int(self.end[at])) if at < len(self.begin) else end


@dataclass(frozen=True)
class Stray:
    """Instruction ``instruction`` of the program changed DRAM bytes ``[begin, end)``, which no segment holds."""

    instruction: int
    begin: int
    end: int


def extents(program: Program) -> Extents | None:
    """What the program's segments cover, in whole granules; None where it has none, as a bare stream."""
    whole = program.granularity
    if program.windows and whole >= program.dram_bytes:
        spans = sorted((window.address, window.address + window.bytes) for window in program.windows)
    else:
        spans = sorted(
            (s.address // whole * whole, -(-(s.address + s.nbytes) // whole) * whole) for s in program.segments.values()
        )
    if not spans:
        return None
    merged = [spans[0]]
    for begin, end in spans[1:]:
        if begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return Extents(*np.array(merged, np.int64).T.copy())


def accesses_outside(boxes: Boxes, inside: Extents) -> Iterator[tuple[int, int, int]]:
    """What accesses touch out of the segments: index of the box, first byte, and the one after the last.

    They come row by row in the order of the program.
    """
    height, stride = boxes.rows, boxes.row_stride
    whole: Int64 = boxes.begin + stride * np.maximum(height - 1, 0) + boxes.row_bytes
    open_ = np.flatnonzero((height * boxes.row_bytes > 0) & ~inside.hold(boxes.begin, whole))
    for part in _parts(open_, height):
        of = np.repeat(part, height[part])
        first = np.cumsum(height[part]) - height[part]
        row = np.arange(len(of)) - np.repeat(first, height[part])
        low = boxes.begin[of] + row * stride[of]
        high: Int64 = low + boxes.row_bytes[of]
        for at in np.flatnonzero(~inside.hold(low, high)).tolist():
            for gap in inside.gaps(int(low[at]), int(high[at])):
                yield int(of[at]), *gap


def _parts(items: Int64, rows: Int64) -> list[Int64]:
    """``items`` in runs of not much more than ``_ROWS`` rows together."""
    if not len(items):
        return []
    total = np.cumsum(rows[items])
    return np.split(items, np.flatnonzero(np.diff(total // _ROWS)) + 1)
