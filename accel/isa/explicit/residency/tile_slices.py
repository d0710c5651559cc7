"""Slices of a launch: the instructions that each of its stores needs, so that its tiles can run in another order."""

from collections.abc import Iterator, Sequence

import numpy as np

from accel.accelerator.instructions import Compute, Copy
from accel.accelerator.shared_bytes import cells_of
from accel.isa.decode import Decoded
from accel.isa.explicit.accesses import AccessBox, boxes_of_executions
from accel.isa.explicit.operations import executions_of
from accel.util.arrays import Bools, Int64

_NOBODY = -1


def tile_slices(decoded: Decoded) -> list[Int64] | None:
    """Returns the tiles of a launch as places of its instructions (n,), in the order of their first stores.

    A tile's instructions, in the order of the program, leave in DRAM what they leave there within the launch, whatever
    the memories held before. A load that several tiles need is in each of them; tiles that share a compute are one.
    What no store needs is in none. None where something is neither a copy nor a compute: its order is its own matter.
    """
    instructions = decoded.accelerator.instructions
    kinds = set(decoded.kind.tolist())
    if any(not isinstance(instructions[kind], Copy | Compute) or instructions[kind].sequence for kind in kinds):
        return None
    needs = _Needs(decoded)
    stores = np.flatnonzero(_having(decoded, "store")).tolist()
    loads = _having(decoded, "load")
    tile_of: dict[int, int] = {}
    tiles: dict[int, set[int]] = {}
    for store in stores:
        own = needs.of(store)
        shared = {tile_of[at] for at in own if at in tile_of and not loads[at]}
        for tile in shared:
            own |= tiles.pop(tile)
        number = min([store, *shared])
        tiles[number] = own
        tile_of.update(dict.fromkeys(own, number))
    return [np.array(sorted(tiles[number]), np.int64) for number in sorted(tiles)]


def _having(decoded: Decoded, direction: str) -> Bools:
    """Which instructions are copies of a direction (n,)."""
    found = [isinstance(each, Copy) and each.direction == direction for each in decoded.accelerator.instructions]
    return np.array(found, np.bool_)[decoded.kind]


class _Needs:
    """Of each instruction of a launch those that left on the chip what it reads there."""

    def __init__(self, decoded: Decoded) -> None:
        accelerator = decoded.accelerator
        self._cells = cells_of(accelerator)
        self._count = len(accelerator.memories)
        sizes = zip(accelerator.memories, self._cells, strict=True)
        writer = [np.full(memory.depth * cells.each, _NOBODY, np.int64) for memory, cells in sizes]
        self._direct: list[list[int]] = []
        for accesses in self._accesses(decoded):
            found = [np.unique(writer[memory][points]) for memory, points, reads, _ in accesses if reads]
            self._direct.append([at for each in found for at in each.tolist() if at != _NOBODY])
            for memory, points, _, writes in accesses:
                if writes:
                    writer[memory][points] = len(self._direct) - 1

    def of(self, at: int) -> set[int]:
        """Returns an instruction with all that it needs."""
        found, left = {at}, [at]
        while left:
            more = [each for each in self._direct[left.pop()] if each not in found]
            found.update(more)
            left += more
        return found

    def _accesses(self, decoded: Decoded) -> Iterator[Sequence[tuple[int, Int64, bool, bool]]]:
        """By instruction what it touches on the chip: memory, the cells (n,) there, whether it reads, and writes."""
        found: list[list[tuple[int, Int64, bool, bool]]] = [[] for _ in range(len(decoded))]
        for executions in executions_of(decoded):
            for box in boxes_of_executions(executions):
                if box.memory >= self._count:
                    continue
                own, some = box.in_cells(self._cells), box.some()
                for place, row in enumerate(own.words.rows.tolist()):
                    if some[place]:
                        found[row].append((own.memory, _points(own, place), own.reads, own.writes))
        yield from found


def _points(box: AccessBox, place: int) -> Int64:
    """The elements (n,) that one access of a box touches."""
    points = np.array([int(box.begin[place])], np.int64)
    for extent, step in zip(box.extents[:, place].tolist(), box.steps[:, place].tolist(), strict=True):
        points = (points[:, np.newaxis] + np.arange(extent, dtype=np.int64) * step).reshape(-1)
    points = (points[:, np.newaxis] + np.arange(int(box.span[place]), dtype=np.int64)).reshape(-1)
    return np.unique(points)
