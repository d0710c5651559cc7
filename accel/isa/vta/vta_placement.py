"""Places on the chip for launches that run as one: buffers beside each other's, and one table of micro-ops for all.

Each launch was compiled as if it had the memories to itself, so that all begin where the memories do, and one could
load nothing before the one before it is done there. Here each launch's elements lie behind those of the launch before
it, where there is room. Micro-ops say where operands lie, so that they are written anew. The tables of launches become
one, in which equal ranges lie once; the first launch loads it for all of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from accel.accelerator.field_bits import put_field
from accel.accelerator.instructions import Compute, Copy
from accel.isa.decode import Decoded
from accel.isa.family import PlacedLaunch, ReadDram, Touches
from accel.isa.vta.document.instruction_view import instructions_of
from accel.isa.vta.function import functional_table as f
from accel.isa.vta.function.functional_table import microop_places
from accel.isa.vta.function.launch_table import launch_table
from accel.isa.vta.vta_buffer_places import BufferPlaces, Footprint, Moves
from accel.isa.vta.vta_load_parts import nominal
from accel.isa.vta.vta_more_contexts import is_bound_by_weights, with_more_contexts
from accel.isa.vta.vta_split_end import with_split_end
from accel.isa.vta.vta_touches import all_touches, microops_at, touches_of
from accel.util.arrays import Int64, Words

_WORD = 4  # bytes of a micro-op

StoreTable = Callable[[bytes], int]
"""Gives a table of micro-ops a place in DRAM, and returns its address."""


class _DoesNotFitError(Exception):
    """A field or a memory that does not hold what would come there."""


def placed_launches(launches: Sequence[Decoded], read: ReadDram, store: StoreTable) -> list[PlacedLaunch]:
    """Returns launches that run one after the other, at places of their own.

    A launch stays where it is, and loads its own table, where that is not loaded once and before all else that
    computes. Then the launches behind it have another table.
    """
    return _Row(launches, read).placed(store)


@dataclass
class _Table:
    """A table of micro-ops in the making, and the launches that walk it: the first one loads it."""

    most: int
    data: bytes = b""
    launches: list[int] = field(default_factory=list)

    def with_ranges(self, ranges: Sequence[Int64]) -> "tuple[_Table, list[int]]":
        """Returns a table that has the ranges of micro-ops too, and where each lies."""
        data, found = bytearray(self.data), []
        for microops in ranges:
            words, at = microops.astype("<u4").tobytes(), -1
            while (at := data.find(words, at + 1)) >= 0 and at % _WORD:
                pass
            found.append((len(data) if at < 0 else at) // _WORD)
            data += words if at < 0 else b""
        if len(data) > self.most * _WORD:
            raise _DoesNotFitError
        return replace(self, data=bytes(data)), found


@dataclass(frozen=True)
class _Own:
    """A launch as it was compiled, but for its end: its table (n, TABLE), and where its instructions stood (n,).

    ``load`` is the row that loads its ``microops``; it touches ``touches``.
    """

    decoded: Decoded
    order: Int64
    table: Int64
    load: int
    microops: Int64
    touches: Touches
    footprint: Footprint

    @classmethod
    def of(cls, decoded: Decoded, following: Decoded | None, read: ReadDram) -> "_Own | None":
        """None of one whose micro-ops are not loaded once, and first."""
        table = launch_table(decoded)
        loads, computes = np.flatnonzero(table[:, f.OP] == f.LOAD_UOP), np.flatnonzero(table[:, f.OP] >= f.GEMM)
        if len(loads) != 1 or not len(computes) or loads[0] > computes[0]:
            return None
        load = table[loads[0]]
        if load[f.SRAM] or load[f.HEIGHT] * load[f.WIDTH] != load[f.ROWS] * load[f.COLUMNS]:
            return None
        microops = microops_at(load, read)
        if (table[computes, f.BEGIN] + table[computes, f.COUNT]).max() > len(microops):
            return None
        split = with_split_end(decoded, microops, following)
        touches = all_touches(split.decoded, split.microops)
        table = launch_table(split.decoded)
        footprint = Footprint.of(table, touches, len(decoded.accelerator.memories))
        return cls(split.decoded, split.order, table, int(loads[0]), split.microops, touches, footprint)

    def with_contexts(self, weights: int, room: int) -> "_Own":
        """Returns it with more contexts of weights in so much room, if it waits for them."""
        if not is_bound_by_weights(self.decoded, nominal(self.decoded.accelerator).dram.bus_bytes):
            return self
        touches, parts = self.touches.of(self.touches.memory == weights), self.footprint.parts
        more = with_more_contexts(self.decoded, self.microops, touches, parts[weights], room)
        if more is None:
            return self
        decoded, microops = more
        touches, table = all_touches(decoded, microops), launch_table(decoded)
        footprint = Footprint.of(table, touches, len(parts))
        return _Own(decoded, self.order, table, self.load, microops, touches, footprint)


class _Row:
    """Launches one after the other, and what is found for them."""

    def __init__(self, launches: Sequence[Decoded], read: ReadDram) -> None:
        accelerator = launches[0].accelerator
        vta, names = instructions_of(accelerator), [memory.name for memory in accelerator.memories]
        self._accelerator, self._launches, self._names = accelerator, launches, names
        pairs = zip(launches, [*launches[1:], None], strict=True)
        self._own = [_Own.of(launch, following, read) for launch, following in pairs]
        self._read = read
        self._depths = np.array([memory.depth for memory in accelerator.memories])
        self._operands = [names.index(name) for name in (vta.results, vta.data, vta.weights)]
        self._microops = names.index(vta.microops)
        copies = [each for each in accelerator.instructions if isinstance(each, Copy)]
        self._load = next(each for each in copies if each.direction == "load" and each.memory == vta.microops)
        self._places = [
            BufferPlaces(memory.depth, loaded=memory.name in (vta.data, vta.weights)) for memory in accelerator.memories
        ]

    def placed(self, store: StoreTable) -> list[PlacedLaunch]:
        """Returns them at their places; ``store`` takes the tables."""
        found = list[PlacedLaunch]()
        tables = [self._table()]
        for number, (launch, own) in enumerate(zip(self._launches, self._own, strict=True)):
            placed = None
            if own is not None:
                weights = self._operands[-1]
                own = own.with_contexts(weights, self._places[weights].room())  # noqa: PLW2901
                moves = self._moves(own)
                placed = self._with_table(own, moves, tables, number)
                self._take(own, moves if placed is not None else [Moves()] * len(self._depths))
            if placed is None:
                tables.append(self._table())
                still = np.zeros(len(self._depths), np.int64)
                placed = PlacedLaunch(launch.words, np.arange(len(launch)), still, self._all(launch), None)
            found.append(placed)
        for table in tables:
            if table.launches:
                self._finish(found, table, store(table.data))
        return found

    def _table(self) -> _Table:
        columns = self._load.copy_fields.columns
        assert columns is not None
        depth = int(self._depths[self._microops])
        return _Table(min(depth, (1 << self._accelerator.bits(self._load, columns)) - 1))

    def _all(self, launch: Decoded) -> Touches:
        return touches_of(launch, np.arange(len(launch)), self._read)

    def _moves(self, own: _Own) -> list[Moves]:
        """How far a launch's elements of each memory move."""
        moves = [Moves()] * len(self._depths)
        for memory in self._operands:
            moves[memory] = self._places[memory].place(own.footprint.parts[memory])
        return moves

    def _take(self, own: _Own, moves: Sequence[Moves]) -> None:
        """Note where a launch lies."""
        for memory in self._operands:
            self._places[memory].take(own.footprint, own.footprint.parts[memory], moves[memory])

    def _with_table(self, own: _Own, moves: Sequence[Moves], tables: list[_Table], number: int) -> PlacedLaunch | None:
        """A launch at its place, walking the last table, or a new one where that is full; None: neither."""
        for table in (tables[-1], self._table()):
            try:
                words, grown = self._rewritten(own, moves, table)
            except _DoesNotFitError:
                continue
            grown.launches.append(number)
            if table is tables[-1]:
                tables[-1] = grown
            else:
                tables.append(grown)
            by = np.zeros_like(own.touches.begin)
            for memory, each in enumerate(moves):
                some = own.touches.memory == memory
                by[some] = each.of(own.touches.begin[some])
            touches = replace(own.touches, begin=own.touches.begin + by, end=own.touches.end + by)
            moved = np.array([each.by for each in moves], np.int64)
            return PlacedLaunch(words, own.order, moved, touches, 0)
        return None

    def _rewritten(self, own: _Own, moves: Sequence[Moves], table: _Table) -> tuple[Words, _Table]:
        """The words of a launch at its place, which load no micro-ops, and the table that they walk."""
        words, rows = own.decoded.words.copy(), own.table
        copies = np.flatnonzero((rows[:, f.OP] > f.NOTHING) & (rows[:, f.OP] < f.GEMM))
        for kind in np.unique(own.decoded.kind[copies]).tolist():
            copy = self._accelerator.instructions[kind]
            assert isinstance(copy, Copy)
            some = copies[own.decoded.kind[copies] == kind]
            begins = rows[some, f.SRAM]
            self._put(
                words, some, copy, copy.copy_fields.sram, begins + moves[self._names.index(copy.memory)].of(begins)
            )
        self._put(words, np.array([own.load]), self._load, self._load.copy_fields.rows, 0)
        self._put(words, np.array([own.load]), self._load, self._load.copy_fields.columns, 0)
        return words, self._walking(own, moves, table, words)

    def _walking(self, own: _Own, moves: Sequence[Moves], table: _Table, words: Words) -> _Table:
        """Let what computes walk micro-ops of ``table``; returns that table with all of them."""
        rows = np.flatnonzero((own.table[:, f.OP] >= f.GEMM) & (own.table[:, f.COUNT] > 0))
        some = own.table[rows]
        operands = np.select(
            [some[:, f.OP] == f.GEMM, (some[:, f.OP] == f.ALU) & (some[:, f.USE_IMM] != f.WITH_DST)], [3, 2], 1
        )
        keys, which = np.unique(np.stack([operands, some[:, f.BEGIN], some[:, f.COUNT]]), axis=1, return_inverse=True)
        ranges = [self._moved(own.microops[begin : begin + count], of, moves) for of, begin, count in keys.T.tolist()]
        grown, begins = table.with_ranges(ranges)
        begin = np.array(begins, np.int64)[which.reshape(-1)]
        for kind in np.unique(own.decoded.kind[rows]).tolist():
            compute = self._accelerator.instructions[kind]
            assert isinstance(compute, Compute)
            assert compute.microops is not None
            own_rows = own.decoded.kind[rows] == kind
            self._put(words, rows[own_rows], compute, compute.microops.begin, begin[own_rows])
            ends = begin[own_rows] + some[own_rows, f.COUNT]
            self._put(words, rows[own_rows], compute, compute.microops.end, ends)
        return grown

    def _moved(self, microops: Int64, operands: int, moves: Sequence[Moves]) -> Int64:
        """Micro-ops whose first operands, so many, lie where the launch does."""
        memories = self._operands if operands == f.UOP else [self._operands[0]] * operands
        for (lsb, bits), memory in zip(microop_places(self._accelerator), memories, strict=False):
            index = (microops >> lsb) & ((1 << bits) - 1)
            by = moves[memory].of(index)
            if (index + by).max() >= 1 << bits:
                raise _DoesNotFitError
            microops = microops + (by << lsb)
        return microops

    def _finish(self, found: list[PlacedLaunch], table: _Table, address: int) -> None:
        """Let the first launch of a table load it."""
        first, size = table.launches[0], len(table.data) // _WORD
        own, copy = self._own[first], self._load
        assert own is not None
        put, fields = partial(self._put, found[first].words, np.array([own.load]), copy), copy.copy_fields
        for name, value in ((fields.dram, address // _WORD), (fields.rows, 1), (fields.columns, size)):
            put(name, value)
        put(fields.row_stride, size)
        for number in table.launches:
            found[number] = replace(found[number], table=address)

    def _put(self, words: Words, rows: Int64, of: Copy | Compute, name: str | None, values: Int64 | int) -> None:
        if name is None:
            raise _DoesNotFitError
        try:
            put_field(words, rows, self._accelerator.field(of, name), values)
        except ValueError:
            raise _DoesNotFitError from None
