"""Launches in a row that become one: tokens at their seams order what one does after the other.

A launch begins and ends without tokens, so that more may be sent behind its last one, to be taken before the first one
of the launch after it: the n-th taken stays the n-th sent. What must be ordered follows from what the instructions
access, and what is ordered from vector clocks (how many instructions of each unit a unit knows to have ended), so that
a load waits for no more than what it reads, or writes over. Units that have no queue from one to the other are ordered
through a third, by an instruction that does nothing else where none can do it beside its work.

Nothing waits for ever: every token is sent before the place, in the order of the program, where it is taken.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from accel.accelerator.document import Accelerator
from accel.isa.family import Family
from accel.joining.token_stream import Place, Queue, TokenStream, queues_of
from accel.joining.unfinished_accesses import Accesses, StreamAccesses, TouchesOf
from accel.util.arrays import Int64, Words

Clock = tuple[int, ...]
"""Of each unit, how many of its instructions have ended for certain."""


class CannotJoinError(Exception):
    """A launch cannot follow the one before it without an end between them; the message says why."""


@dataclass(frozen=True)
class Idle:
    """An instruction that is put before instruction ``row``: it takes tokens and sends them, and does nothing."""

    row: int
    unit: int
    pops: tuple[Queue, ...]
    pushes: tuple[Queue, ...]


@dataclass
class Member:
    """A launch of a chain: where its units' places begin, (units,), and what is added to its instructions."""

    stream: TokenStream
    base: Int64
    pops: list[tuple[int, Queue]] = field(default_factory=list)
    pushes: list[tuple[int, Queue]] = field(default_factory=list)
    idles: list[Idle] = field(default_factory=list)


@dataclass
class _QueueState:
    """A queue so far: clocks of tokens that nobody took, places of senders and takers, the last of earlier launches.

    ``last`` is that of the last sender behind which more may be sent, ``checked`` how many were found to have room.
    """

    flight: deque[Clock] = field(default_factory=deque)
    sent: list[Place] = field(default_factory=list)
    checked: int = 0
    last: Place = -1
    taken: list[Place] = field(default_factory=list)


class _Knowledge:
    """What a unit knows, by place: what it knew as it began an instruction holds until the next entry."""

    def __init__(self, units: int) -> None:
        self._places: list[Place] = [-1]
        self._clocks: list[Clock] = [(0,) * units]

    @property
    def now(self) -> Clock:
        return self._clocks[-1]

    def learn(self, place: Place, clock: Clock) -> None:
        merged = _merged(self.now, clock)
        if merged != self.now:
            self._places.append(place)
            self._clocks.append(merged)

    def at(self, place: Place) -> Clock:
        return self._clocks[bisect_right(self._places, place) - 1]

    def since(self, unit: int, place: Place) -> Place | None:
        """The first instruction that begins when that of ``unit`` has ended; None where none does."""
        found = bisect_left(self._clocks, place + 1, key=lambda clock: clock[unit])
        return self._places[found] if found < len(self._places) else None


def _merged(one: Clock, other: Clock) -> Clock:
    return tuple(map(max, one, other))


class TokenChain:
    """Launches that have been joined so far."""

    def __init__(self, accelerator: Accelerator, limit: int, idle: Mapping[str, Words], family: Family) -> None:
        units = len(accelerator.units)
        self.members: list[Member] = []
        self._limit, self._family = limit, family
        self._idle = {accelerator.units.index(unit) for unit in idle}
        self._queues = {queue: _QueueState() for queue in queues_of(accelerator)}
        self._known = [_Knowledge(units) for _ in range(units)]
        self._counts = np.zeros(units, np.int64)
        self._accesses = Accesses.none()
        self._added: list[tuple[Member, list[tuple[int, Queue]], int, Queue]] = []

    def append(self, stream: TokenStream, touches: TouchesOf) -> None:
        """Join a launch, of which ``touches`` says what it touches on the chip, to those before it.

        Raises:
            CannotJoinError: it cannot be; the members so far stay as they are, and nothing more can be appended.
        """
        member = Member(stream, self._counts.copy())
        accesses = StreamAccesses(stream, member.base, self._family, touches)
        self.members.append(member)
        self._added = []
        try:
            self._run(member, accesses.first())
            self._check_room()
        except CannotJoinError:
            self.members.pop()
            raise
        for _, where, row, queue in self._added:
            where.append((row, queue))
        for queue, row in stream.last_push.items():
            self._queues[queue].last = int(member.base[queue.sender]) + stream.place[row]
        self._counts = member.base + np.array([len(rows) for rows in stream.rows], np.int64)
        known = self._known_by_all()
        self._accesses = self._accesses.unfinished(known) + accesses.unfinished(known)

    def _known_by_all(self) -> Int64:
        """Of each unit (units,), how many of its instructions every other one knows to have ended."""
        clocks = np.array([knowledge.now for knowledge in self._known], np.int64)
        np.fill_diagonal(clocks, np.iinfo(np.int64).max)
        return clocks.min(axis=0) if len(clocks) > 1 else self._counts

    def _run(self, member: Member, accesses: Iterator[Accesses]) -> None:
        row, open_ = 0, bool((self._known_by_all() < member.base).any())
        while open_ and row < member.stream.count:
            self._step(member, row, next(accesses))
            row += 1
            open_ = bool((self._known_by_all() < member.base).any())
        for later in member.stream.token_rows(row):
            self._step(member, later, None)

    def _step(self, member: Member, row: int, accesses: Accesses | None) -> None:
        stream = member.stream
        unit = stream.unit[row]
        place = int(member.base[unit]) + stream.place[row]
        for queue in stream.pops[row]:
            state = self._queues[queue]
            self._known[unit].learn(place, state.flight.popleft())
            insort(state.taken, place)
        for other, awaited in self._accesses.awaited_by(accesses, unit).items() if accesses is not None else ():
            if self._known[unit].now[other] <= awaited:
                self._order(member, row, place, Queue(other, unit), awaited)
        for queue in stream.pushes[row]:
            self._send(queue, place)
            self._queues[queue].flight.append(self._ended(unit, place))

    def _ended(self, unit: int, place: Place) -> Clock:
        """What is known when an instruction has ended."""
        clock = list(self._known[unit].at(place))
        clock[unit] = place + 1
        return tuple(clock)

    def _send(self, queue: Queue, place: Place) -> None:
        """Note a token that the instruction at ``place`` sends."""
        state = self._queues[queue]
        insort(state.sent, place)
        state.checked = min(state.checked, bisect_left(state.sent, place))

    def _check_room(self) -> None:
        """Refuse a queue that would hold more tokens than it can, however slow its receiver is."""
        for queue, state in self._queues.items():
            for number in range(state.checked, len(state.sent)):
                known = self._known[queue.sender].at(state.sent[number])[queue.receiver]
                if number + 1 - bisect_left(state.taken, known) > self._limit:
                    raise CannotJoinError("a queue would hold more tokens than it can")
            state.checked = len(state.sent)

    def _order(self, member: Member, row: int, place: Place, wanted: Queue, awaited: Place) -> None:
        """Let the instruction at ``row`` wait for one of another unit, directly or through a third."""
        if wanted in self._queues:
            token = self._push(member, row, wanted, awaited)
            self._take(member, row, place, wanted, token)
            return
        for through in range(len(self._known)):
            first, second = Queue(wanted.sender, through), Queue(through, wanted.receiver)
            if first in self._queues and second in self._queues:
                found = self._told(member, row, second, wanted.sender, awaited)
                token = self._relayed(member, row, first, second, awaited) if found is None else found
                self._take(member, row, place, second, token)
                return
        raise CannotJoinError("two units that touch the same have no way to wait for each other")

    def _told(self, member: Member, row: int, queue: Queue, unit: int, awaited: Place) -> Clock | None:
        """Let an instruction that begins after the awaited one send a token; None where none can."""
        since = self._known[queue.sender].since(unit, awaited)
        if since is None:
            return None
        place = max(since, self._queues[queue].last + 1)
        able = place < self._next(member, row, queue.sender, queue)
        return self._push(member, row, queue, place) if able else None

    def _next(self, member: Member, row: int, unit: int, queue: Queue | None = None) -> Place:
        """The place behind all instructions of a unit before ``row``, and before its own first token to ``queue``."""
        end = row if queue is None else min(row, member.stream.first_push.get(queue, row))
        return int(member.base[unit]) + bisect_left(member.stream.rows[unit], end)

    def _push(self, member: Member, row: int, queue: Queue, place: Place) -> Clock:
        """Let the instruction at ``place``, before ``row``, send a token, behind all that were sent."""
        state = self._queues[queue]
        if not state.last < place < self._next(member, row, queue.sender, queue):
            raise CannotJoinError("a token would be sent out of turn")
        self._send(queue, place)
        state.last = place
        sender = next(each for each in reversed(self.members) if each.base[queue.sender] <= place)
        row = sender.stream.rows[queue.sender][place - int(sender.base[queue.sender])]
        self._added.append((sender, sender.pushes, row, queue))
        return self._ended(queue.sender, place)

    def _relayed(self, member: Member, row: int, first: Queue, second: Queue, awaited: Place) -> Clock:
        """Put an instruction into the stream that takes a token, if its unit must, and sends one on."""
        stream, unit = member.stream, first.receiver
        self._check_idle(unit)
        at = min(row, stream.first_push.get(second, row), stream.first_pop.get(first, row))
        place = self._next(member, at, unit)
        if self._queues[second].last >= place:
            raise CannotJoinError("an instruction put between would send another's token")
        self._take_before(member, first, at, place)
        clock = self._known[unit].at(place - 1)
        pops: tuple[Queue, ...] = ()
        if clock[first.sender] <= awaited:
            state = self._queues[first]
            token = self._push(member, at, first, max(awaited, state.last + 1))
            clock, pops = _merged(clock, token), (first,)
            insort(state.taken, place)
        self._known[unit].learn(self._next(member, row, unit), clock)
        self._send(second, place - 1)
        self._queues[second].last = max(self._queues[second].last, place - 1)
        member.idles.append(Idle(at, unit, pops, (second,)))
        return tuple(place if other == unit else count for other, count in enumerate(clock))

    def _take_before(self, member: Member, queue: Queue, at: int, place: Place) -> None:
        """Let tokens that instructions from ``at`` on were to take be taken before it: one put there takes the next."""
        later = [each for each in self._added if each[1] is member.pops and each[3] == queue and each[2] >= at]
        if later and any(
            where is member.pushes and other == queue and row >= at for _, where, row, other in self._added
        ):
            raise CannotJoinError("a token would be taken before it is sent")
        self._added = [each for each in self._added if not any(each is one for one in later)]
        state = self._queues[queue]
        for each in later:
            state.taken.remove(int(member.base[queue.receiver]) + member.stream.place[each[2]])
            insort(state.taken, place)
            member.idles.append(Idle(at, queue.receiver, (queue,), ()))

    def _take(self, member: Member, row: int, place: Place, queue: Queue, token: Clock) -> None:
        """Let the instruction at ``row``, or one of its unit before it, take a token before any of its own."""
        stream, unit = member.stream, queue.receiver
        begin = int(member.base[unit])
        busy = {at for _, where, at, other in self._added if where is member.pops and other == queue}
        end = min(row + 1, stream.first_pop.get(queue, stream.count))
        rows = stream.rows[unit]
        free = next((at for at in reversed(rows[: bisect_left(rows, end)]) if at not in busy), None)
        if free is not None:
            self._added.append((member, member.pops, free, queue))
            insort(self._queues[queue].taken, begin + stream.place[free])
        else:
            self._check_idle(unit)
            at = min(row, stream.first_pop.get(queue, row))
            member.idles.append(Idle(at, unit, (queue,), ()))
            insort(self._queues[queue].taken, self._next(member, at, unit))
        self._known[unit].learn(place, token)

    def _check_idle(self, unit: int) -> None:
        if unit not in self._idle:
            raise CannotJoinError("a unit has no instruction that does nothing")
