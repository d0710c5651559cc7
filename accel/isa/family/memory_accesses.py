"""Accesses of a launch: boxes of DRAM, and ranges of memories on the chip."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from accel.util.arrays import Bools, Int64


@dataclass(frozen=True)
class Boxes:
    """Accesses of DRAM by n instructions or parts of them: (n,) each, in the order of the program.

    Access i, by ``instruction[i]`` (an index into the launch), is of ``rows[i]`` rows of ``row_bytes[i]`` bytes, the
    first at byte ``begin[i]`` and ``row_stride[i]`` bytes from one to the next. ``write[i]``: it writes DRAM.
    """

    instruction: Int64
    begin: Int64
    rows: Int64
    row_stride: Int64
    row_bytes: Int64
    write: Bools

    def writes(self) -> "Boxes":
        """Returns the boxes that are written to DRAM."""
        return self.of(self.write)

    def hulls(self) -> tuple[Int64, Int64]:
        """Returns where the bytes of each access begin and end (n,), whatever lies between its rows."""
        reach = (self.rows - 1) * self.row_stride
        return self.begin + np.minimum(reach, 0), self.begin + np.maximum(reach, 0) + self.row_bytes

    def single_rows(self) -> "Boxes":
        """Returns the rows of the boxes, each as a box of its own, in their order."""
        which = np.repeat(np.arange(len(self.rows)), self.rows)
        number = np.arange(len(which)) - np.repeat(np.cumsum(self.rows) - self.rows, self.rows)
        return Boxes(
            self.instruction[which],
            self.begin[which] + number * self.row_stride[which],
            np.ones_like(which),
            self.row_stride[which],
            self.row_bytes[which],
            self.write[which],
        )

    def meet(self, others: "Boxes") -> bool:
        """Returns whether any has a byte between its first and its last one where one of ``others`` has."""
        (begins, ends), (firsts, lasts) = self.hulls(), others.hulls()
        return bool(((begins[:, None] < lasts) & (firsts < ends[:, None])).any())

    def of(self, which: Bools) -> "Boxes":
        """Returns the boxes for which ``which`` (accesses,) is true."""
        at = np.flatnonzero(which)
        return Boxes(
            self.instruction[at], self.begin[at], self.rows[at], self.row_stride[at], self.row_bytes[at], self.write[at]
        )


ReadDram = Callable[[int, int], bytes]
"""The bytes of DRAM from an address on, so many, as a program's image has them before it runs."""


@dataclass(frozen=True)
class Touches:
    """Ranges of on-chip memories that instructions access, (ranges,) each: what lies between may be among them.

    Range i, by ``instruction[i]`` (an index into the launch), is of elements ``begin[i]`` to ``end[i]`` (exclusive) of
    ``memory[i]``, an index into the document's memories. ``write[i]``: it writes, and may read too.
    """

    instruction: Int64
    memory: Int64
    begin: Int64
    end: Int64
    write: Bools

    def of(self, which: Bools) -> "Touches":
        """Returns the ranges for which ``which`` (ranges,) is true."""
        at = np.flatnonzero(which)
        return Touches(self.instruction[at], self.memory[at], self.begin[at], self.end[at], self.write[at])


def dram_traffic(boxes: Boxes) -> tuple[int, int]:
    """Bytes read and bytes written by the copies of a launch; fetching instructions is not counted."""
    moved = boxes.rows * boxes.row_bytes
    return int(moved[~boxes.write].sum()), int(moved[boxes.write].sum())
