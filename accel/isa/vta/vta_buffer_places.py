"""Where the buffers of a launch lie among those of the launches before it: where it waits least for them.

A launch's elements of a memory are parts that no instruction crosses: a buffer, or each of the contexts that its tiles
take turns with. A part waits for the launches before as long as they use its elements. When that is follows from the
order of instructions on a clock of passes, not of cycles: words do not depend on a document's times.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from accel.isa.family import Touches
from accel.isa.vta.function import functional_table as f
from accel.util.arrays import Int64

_STORED = 3  # passes that go by while an element is stored
_START = 7  # passes that go by while an instruction begins
_MOST_PARTS = 8  # of a memory: of more parts no two change places
_NEXT = 2  # launches that run while loads of a launch go ahead
_LAST = 3  # launches that a place is to share no elements with


@dataclass(frozen=True)
class Part:
    """Elements ``[begin, end)`` of a memory.

    They are touched first when the clock of a launch is ``first``, and for the last time when it is ``last``. ``uses``
    are the sorts of instructions that touch them, and whether each writes.
    """

    begin: int
    end: int
    first: int
    last: int
    uses: frozenset[tuple[int, bool]]


@dataclass(frozen=True)
class Moves:
    """How far a launch's elements of a memory move: ``by`` as a whole, those of parts from ``begins`` on ``shifts``."""

    by: int = 0
    begins: tuple[int, ...] = ()
    shifts: tuple[int, ...] = ()

    def of(self, elements: Int64) -> Int64:
        """Returns how far elements (n,) move."""
        if not self.begins:
            return np.zeros_like(elements)
        which = np.searchsorted(self.begins, elements, side="right") - 1
        return np.asarray(np.array(self.shifts, np.int64)[which])


@dataclass(frozen=True)
class Footprint:
    """What a launch uses of each memory: ``parts`` in the order of their elements.

    ``ends`` is its clock when its compute unit is done, ``loaded`` when the last of its loads may begin.
    """

    parts: tuple[tuple[Part, ...], ...]
    ends: int
    loaded: int

    @classmethod
    def of(cls, table: Int64, touches: Touches, memories: int) -> "Footprint":
        """Returns that of a launch whose instructions, rows of ``table``, touch ``touches``."""
        ops = table[:, f.OP]
        passes = np.where(ops >= f.GEMM, table[:, f.COUNT] * table[:, f.OUTER] * table[:, f.INNER] + _START, 0)
        ended = np.cumsum(passes)
        begun = ended - passes
        stores = np.flatnonzero(ops == f.STORE)
        if len(stores):
            each = _STORED * table[stores, f.ROWS] * table[stores, f.COLUMNS]
            before = np.cumsum(each) - each  # one store follows the other
            ended[stores] = np.maximum.accumulate(begun[stores] - before) + before + each
        loads = np.flatnonzero((ops == f.LOAD_INP) | (ops == f.LOAD_WGT))
        parts = [tuple(_parts(touches.of(touches.memory == memory), ops, begun, ended)) for memory in range(memories)]
        return cls(tuple(parts), int(passes.sum()), int(begun[loads[-1]]) if len(loads) else 0)


def _parts(touches: Touches, ops: Int64, begun: Int64, ended: Int64) -> Iterator[Part]:
    """The parts of a memory of which these are the accesses."""
    order = np.argsort(touches.begin, kind="stable")
    begin, end = touches.begin[order], np.maximum.accumulate(touches.end[order])
    firsts = np.flatnonzero(np.r_[True, begin[1:] >= end[:-1]]) if len(order) else order
    for low, high in zip(firsts, [*firsts[1:], len(order)], strict=True):
        some = order[low:high]
        rows = touches.instruction[some]
        uses = frozenset(zip(ops[rows].tolist(), touches.write[some].tolist(), strict=True))
        yield Part(int(begin[low]), int(end[high - 1]), int(begun[rows].min()), int(ended[rows].max()), uses)


class BufferPlaces:
    """A memory's elements, and until when the launches that were given a place use them."""

    def __init__(self, depth: int, *, loaded: bool) -> None:
        """``loaded``: launches load it ahead of their products; else they begin to use it as their turn comes."""
        self._depth, self._loaded = depth, loaded
        self._used: list[tuple[int, int, int]] = []  # begin, end, until when
        self._extents: list[tuple[int, int]] = []
        self._now, self._ahead = 0, 0

    def place(self, parts: Sequence[Part]) -> Moves:
        """Returns the moves of the next launch, which has these ``parts``: those by which it waits least.

        Of places that are alike the one is taken that shares least with the last launches.
        """
        if not parts or not self._extents:
            return Moves(0, tuple(part.begin for part in parts), (0,) * len(parts))
        low, high = parts[0].begin, parts[-1].end
        others = self._extents[-_LAST:]
        options = [(place, order) for order in _orders(parts) for place in self._places(low, high)]

        def cost(option: tuple[int, Sequence[int]]) -> list[int]:
            place, order = option
            shared = [max(0, min(place + high - low, end) - max(place, begin)) for begin, end in reversed(others)]
            begins = [begin + place - low for begin in order]
            wait, room = self._wait(parts, begins), -self._room(parts, begins)
            return [wait, *shared, room] if self._loaded else [wait, room, *shared]

        place, order = min(options, key=cost)
        begins = tuple(part.begin for part in parts)
        shifts = tuple(new - old + place - low for new, old in zip(order, begins, strict=True))
        return Moves(place - low, begins, shifts)

    def _places(self, low: int, high: int) -> list[int]:
        """Where elements ``[low, high)`` may begin: beside what is in use, at either end, or where they are."""
        size = high - low
        edges = [edge for begin, end, _ in self._used for edge in (end, begin - size)]
        places = [self._extents[-1][1], 0, self._depth - size, low, *edges]
        return [place for place in dict.fromkeys(places) if 0 <= place <= self._depth - size]

    def room(self) -> int:
        """Returns how many elements in a row the last launches leave."""
        extents = sorted(self._extents[-_NEXT:])
        ends = np.maximum.accumulate([0, *(end for _, end in extents)])
        return int(np.max(np.array([*(begin for begin, _ in extents), self._depth]) - ends))

    def _wait(self, parts: Sequence[Part], begins: Sequence[int]) -> int:
        """How long a launch whose parts begin there waits for its elements."""
        waits = [0]
        for part, low in zip(parts, begins, strict=True):
            high, wanted = low + part.end - part.begin, self._ahead if self._loaded else self._now + part.first
            waits += [until - wanted for begin, end, until in self._used if begin < high and low < end]
        return max(waits)

    def _room(self, parts: Sequence[Part], begins: Sequence[int]) -> int:
        """Elements in a row that a launch whose parts begin there leaves to its follower: all but its last tile."""
        begin, part = max(zip(begins, parts, strict=True), key=lambda each: each[1].last)
        return max(begin, self._depth - begin - part.end + part.begin)

    def take(self, footprint: Footprint, parts: Sequence[Part], moves: Moves) -> None:
        """Note that a launch with a ``footprint``, whose ``parts`` these are, lies where it has moved to."""
        for part, by in zip(parts, moves.of(np.array([part.begin for part in parts], np.int64)).tolist(), strict=True):
            self._used.append((part.begin + by, part.end + by, self._now + part.last))
        if parts:
            self._extents.append((parts[0].begin + moves.by, parts[-1].end + moves.by))
        self._ahead = self._now + footprint.loaded
        self._now += footprint.ends
        self._used = [each for each in self._used if each[2] > self._ahead]


def _orders(parts: Sequence[Part]) -> Iterator[Sequence[int]]:
    """Where each part begins: as they lie, and with two in each other's place, which are contexts of one buffer."""
    begins = [part.begin for part in parts]
    yield begins
    for one, other in combinations(range(len(parts) if len(parts) <= _MOST_PARTS else 0), 2):
        first, second = parts[one], parts[other]
        if first.uses == second.uses and first.end - first.begin == second.end - second.begin:
            swapped = list(begins)
            swapped[one], swapped[other] = second.begin, first.begin
            yield swapped
