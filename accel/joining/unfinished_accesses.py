"""Accesses of instructions that some unit does not know to have ended, and which of them another access must follow."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from accel.isa.decode import Decoded
from accel.isa.family import Boxes, Family, Touches
from accel.joining.token_stream import TokenStream
from accel.util.arrays import Int64

_FIRST_BATCH = 64  # instructions whose accesses are asked for at once; twice as many each time
_CHIP = 6
_UNIT, _RANK, _MEMORY, _BEGIN, _END, _WRITE = range(_CHIP)
_DRAM = 7
_ROWS, _STRIDE, _BYTES, _WRITES = range(3, _DRAM)  # behind unit, rank and begin
_FROM = 2


@dataclass(frozen=True)
class Accesses:
    """Accesses by instructions, a row each: of the chip (m, 6), and of DRAM (d, 7).

    Columns: unit, rank, memory, begin, end, whether it writes; of DRAM: unit, rank, first byte, rows, bytes from row
    to row, bytes of a row, whether it writes.
    """

    chip: Int64
    dram: Int64

    @classmethod
    def none(cls) -> "Accesses":
        """There are none."""
        return cls(np.zeros((0, _CHIP), np.int64), np.zeros((0, _DRAM), np.int64))

    def __add__(self, other: "Accesses") -> "Accesses":
        return Accesses(np.concatenate([self.chip, other.chip]), np.concatenate([self.dram, other.dram]))

    def unfinished(self, known: Int64) -> "Accesses":
        """Returns the accesses of instructions behind the ``known`` (units,) ones of their units."""
        chip, dram = (table[table[:, _RANK] > known[table[:, _UNIT]]] for table in (self.chip, self.dram))
        return Accesses(chip, dram)

    def awaited_by(self, later: "Accesses", unit: int) -> dict[int, int]:
        """Returns the last rank of each other unit with an access that one of ``later``, of ``unit``, must follow."""
        found: dict[int, int] = {}
        for access in later.chip:
            chip = self.chip
            both = (chip[:, _MEMORY] == access[_MEMORY]) & (chip[:, _BEGIN] < access[_END])
            both &= (chip[:, _END] > access[_BEGIN]) & ((chip[:, _WRITE] | access[_WRITE]) != 0)
            _latest(found, chip[both])
        for access in later.dram:
            dram = self.dram[(self.dram[:, _WRITES] | access[_WRITES]) != 0]
            _latest(found, dram[[_share(each, access) for each in dram]] if len(dram) else dram)
        found.pop(unit, None)
        return found


def _latest(found: dict[int, int], table: Int64) -> None:
    for unit in np.unique(table[:, _UNIT]).tolist():
        found[unit] = max(found.get(unit, -1), int(table[table[:, _UNIT] == unit, _RANK].max()))


def _share(one: Int64, other: Int64) -> bool:
    """Whether two accesses of DRAM touch one byte."""
    (begin, end), (first, last) = _hull(one), _hull(other)
    if begin >= last or first >= end:
        return False
    rows, others = (each[_FROM] + np.arange(each[_ROWS]) * each[_STRIDE] for each in (one, other))
    meet = (rows[:, None] < others + other[_BYTES]) & (others < rows[:, None] + one[_BYTES])
    return bool(meet.any())


def _hull(access: Int64) -> tuple[int, int]:
    reach = int((access[_ROWS] - 1) * access[_STRIDE])
    begin = int(access[_FROM])
    return begin + min(reach, 0), begin + max(reach, 0) + int(access[_BYTES])


TouchesOf = Callable[[Int64], Touches]
"""What some instructions (m,) of a launch touch on the chip."""


class StreamAccesses:
    """The accesses of a launch, asked for in batches of instructions as they are needed."""

    def __init__(self, stream: TokenStream, ranks: Int64, family: Family, touches: TouchesOf) -> None:
        self._stream, self._ranks, self._touches = stream, ranks, touches
        self._boxes = stream.decoded.derived(family.boxes)

    def first(self) -> Iterator[Accesses]:
        """Yields the accesses of one instruction after the other."""
        begin, size = 0, _FIRST_BATCH
        while begin < self._stream.count:
            rows = np.arange(begin, min(begin + size, self._stream.count))
            chip, dram, by_chip, by_dram = self._tables(rows)
            for row in rows.tolist():
                yield Accesses(chip[by_chip == row], dram[by_dram == row])
            begin, size = begin + size, 2 * size

    def unfinished(self, known: Int64) -> Accesses:
        """Returns those of instructions behind the ones ``known`` (units,) of their units."""
        unit = np.array(self._stream.unit, np.int64)
        chip, dram, _, _ = self._tables(np.flatnonzero(self._ranks[: len(unit)] > known[unit]))
        return Accesses(chip, dram)

    def _tables(self, rows: Int64) -> tuple[Int64, Int64, Int64, Int64]:
        """Both tables of some instructions, and which instruction each access is by."""
        touches = self._touches(rows)
        chip = [touches.memory, touches.begin, touches.end, touches.write]
        boxes = self._boxes.of(np.isin(self._boxes.instruction, rows))
        dram = [boxes.begin, boxes.rows, boxes.row_stride, boxes.row_bytes, boxes.write]
        return (
            np.stack([*self._whose(touches.instruction), *(np.asarray(column, np.int64) for column in chip)], 1),
            np.stack([*self._whose(boxes.instruction), *(np.asarray(column, np.int64) for column in dram)], 1),
            touches.instruction,
            boxes.instruction,
        )

    def _whose(self, instructions: Int64) -> tuple[Int64, Int64]:
        unit = np.array(self._stream.unit, np.int64)[instructions]
        return unit, self._ranks[instructions]


def stores_by(decoded: Decoded, boxes: Boxes) -> set[str]:
    """Returns the units that write DRAM."""
    kinds = np.unique(decoded.kind[boxes.writes().instruction]).tolist()
    return {decoded.accelerator.instructions[kind].unit for kind in kinds}
