"""Loads of constants that go ahead of other launches: into the gaps of their unit, as early as their place is free.

Launches in a row share the unit that loads, which does one load after the other: a layer's weights stand behind all
that the layers before it load, and behind what that waits for. Here they go, in pieces, where the unit waits anyway,
in an earlier launch too, if nothing there touches the elements that they fill. Where it waits follows from a clock with
nominal cycles: words do not depend on a document's times.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from accel.accelerator.field_bits import put_field
from accel.accelerator.instructions import Compute, Copy
from accel.isa.decode import Decoded, decode
from accel.isa.family import Boxes, Family, PrefetchesLoads, Touches
from accel.joining.token_stream import Queue, token_field, token_mask, token_stream
from accel.util.arrays import Int32, Int64, Words

_START = 7  # nominal cycles of a load beside its latency and its beats
_LEAST = 64  # nominal cycles of a gap that is used
_FAR = 64  # loads one after the other that fill what was filled before
_WORTH = 64  # nominal cycles that a launch waits, for which its loads go ahead


@dataclass(frozen=True)
class RowLaunch:
    """The instructions of a launch of a row, where each comes from (n,), and what they touch on the chip.

    ``touches`` are None where they are asked for as they are needed.
    """

    decoded: Decoded
    origin: Int32
    touches: Touches | None


@dataclass(frozen=True)
class RowClock:
    """When instructions of a row start and end on a nominal clock, (n,) each, in the order of the program.

    They are instructions ``row`` of the launches ``launch``; -1: what was put between. ``unit`` are their units.
    """

    launch: Int64
    row: Int64
    unit: Int64
    start: Int64
    end: Int64


@dataclass
class _Gap:
    """Nominal cycles in which a unit waits before an instruction, of which some are taken in the end."""

    launch: int
    row: int
    cycles: int


@dataclass(frozen=True)
class _Piece:
    """Words (words_each,) that fill elements ``[begin, begin + size)`` of a memory, for an instruction of a launch."""

    words: Words
    launch: int
    row: int
    memory: int
    begin: int
    size: int


@dataclass
class _Changes:
    """Of a launch, pieces that are put before its instructions, and of its loads what is left; None: nothing."""

    before: dict[int, list[_Piece]] = field(default_factory=lambda: defaultdict(list))
    left: dict[int, _Piece | None] = field(default_factory=dict)

    def is_gone(self, row: int) -> bool:
        """Whether nothing of a load is left."""
        return row in self.left and self.left[row] is None


def with_prefetched_loads(launches: Sequence[RowLaunch], clock: RowClock, family: Family) -> Sequence[RowLaunch] | None:
    """Returns launches of which some load for others that come later; None where none waits for what could be loaded.

    Args:
        launches: those of a row, in their order.
        clock: when their instructions run as they are now.
        family: the accelerator's.
    """
    if not isinstance(family, PrefetchesLoads):
        return None
    search = _Search(launches, clock, family)
    for number in range(1, len(launches)):
        search.look_ahead(number)
    return search.changed()


class _Member:
    """A launch, and what is asked of it several times."""

    def __init__(self, launch: RowLaunch, family: Family) -> None:
        assert launch.touches is not None
        self.launch, self.decoded, self.touches = launch, launch.decoded, launch.touches
        self.stream = launch.decoded.derived(token_stream)
        self.changes = _Changes()
        self._family = family

    @cached_property
    def boxes(self) -> Boxes:
        return self.decoded.derived(self._family.boxes)

    @cached_property
    def _written(self) -> Boxes:
        return self.boxes.writes()

    def writes_what(self, load: int, of: "_Member") -> bool:
        """Whether it writes to DRAM what a load of another one, or its own, reads."""
        return self._written.meet(of.boxes.of(of.boxes.instruction == load))

    def touches_any(self, memory: int, begin: int, end: int, before: int | None = None) -> bool:
        """Whether any instruction, or one ``before`` that one, touches an element of a range."""
        touches = self.touches
        meet = (touches.memory == memory) & (touches.begin < end) & (begin < touches.end)
        return bool((meet if before is None else meet & (touches.instruction < before)).any())


class _Search:
    """Launches of a row, the gaps of the unit that loads, and what is to change."""

    def __init__(self, launches: Sequence[RowLaunch], clock: RowClock, family: Family) -> None:
        assert isinstance(family, PrefetchesLoads)
        self._members, self._clock = [_Member(launch, family) for launch in launches], clock
        self._accelerator, self._family = launches[0].decoded.accelerator, family
        self._dram = family.nominal(self._accelerator).dram
        instructions, units = self._accelerator.instructions, self._accelerator.units
        self._computing = {units.index(each.unit) for each in instructions if isinstance(each, Compute)}
        self._copies = [isinstance(each, Copy) and each.direction == "load" for each in instructions]
        self._gaps = {unit: self._gaps_of(unit) for unit in range(len(units)) if unit not in self._computing}

    def _gaps_of(self, unit: int) -> list[_Gap]:
        clock = self._clock
        own = np.flatnonzero(clock.unit == unit)
        waits = clock.start[own] - np.concatenate([[0], clock.end[own[:-1]]])
        which = (waits >= _LEAST) & (clock.row[own] >= 0)
        rows = zip(
            clock.launch[own[which]].tolist(), clock.row[own[which]].tolist(), waits[which].tolist(), strict=True
        )
        return [_Gap(*each) for each in rows]

    def look_ahead(self, number: int) -> None:
        """Let loads of a launch go ahead, as many as it waits for."""
        wanted, loads = self._waited(number), self._first_loads(self._members[number])
        while wanted >= _WORTH and (row := next(loads, None)) is not None:
            wanted -= self._put_ahead(number, row, wanted)

    def _waited(self, number: int) -> int:
        """Cycles for which the units that compute wait in a launch: for their turn, or for the bus."""
        clock, waited = self._clock, 0
        for unit in self._computing:
            own = np.flatnonzero(clock.unit == unit)
            waits = clock.start[own] - np.concatenate([[0], clock.end[own[:-1]]])
            some = clock.launch[own] == number
            waited += int(waits[some].sum())
            rows = own[some & (clock.row[own] >= 0)]
            kinds = self._members[number].decoded.kind[clock.row[rows]]
            copies = rows[np.array(self._copies)[kinds]]
            waited += int(
                np.maximum(clock.end[copies] - clock.start[copies] - _START - self._dram.read_latency, 0).sum()
            )
        return waited

    def _first_loads(self, member: _Member) -> Iterator[int]:
        """The loads of a launch that fill what nothing in it has touched before; not those far behind the others."""
        stream, kinds = member.stream, member.decoded.kind.tolist()
        drained, behind = {row for row, _ in stream.drains}, 0
        for row in range(stream.count):
            if self._copies[kinds[row]] and stream.unit[row] in self._gaps and row not in drained:
                first = self._is_first(member, row)
                behind = 0 if first else behind + 1
                if behind == _FAR:
                    return
                if first:
                    yield row

    def _is_first(self, member: _Member, row: int) -> bool:
        memory, begin, end = self._filled(member, row)
        return begin < end and not member.touches_any(memory, begin, end, before=row)

    def _filled(self, member: _Member, row: int) -> tuple[int, int, int]:
        """The memory that a load fills, and its first and last element there."""
        which = np.flatnonzero(member.touches.instruction == row)
        if len(which) != 1:
            return 0, 0, 0
        return (
            int(member.touches.memory[which[0]]),
            int(member.touches.begin[which[0]]),
            int(member.touches.end[which[0]]),
        )

    def _put_ahead(self, number: int, row: int, wanted: int) -> int:
        """Put a load of a launch ahead, as much of it as finds room and is ``wanted``; returns its cycles."""
        member = self._members[number]
        memory, begin, end = self._filled(member, row)
        grain, rest = self._family.load_grain(member.decoded, row), end - begin
        earliest, cycles = self._earliest(number, row), 0
        for gap in reversed(self._gaps[member.stream.unit[row]] if grain else []):
            if gap.launch < earliest or not rest or cycles >= wanted:
                break
            if (gap.launch, gap.row) >= (number, row) or gap.cycles < _LEAST:
                continue
            if gap.launch == number and member.changes.is_gone(gap.row):
                continue  # the token of the load that stands there would say that it has been loaded
            size = min(rest, self._elements(memory, gap.cycles) // grain * grain)
            words = self._family.load_part(member.decoded, row, end - begin - rest, size) if size else None
            if words is None:
                continue
            at = begin + end - begin - rest
            self._members[gap.launch].changes.before[gap.row].append(_Piece(words, number, row, memory, at, size))
            taken = self._cycles(memory, size)
            gap.cycles, rest, cycles = gap.cycles - taken, rest - size, cycles + taken
        if rest < end - begin:
            words = self._family.load_part(member.decoded, row, end - begin - rest, rest) if rest else None
            assert words is not None or not rest  # of a load that is cut already
            member.changes.left[row] = None if words is None else _Piece(words, number, row, memory, end - rest, rest)
        return cycles

    def _cycles(self, memory: int, elements: int) -> int:
        """Nominal cycles of a load of so many elements."""
        dram, nbytes = self._dram, elements * self._accelerator.memories[memory].element_bytes
        return _START + dram.read_latency + -(-nbytes // dram.bus_bytes)

    def _elements(self, memory: int, cycles: int) -> int:
        """Elements that are loaded in so many nominal cycles."""
        beats = max(cycles - _START - self._dram.read_latency, 0)
        return beats * self._dram.bus_bytes // self._accelerator.memories[memory].element_bytes

    def _earliest(self, number: int, row: int) -> int:
        """The first launch from which on no one before a load's own touches what it fills, or writes what it reads.

        Beyond its own where that writes what it reads.
        """
        member, found = self._members[number], number
        memory, begin, end = self._filled(member, row)
        if member.writes_what(row, member):
            return number + 1
        for earlier in reversed(self._members[:number]):
            if earlier.touches_any(memory, begin, end) or earlier.writes_what(row, member):
                break
            found -= 1
        return found

    def changed(self) -> Sequence[RowLaunch] | None:
        """Returns the launches with what goes ahead where it goes; None where nothing does."""
        if not any(member.changes.before for member in self._members):
            return None
        return [
            _changed(member, [other.launch.origin for other in self._members])
            if member.changes.before or member.changes.left
            else member.launch
            for member in self._members
        ]


def _changed(member: _Member, origins: Sequence[Int32]) -> RowLaunch:
    """A launch with pieces put before its instructions, and without what has gone ahead of it."""
    decoded, changes, touches = member.decoded, member.changes, member.touches
    accelerator, words = decoded.accelerator, decoded.words.copy()
    masks = [token_mask(accelerator, instruction) for instruction in accelerator.instructions]
    _take_tokens(member, words)
    begins = touches.begin.copy()
    for row, left in changes.left.items():
        if left is not None:
            words[row] = (left.words & ~masks[decoded.kind[row]]) | (words[row] & masks[decoded.kind[row]])
            begins[touches.instruction == row] = left.begin
    put = [(row, piece) for row, pieces in sorted(changes.before.items()) for piece in pieces]
    order = np.insert(np.arange(len(words)), [row for row, _ in put], -1 - np.arange(len(put)))
    order = order[~np.isin(order, [row for row, left in changes.left.items() if left is None])]
    own, now = order >= 0, np.full(len(words), -1)
    now[order[own]] = np.flatnonzero(own)
    words, origin = words[np.maximum(order, 0)], member.launch.origin[np.maximum(order, 0)]
    for at, number in zip(np.flatnonzero(~own).tolist(), (-1 - order[~own]).tolist(), strict=True):
        piece = put[number][1]
        words[at], origin[at] = piece.words, origins[piece.launch][piece.row]
    kept = now[touches.instruction] >= 0
    pieces = [piece for _, piece in put]
    places = np.empty(len(put), np.int64)
    places[-1 - order[~own]] = np.flatnonzero(~own)
    ranges: list[tuple[Int64, Sequence[int] | Int64]] = [
        (now[touches.instruction[kept]], places),
        (touches.memory[kept], [piece.memory for piece in pieces]),
        (begins[kept], [piece.begin for piece in pieces]),
        (touches.end[kept], [piece.begin + piece.size for piece in pieces]),
    ]
    instruction, memory, begin, end = (np.concatenate([one, np.array(other, np.int64)]) for one, other in ranges)
    write = np.concatenate([touches.write[kept], np.ones(len(pieces), np.bool_)])
    return RowLaunch(decode(accelerator, words, decoded.first), origin, Touches(instruction, memory, begin, end, write))


def _take_tokens(member: _Member, words: Words) -> None:
    """Let what waits for a load that has gone ahead wait for the one before it, and the one behind wait for its tokens.

    What goes needs none: it is waited for as what any launch before has loaded, and waits for no one in its own.
    """
    stream, accelerator = member.stream, member.decoded.accelerator
    gone = {row for row in member.changes.left if member.changes.is_gone(row)}
    takers = {(queue, sent): taken for queue, edges in stream.edges().items() for sent, taken in edges}
    senders = {(queue, taken): sent for queue, edges in stream.edges().items() for sent, taken in edges}
    sends, takes = ([set(queues) for queues in tokens] for tokens in (stream.pushes, stream.pops))

    def put(row: int, queue: Queue, *, push: bool, on: bool) -> None:
        token = token_field(accelerator, accelerator.instructions[member.decoded.kind[row]], queue, push=push)
        assert token is not None
        put_field(words, row, token, int(on))

    for push, own, others, held in ((True, stream.pushes, takers, sends), (False, stream.pops, senders, takes)):
        for row in sorted(gone, reverse=not push):
            rows = stream.rows[stream.unit[row]]
            beside = reversed(rows[: rows.index(row)]) if push else iter(rows[rows.index(row) + 1 :])
            heir = next((each for each in beside if each not in gone), None)
            for queue in own[row]:
                other = others[queue, row]
                if heir is None or queue in held[heir]:
                    put(other, queue, push=not push, on=False)
                else:
                    put(heir, queue, push=push, on=True)
                    held[heir].add(queue)
                    others[queue, heir] = other
