"""Joining of a program's launches: those that no host step parts become one, ordered by tokens or by fences."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby

import numpy as np

from accel.accelerator.document import Accelerator, TokenSync
from accel.accelerator.field_bits import put_field
from accel.isa.decode import decode
from accel.isa.family import (
    Boxes,
    Family,
    FencesLaunches,
    JoinsLaunches,
    OrdersAccesses,
    PlacedLaunch,
    PrefetchesLoads,
    ReadDram,
    Touches,
)
from accel.joining.early_loads import early_loads
from accel.joining.fenced_launches import FencedLaunches
from accel.joining.launch_parts import MOST, LaunchPart, own_part
from accel.joining.launch_places import SharedTables, placed_launches
from accel.joining.needed_first import with_needed_first
from accel.joining.ordered_launches import Decode, ordered_parts
from accel.joining.prefetched_loads import RowClock, RowLaunch, with_prefetched_loads
from accel.joining.token_chain import STEP, CannotJoinError, Member, TokenChain
from accel.joining.token_edges import TokenEdges
from accel.joining.token_stream import Queue, StreamError, TokenStream, token_field, token_mask, token_stream
from accel.joining.unfinished_accesses import TouchesOf
from accel.program.program_model import HostStep, Launch, Program
from accel.util.arrays import Int64, Signed, Words

_SEVERAL = 2  # launches


def can_join(accelerator: Accelerator, family: Family) -> bool:
    """Returns whether launches on it may become one."""
    tokens = isinstance(accelerator.synchronisation, TokenSync) and isinstance(family, JoinsLaunches)
    return tokens or orders_itself(accelerator, family) or _has_fences(accelerator, family)


def orders_itself(accelerator: Accelerator, family: Family) -> bool:
    """Returns whether launches on it become one as they are: it orders all that they access by itself."""
    return isinstance(family, OrdersAccesses) and family.orders_accesses(accelerator) and accelerator.finish is None


def _has_fences(accelerator: Accelerator, family: Family) -> bool:
    return isinstance(family, FencesLaunches) and family.fence(accelerator) is not None


def with_joined_steps(program: Program, family: Family) -> Program:
    """Returns a program without instructions whose launches are told as those that will be joined, if all can be."""
    if not can_join(program.accelerator, family):
        return program
    steps, before = list[Launch | HostStep](), False
    for step in program.steps:
        launch = isinstance(step, Launch)
        steps.append(replace(step, joined=True) if isinstance(step, Launch) and before and not step.writes else step)
        before = launch
    return replace(program, steps=tuple(steps))


def join_launches(program: Program, family: Family, decoder: Decode = decode) -> Program:
    """Returns the program whose launches run on into one another where nothing parts them.

    What it computes stays the same; what the accelerator cannot order by itself stays apart. Layers keep their launches
    with the instructions that are theirs. ``decoder`` may know launches that other programs have too.
    """
    if not can_join(program.accelerator, family):
        return program
    parts: list[LaunchPart] = []
    steps: list[Launch | HostStep] = []
    tables, begin = SharedTables(program), 0
    for step, part in _parts(program, _join_of(program, family, tables, decoder)):
        if isinstance(step, Launch) and part is not None:
            parts.append(part)
            step = replace(part.of(step), begin=begin)  # noqa: PLW2901
            begin += len(part.words)
        steps.append(step)
    if not any(part.joined for part in parts):
        return program
    joined = replace(
        program,
        steps=tuple(steps),
        words=np.concatenate([part.words for part in parts]),
        origin=np.concatenate([part.origin for part in parts]),
    )
    return tables.put_into(joined)


_Join = Callable[[Sequence[Launch]], list[LaunchPart]]


def _join_of(program: Program, family: Family, tables: SharedTables, decoder: Decode) -> _Join:
    """What joins launches with no host step between them; it is given them in the order of the program."""
    if orders_itself(program.accelerator, family):
        return partial(ordered_parts, program, family, decoder=decoder)
    if _has_fences(program.accelerator, family):
        return FencedLaunches(program, family).parts
    return partial(_joined, program, family, tables)


def _parts(program: Program, join: _Join) -> Iterator[tuple[Launch | HostStep, LaunchPart | None]]:
    for host, group in groupby(program.steps, key=lambda step: isinstance(step, HostStep)):
        steps = list(group)
        if host:
            yield from ((step, None) for step in steps)
        else:
            launches = [step for step in steps if isinstance(step, Launch)]
            yield from zip(launches, join(launches), strict=True)


class _Results:
    """The bytes of DRAM that launches of a row have made."""

    def __init__(self) -> None:
        self._made: list[tuple[Int64, Int64]] = []

    def add(self, writes: Boxes) -> None:
        self._made.append(writes.hulls())

    def holds(self, begin: int, end: int) -> bool:
        """Whether any of the bytes ``[begin, end)`` is one of them."""
        return any(bool(((begin < lasts) & (firsts < end)).any()) for firsts, lasts in self._made)


def _joined(program: Program, family: Family, tables: SharedTables, launches: Sequence[Launch]) -> list[LaunchPart]:
    """The parts of launches with no host step between them."""
    found: list[LaunchPart] = []
    while len(found) < len(launches):
        together, own = _together(launches[len(found) :]), tables.copy()
        read = _reader(program)
        places = placed_launches(program, family, together, read, own)
        row = _Row(program, family, read, _row_launches(program, together, places))
        if row.several:
            parts = zip(row.prefetched().parts(), places, strict=False)
            found += [part if place is None else own.placed(part, place) for part, place in parts]
        else:
            found.append(own_part(program, together[0], joined=False))
        tables.take(own)
    return found


def _row_launches(
    program: Program, launches: Sequence[Launch], places: Sequence[PlacedLaunch | None]
) -> list[RowLaunch]:
    """Launches at their places; the first one, before which nothing runs, loads first what it needs first."""
    found = list[RowLaunch]()
    for launch, place in zip(launches, places, strict=True):
        own = slice(launch.begin, launch.begin + launch.count)
        words = program.words[own] if place is None else place.words
        origin = program.origin[own] if place is None else program.origin[own][place.order]
        touches = None if place is None else place.touches
        found.append(RowLaunch(decode(program.accelerator, words, launch.begin), origin, touches))
    if found[0].touches is not None:
        found[0] = with_needed_first(found[0])
    return found


def _together(launches: Sequence[Launch]) -> list[Launch]:
    """The first of some launches, as many as may run as one."""
    ends = np.cumsum([launch.count for launch in launches])
    parted = [number for number, launch in enumerate(launches) if number and (launch.writes or ends[number] > MOST)]
    return list(launches[: parted[0] if parted else len(launches)])


class _Row:
    """Launches one after the other, of which as many of the first as can be become one."""

    def __init__(self, program: Program, family: Family, read: ReadDram, launches: Sequence[RowLaunch]) -> None:
        accelerator, sync = program.accelerator, program.accelerator.synchronisation
        assert isinstance(sync, TokenSync)
        assert isinstance(family, JoinsLaunches)
        self._program, self._family, self._read = program, family, read
        self._idle = family.idle_words(accelerator)
        self._launches = launches
        self._orders: list[Int64] = []  # of each launch, where its instructions stood
        self._results = _Results()
        self._chain = TokenChain(
            accelerator, sync.limit, {accelerator.units.index(unit) for unit in self._idle}, family
        )
        self._streams: list[tuple[TokenStream, TouchesOf]] = []
        for launch in launches:
            if not self._takes(launch):
                break
        self.several = len(self._chain.members) >= _SEVERAL
        if self.several:
            self._chain.end()

    def _takes(self, launch: RowLaunch) -> bool:
        """Whether a launch could be joined to those before it; after one that could not, none can."""
        family = self._family
        try:
            stream = launch.decoded.derived(token_stream)
            stream, order = early_loads(stream, self._results.holds, family, self._read)
            touches = self._touches(stream, order, launch.touches)
            self._chain.append(stream, touches)
        except (StreamError, CannotJoinError):
            self._chain = self._chain.again(self._streams)
            return False
        self._streams.append((stream, touches))
        self._orders.append(order)
        self._results.add(launch.decoded.derived(family.boxes).writes())
        return True

    def _touches(self, stream: TokenStream, order: Int64, own: Touches | None) -> TouchesOf:
        """What the instructions of a launch touch, which stood in another ``order`` (n,)."""
        family, read = self._family, self._read
        assert isinstance(family, JoinsLaunches)
        if own is None:
            return lambda rows: family.touches(stream.decoded, rows, read)
        now = np.empty_like(order)
        now[order] = np.arange(len(order))
        touches = replace(own, instruction=now[own.instruction])
        return lambda rows: touches.of(np.isin(touches.instruction, rows))

    def parts(self) -> list[LaunchPart]:
        """The parts of the launches that became one, of all but the last one without its end."""
        return [
            LaunchPart(words, launch.origin[order[places]], joined=number > 0)
            for number, (launch, order, (places, words)) in enumerate(
                zip(self._launches, self._orders, self._rewritten, strict=False)
            )
        ]

    @cached_property
    def _rewritten(self) -> list[tuple[Int64, Words]]:
        """Of each launch that became part of one, its words, and the places (n,) in its stream of which each is."""
        members = self._chain.members
        writer = _Writer(self._program.accelerator, self._idle, self._chain.queues)
        return [writer.rewritten(each, last=each is members[-1]) for each in members]

    def prefetched(self) -> "_Row":
        """Returns the row whose loads go ahead of other launches, if that is faster on a nominal clock."""
        launches = self._launches[: len(self._chain.members)]
        if not isinstance(self._family, PrefetchesLoads) or any(launch.touches is None for launch in launches):
            return self
        clock = self._clock()
        ahead = with_prefetched_loads(launches, clock, self._family)
        if ahead is None:
            return self
        other = _Row(self._program, self._family, self._read, ahead)
        fits = len(other._chain.members) == len(launches)
        return other if fits and other._clock().end.max() < clock.end.max() else self

    def _clock(self) -> RowClock:
        """When the row's instructions run on a nominal clock."""
        family, accelerator = self._family, self._program.accelerator
        assert isinstance(family, PrefetchesLoads)
        rewritten = self._rewritten
        decoded = decode(accelerator, np.concatenate([words for _, words in rewritten]))
        timing = family.time(decoded.on(family.nominal(accelerator)), {})
        units = np.array([accelerator.units.index(each.unit) for each in accelerator.instructions])
        counts = [member.stream.count for member in self._chain.members]
        each = zip(rewritten, self._orders, counts, strict=True)
        rows = [np.where(places < count, order[places], -1) for (places, _), order, count in each]
        whose = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
        return RowClock(whose, np.concatenate(rows), units[decoded.kind], timing.start, timing.end)


def _reader(program: Program) -> ReadDram:
    """Reads what the program's image has at an address; zeros where it has nothing."""
    constants = sorted((program.segments[name].address, name) for name in program.constants)
    begins = np.array([address for address, _ in constants], np.int64)

    def read(address: int, nbytes: int) -> bytes:
        number = int(np.searchsorted(begins, address, side="right")) - 1
        if number < 0:
            return bytes(nbytes)
        first, name = constants[number]
        data = np.ascontiguousarray(program.image[name]).reshape(-1).view(np.uint8)[address - first :][:nbytes]
        return data.tobytes().ljust(nbytes, b"\0")

    return read


@dataclass(frozen=True)
class _Writer:
    """Writes the instructions of a chain's members."""

    accelerator: Accelerator
    idle: Mapping[str, Words]
    queues: Mapping[Queue, TokenEdges]

    def rewritten(self, member: Member, *, last: bool) -> tuple[Int64, Words]:
        """The words of a member with its tokens, and the place (n,) from which each has its origin.

        What waits for another launch, and does nothing else, is there because of the seam: its origin is the end's.
        """
        stream, whole = member.stream, member.stream.decoded
        count = len(whole) if last else stream.count
        ranks, rows = member.base + np.arange(count) * STEP, np.arange(count)
        words, kinds = whole.words[:count].copy(), whole.kind[:count]
        idles = sorted(member.idles, key=lambda idle: idle.rank)
        if idles:
            before = [idle.row for idle in idles]
            added = np.stack([self.idle[self.accelerator.units[idle.unit]] for idle in idles])
            words, rows = np.insert(words, before, added, axis=0), np.insert(rows, before, len(whole) - 1)
            kinds = np.insert(kinds, before, decode(self.accelerator, added).kind)
            ranks = np.insert(ranks, before, [idle.rank for idle in idles])
        self._put_tokens(words, kinds, ranks)
        return rows, words

    def _put_tokens(self, words: Words, kinds: Signed, ranks: Int64) -> None:
        """Write the tokens of instructions (n,), and none besides."""
        for kind in np.unique(kinds).tolist():
            own = np.flatnonzero(kinds == kind)
            words[own] &= ~token_mask(self.accelerator, self.accelerator.instructions[kind])
        for queue, edges in self.queues.items():
            for tokens, push in ((edges.sent, True), (edges.taken, False)):
                some = tokens[bisect_left(tokens, ranks[0]) : bisect_right(tokens, ranks[-1])] if len(ranks) else []
                own = np.searchsorted(ranks, some)
                for kind in np.unique(kinds[own]).tolist():
                    field = token_field(self.accelerator, self.accelerator.instructions[kind], queue, push=push)
                    assert field is not None
                    put_field(words, own[kinds[own] == kind], field, 1)
