"""Stretches of DRAM that accesses may touch: a quick answer to which of them can meet others at all."""

from dataclasses import dataclass

import numpy as np

from accel.isa.family import Boxes
from accel.util.arrays import Bools, Int64


@dataclass(frozen=True)
class Stretches:
    """Bytes of DRAM ``[begin, end)``, (stretches,) each, sorted and merged."""

    begin: Int64
    end: Int64

    @classmethod
    def of(cls, boxes: Boxes) -> "Stretches":
        """Returns all between the first and the last byte of each box."""
        begin, end = boxes.hulls()
        order = np.argsort(begin, kind="stable")
        begin, reach = begin[order], np.maximum.accumulate(end[order])
        if not len(begin):
            return cls(begin, reach)
        first = np.flatnonzero(np.concatenate([[True], begin[1:] > reach[:-1]]))
        return cls(begin[first], np.maximum.reduceat(reach, first))

    def meet(self, boxes: Boxes) -> Bools:
        """Returns which boxes (n,) have a byte between their first and their last one here."""
        begin, end = boxes.hulls()
        if not len(self.begin):
            return np.zeros(len(begin), np.bool_)
        at = np.searchsorted(self.begin, end) - 1
        return np.asarray((at >= 0) & (self.end[np.maximum(at, 0)] > begin))
