"""Depth-first order: consecutive launches of a row run stripe by stripe, so that what lies between them stays small.

A launch's tiles are told apart by what each of their stores needs, and of what the tiles before have left in DRAM. A
stripe is some tiles of the last launch of a chain, with the tiles before it that these need and that have not run.
Nothing is computed twice: rows that two stripes read are kept from the one to the other. What a launch loads for all
its tiles, as weights, is loaded again in a stripe if another launch took its place; where there is room, none does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby

import numpy as np

from accel.isa.decode import Decoded, decode
from accel.isa.family import Boxes, KeepsResults
from accel.program.program_model import Launch, Segment
from accel.util.arrays import Int64, Words

_NOBODY = -1


@dataclass(frozen=True)
class Chain:
    """Launches ``[first, last]`` of a row, by their places, that run in so many stripes of the last one."""

    first: int
    last: int
    stripes: int


@dataclass(frozen=True)
class StripedRow:
    """A row in another order: its launches, cut; their instructions' counts; and where each instruction stood (n,)."""

    launches: Sequence[Launch]
    counts: Sequence[int]
    place: Int64


class _OrderUnknownError(Exception):
    """What the accesses of DRAM are of, or their order, is not what a depth-first order goes by."""


class TiledRow:
    """A row of launches that run as one, as tiles, and of each tile those that must run before it."""

    def __init__(
        self,
        launches: Sequence[Launch],
        tiles: Sequence[Int64],
        decoded: Decoded,
        boxes: Boxes,
        results: Sequence[Segment],
        family: KeepsResults,
    ) -> None:
        """Find which tiles need which, and places for the launches' buffers.

        Raises:
            _OrderUnknownError: an instruction stores to no result, a result is stored over once it was read, or
                launches share an instruction.
        """
        self._launches, self._tiles, self._family = launches, tiles, family
        ends = np.cumsum([launch.count for launch in launches])
        self._launch = [int(np.searchsorted(ends, tile[-1], "right")) for tile in tiles]  # a store is the last
        self._needs = _needs(tiles, boxes, results)
        moved = np.bincount(boxes.instruction, boxes.rows * boxes.row_bytes * boxes.write, minlength=int(ends[-1]))
        self._stored = [int(moved[tile].sum()) for tile in tiles]
        whose = np.searchsorted(ends, np.arange(len(decoded)), "right")
        for tile, launch in zip(tiles, self._launch, strict=True):
            whose[tile] = launch
        if any((whose[tile] != launch).any() for tile, launch in zip(tiles, self._launch, strict=True)):
            raise _OrderUnknownError
        moved_words, self._moved = family.buffers_apart(decoded, whose)
        self._decoded = decode(decoded.accelerator, moved_words)

    def words(self, order: Int64) -> Words:
        """Returns the instructions (n, words_each) of an order."""
        return self._decoded.words[order]

    def names(self, first: int, last: int) -> tuple[str, ...]:
        """Returns what launches ``[first, last]`` are called."""
        return tuple(launch.name for launch in self._launches[first : last + 1])

    @property
    def launches(self) -> int:
        """How many launches it has."""
        return len(self._launches)

    def tiles_of(self, launch: int) -> int:
        """Returns how many tiles a launch has."""
        return self._launch.count(launch)

    def ordered_alone(self, part: Chain) -> Int64:
        """Returns where the instructions of a chain stand (n,), in the order of its stripes; one is layer by layer."""
        place = np.concatenate([self._instructions(step) for step in self._stripes(part, set())])
        return place[self._family.needed_loads(self._decoded, place)]

    def _instructions(self, tiles: Sequence[int]) -> Int64:
        return np.unique(np.concatenate([self._tiles[tile] for tile in tiles]))

    def ordered(self, chains: Sequence[Chain]) -> StripedRow:
        """Returns the row in which ``chains``, of which no two have a launch in common, run stripe by stripe."""
        parts = self._steps(sorted(chains, key=lambda each: each.first))
        steps = [[*chain.from_iterable(group)] for _, group in groupby(parts, key=lambda part: self._launch[part[0]])]
        runs = [self._launch[step[0]] for step in steps]
        place = [self._instructions(step) for step in steps]
        launches = list(self._cut(runs, steps))
        whole = np.concatenate(place)
        kept = self._family.needed_loads(self._decoded, whole)
        ends = np.cumsum([len(each) for each in place])
        counts = np.diff(np.concatenate([[0], np.cumsum(kept)[ends - 1]])).tolist()
        return StripedRow(launches, counts, whole[kept])

    def _cut(self, runs: Sequence[int], steps: Sequence[Sequence[int]]) -> Iterator[Launch]:
        """The launches of tiles that run one after the other; ``runs`` are those that they are of."""
        parts, made = dict[int, list[int]](), set[str]()
        results = {name for each in self._launches for name in each.outputs}
        for launch, step in zip(runs, steps, strict=True):
            own, first = self._launches[launch], not parts
            bytes_before = sum(parts.setdefault(launch, []))
            parts[launch].append(sum(self._stored[tile] for tile in step))
            whole = max(1, sum(self._stored[tile] for tile in self._of(launch)))
            before, done = (own.macs * each // whole for each in (bytes_before, sum(parts[launch])))
            yield replace(
                own,
                name=own.name if runs.count(launch) == 1 else f"{own.name}#{len(parts[launch])}",
                macs=done - before,
                inputs=tuple(name for name in own.inputs if name not in results or name in made),
                joined=self._launches[0].joined if first else True,
                writes=self._launches[0].writes if first else (),
                moved={memory: int(offset[launch]) for memory, offset in self._moved.items() if offset[launch]},
            )
            made.update(own.outputs)

    def _of(self, launch: int) -> list[int]:
        return [tile for tile, whose in enumerate(self._launch) if whose == launch]

    def _steps(self, chains: Sequence[Chain]) -> Iterator[list[int]]:
        """Tiles that run one after the other, each list of one launch."""
        done, launch = set[int](), 0
        for part in chains:
            yield from self._whole(range(launch, part.first))
            done.update(tile for each in range(launch, part.first) for tile in self._of(each))
            yield from self._stripes(part, done)
            launch = part.last + 1
        yield from self._whole(range(launch, len(self._launches)))

    def _stripes(self, part: Chain, done: set[int]) -> Iterator[list[int]]:
        """Tiles of a chain, each list of one launch; ``done`` are those that have run, and have when it ends."""
        own = {tile for each in range(part.first, part.last + 1) for tile in self._of(each)}
        stripes = np.array_split(np.array(self._of(part.last)), part.stripes) if part.stripes > 1 else []
        for stripe in [*(each.tolist() for each in stripes), sorted(own)]:
            needed = self._with_needs(stripe) & own - done
            yield from self._by_launch(needed)
            done |= needed

    def _whole(self, launches: range) -> Iterator[list[int]]:
        yield from (tiles for tiles in map(self._of, launches) if tiles)

    def _by_launch(self, tiles: set[int]) -> Iterator[list[int]]:
        for _, group in groupby(sorted(tiles), key=lambda tile: self._launch[tile]):
            yield list(group)

    def _with_needs(self, tiles: Sequence[int]) -> set[int]:
        found, left = set(tiles), list(tiles)
        while left:
            more = self._needs[left.pop()] - found
            found |= more
            left += more
        return found


def tiled_row(
    decoded: Decoded, launches: Sequence[Launch], segments: Mapping[str, Segment], family: KeepsResults, boxes: Boxes
) -> TiledRow | None:
    """Returns the tiles of a row; None where they cannot be told apart, or their order in DRAM is not known."""
    tiles = family.tile_slices(decoded)
    if not tiles:
        return None
    names = dict.fromkeys(name for launch in launches for name in launch.outputs)
    try:
        row = TiledRow(launches, tiles, decoded, boxes, [segments[name] for name in names], family)
    except _OrderUnknownError:
        return None
    return row if all(row.tiles_of(launch) for launch in range(len(launches))) else None


def _needs(tiles: Sequence[Int64], boxes: Boxes, results: Sequence[Segment]) -> list[set[int]]:
    """Of each tile those that store what it reads."""
    whose: dict[int, list[int]] = {}
    for number, tile in enumerate(tiles):
        for at in tile.tolist():
            whose.setdefault(at, []).append(number)
    needs: list[set[int]] = [set() for _ in tiles]
    dram = [_Bytes(segment, boxes) for segment in sorted(results, key=lambda segment: segment.address)]
    for box, (low, high) in enumerate(zip(*(each.tolist() for each in boxes.hulls()), strict=True)):
        owners = whose.get(int(boxes.instruction[box]), [])
        met = [each for each in dram if low < each.end and each.begin < high]
        if boxes.write[box] and (len(met) != 1 or low < met[0].begin or met[0].end < high):
            raise _OrderUnknownError
        for each in met:
            units = each.units(boxes, box)
            if boxes.write[box]:
                before = each.stored(units, owners[0])
                needs[owners[0]] |= before
            else:
                before = each.read(units)
                for owner in owners:
                    needs[owner] |= before - {owner}
    return needs


class _Bytes:
    """The bytes of a result, in the largest units that no access parts: which tile stored each, and if it was read."""

    def __init__(self, segment: Segment, boxes: Boxes) -> None:
        self.begin, self.end = segment.address, segment.address + segment.nbytes
        low, high = boxes.hulls()
        here = (low < self.end) & (high > self.begin)
        stride = np.where(boxes.rows > 1, boxes.row_stride, 0)
        edges = np.concatenate([boxes.begin[here] - self.begin, boxes.row_bytes[here], stride[here], [segment.nbytes]])
        self._unit = int(np.gcd.reduce(edges))
        self._tile = np.full(segment.nbytes // self._unit, _NOBODY, np.int64)
        self._read = np.zeros(len(self._tile), np.bool_)

    def units(self, boxes: Boxes, box: int) -> Int64:
        """Returns the units (n,) that an access touches."""
        begin, count = (int(boxes.begin[box]) - self.begin) // self._unit, int(boxes.row_bytes[box]) // self._unit
        rows = np.arange(int(boxes.rows[box]), dtype=np.int64)[:, np.newaxis] * (
            int(boxes.row_stride[box]) // self._unit
        )
        units = (begin + rows + np.arange(count, dtype=np.int64)).reshape(-1)
        return np.asarray(units[(units >= 0) & (units < len(self._tile))])

    def stored(self, units: Int64, tile: int) -> set[int]:
        """Note a store; returns the tiles that had stored there."""
        if self._read[units].any():
            raise _OrderUnknownError
        before = set(np.unique(self._tile[units]).tolist()) - {_NOBODY, tile}
        self._tile[units] = tile
        return before

    def read(self, units: Int64) -> set[int]:
        """Note a load; returns the tiles that have stored there."""
        self._read[units] = True
        return set(np.unique(self._tile[units]).tolist()) - {_NOBODY}
