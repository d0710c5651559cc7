"""Slices of a launch: the instructions that each of its stores needs, so that its tiles can run in another order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accel.accelerator.instructions import Compute, Copy
from accel.accelerator.shared_bytes import cells_of
from accel.isa.decode import Decoded
from accel.isa.explicit.hazards.accesses import AccessBox, boxes_of_executions
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
    needs = _direct_needs(decoded)
    loads = _having(decoded, "load")
    tile_of: dict[int, int] = {}
    tiles: dict[int, set[int]] = {}
    for store in np.flatnonzero(_having(decoded, "store")).tolist():
        own = _with_needs(store, needs)
        shared = {tile_of[at] for at in own if at in tile_of and not loads[at]}
        for tile in shared:
            own |= tiles.pop(tile)
        number = min([store, *shared])
        tiles[number] = own
        tile_of.update(dict.fromkeys(own, number))
    return [np.array(sorted(tiles[number]), np.int64) for number in sorted(tiles)]


def needed_loads(decoded: Decoded, order: Int64) -> Bools:
    """Returns which of instructions in an order (n,), with repetitions, are no loads of what is still on the chip.

    What a load brings lies in DRAM unchanged from the first time to the last, so that equal words bring the same.
    """
    loads, touched, held = _having(decoded, "load"), decoded.derived(_touched_cells), _cells(decoded)
    _, same = np.unique(decoded.words, axis=0, return_inverse=True)
    what = same.reshape(-1).tolist()
    kept = np.ones(len(order), np.bool_)
    for number, at in enumerate(order.tolist()):
        written = [each for each in touched[at] if each.writes]
        if loads[at] and all((held[each.memory][each.cells] == what[at]).all() for each in written):
            kept[number] = False
            continue
        for each in written:
            held[each.memory][each.cells] = what[at] if loads[at] else _NOBODY
    return kept


def _having(decoded: Decoded, direction: str) -> Bools:
    """Which instructions are copies of a direction (n,)."""
    found = [isinstance(each, Copy) and each.direction == direction for each in decoded.accelerator.instructions]
    return np.array(found, np.bool_)[decoded.kind]


def _cells(decoded: Decoded) -> list[Int64]:
    """Of each memory its cells, by whom they were written: by nobody yet."""
    memories = decoded.accelerator.memories
    sizes = zip(memories, cells_of(decoded.accelerator), strict=True)
    return [np.full(memory.depth * cells.each, _NOBODY, np.int64) for memory, cells in sizes]


def _direct_needs(decoded: Decoded) -> list[list[int]]:
    """Of each instruction those that left on the chip what it reads there."""
    writer, needs = _cells(decoded), list[list[int]]()
    for at, touched in enumerate(decoded.derived(_touched_cells)):
        found = [np.unique(writer[each.memory][each.cells]) for each in touched if each.reads]
        needs.append([other for each in found for other in each.tolist() if other != _NOBODY])
        for each in touched:
            if each.writes:
                writer[each.memory][each.cells] = at
    return needs


def _with_needs(at: int, needs: Sequence[Sequence[int]]) -> set[int]:
    """An instruction with all that it needs."""
    found, left = {at}, [at]
    while left:
        more = [each for each in needs[left.pop()] if each not in found]
        found.update(more)
        left += more
    return found


@dataclass(frozen=True)
class _Touched:
    """Cells (n,) of a memory that an instruction reads or writes."""

    memory: int
    cells: Int64
    reads: bool
    writes: bool


def _touched_cells(decoded: Decoded) -> list[list[_Touched]]:
    """By instruction what it touches on the chip."""
    found: list[list[_Touched]] = [[] for _ in range(len(decoded))]
    all_cells = cells_of(decoded.accelerator)
    for executions in executions_of(decoded):
        for box in boxes_of_executions(executions):
            if box.memory >= len(all_cells):
                continue
            own, some = box.in_cells(all_cells), box.some()
            for place, row in enumerate(own.words.rows.tolist()):
                if some[place]:
                    found[row].append(_Touched(own.memory, _points(own, place), own.reads, own.writes))
    return found


def _points(box: AccessBox, place: int) -> Int64:
    """The elements (n,) that one access of a box touches."""
    points = np.array([int(box.begin[place])], np.int64)
    for extent, step in zip(box.extents[:, place].tolist(), box.steps[:, place].tolist(), strict=True):
        points = (points[:, np.newaxis] + np.arange(extent, dtype=np.int64) * step).reshape(-1)
    points = (points[:, np.newaxis] + np.arange(int(box.span[place]), dtype=np.int64)).reshape(-1)
    return np.unique(points)
