"""How far tiles overlap where units wait for one another within a tile.

A unit does its instructions in their order. If one of them waits for another unit, and that has waited for the first
one in the same tile, the next tile's wait too: as where a load comes into a buffer that its tile has computed with.
"""

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Protocol

import numpy as np

from accel.util.arrays import Float64


class Use(Protocol):
    """What a tile does with its buffers in one step."""

    @property
    def unit(self) -> str:
        """The unit that does it."""

    @property
    def writes(self) -> str:
        """What it writes."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The buffers that it reads."""


def units_alternate(uses: Sequence[Use]) -> bool:
    """Returns whether a unit waits within a tile for one that waits for it."""
    graph: dict[str, set[str]] = {}
    for unit, other in _awaited(uses):
        graph.setdefault(unit, set()).add(other)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return True
    return False


def cycles_of_further_tiles(uses: Sequence[Use], cycles: Float64, contexts: int) -> Float64:
    """Returns what each further tile takes [n], of steps that take ``cycles`` [steps, n], but for a bus.

    Tiles are walked one behind the other, of each buffer ``contexts`` copies: as many to begin with, and as many more.
    """
    units: dict[str, Float64] = {}
    written: dict[tuple[str, int], Float64] = {}
    read: dict[tuple[str, int], Float64] = {}
    ends: list[Float64] = []
    none = np.zeros(cycles.shape[1])
    for number in range(2 * contexts):
        copy = number % contexts
        for use, own in zip(uses, cycles, strict=True):
            start = np.maximum(units.get(use.unit, none), read.get((use.writes, copy), none))
            for name in (use.writes, *use.reads):
                if (name, copy) in written:
                    start = np.maximum(start, written[name, copy])
            end = units[use.unit] = written[use.writes, copy] = start + own
            for name in use.reads:
                read[name, copy] = np.maximum(read.get((name, copy), none), end)
        ends.append(np.max([*units.values()], axis=0))
    return np.asarray((ends[-1] - ends[contexts - 1]) / contexts)


def _awaited(uses: Sequence[Use]) -> Iterator[tuple[str, str]]:
    """Yields each unit with others that it waits for: for what they write, or what they read where it writes."""
    for number, use in enumerate(uses):
        buffers = {use.writes, *use.reads}
        for before in uses[:number]:
            if before.unit != use.unit and (before.writes in buffers or use.writes in before.reads):
                yield use.unit, before.unit
