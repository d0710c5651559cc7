"""Launches in a row that become one: tokens at their seams order what one does after the other.

What must be ordered follows from what the instructions access, and what is ordered from vector clocks (the last
instruction of each unit that a unit knows to have ended), so that a load waits for no more than what it reads, or
writes over. Where a token is added, those of a launch's own that it makes needless go. Units that have no queue from
one to the other are ordered through a third, by an instruction that knows already, or by one that does nothing else.

Nothing waits for ever: every token is sent before the place, in the order of the program, where it is taken.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy
from accel.isa.family import Family
from accel.joining.token_edges import Rank, TokenEdges
from accel.joining.token_stream import Queue, TokenStream, queues_of, token_field
from accel.joining.unfinished_accesses import Accesses, StreamAccesses, TouchesOf
from accel.util.arrays import Int64

STEP = 1 << 12
"""Ranks from one instruction to the next: so many may be put between."""
_AHEAD = 2  # steps of a launch for which it loads ahead

Clock = tuple[Rank, ...]
"""Of each unit, the last of its instructions that has ended for certain; -1: none."""


class CannotJoinError(Exception):
    """A launch cannot follow the one before it without an end between them; the message says why."""


@dataclass(frozen=True)
class Idle:
    """An instruction of a unit that is put before instruction ``row`` to wait for a token or to send one."""

    row: int
    unit: int
    rank: Rank


@dataclass(eq=False)
class Member:
    """A launch of a chain, whose instructions have the ranks from ``base`` on."""

    stream: TokenStream
    base: Rank
    idles: list[Idle] = field(default_factory=list)

    def rank(self, row: int) -> Rank:
        """Returns the rank of an instruction."""
        return self.base + row * STEP

    def row(self, rank: Rank) -> int:
        """Returns the instruction of a rank, or the one before what was put there."""
        return (rank - self.base) // STEP


class _Knowledge:
    """What a unit knows: what it knew as it began an instruction holds until the next entry."""

    def __init__(self, units: int) -> None:
        self._ranks: list[Rank] = [-1]
        self._clocks: list[Clock] = [(-1,) * units]

    @property
    def now(self) -> Clock:
        return self._clocks[-1]

    def learn(self, rank: Rank, clock: Clock) -> None:
        """Note what is known from an instruction on, which may stand before the last one."""
        at = bisect_right(self._ranks, rank)
        merged = _merged(self._clocks[at - 1], clock)
        if merged == self._clocks[at - 1]:
            return
        self._ranks.insert(at, rank)
        self._clocks.insert(at, merged)
        for later in range(at + 1, len(self._ranks)):
            merged = _merged(self._clocks[later], clock)
            if merged == self._clocks[later]:
                return
            self._clocks[later] = merged

    def at(self, rank: Rank) -> Clock:
        return self._clocks[bisect_right(self._ranks, rank) - 1]

    def since(self, unit: int, rank: Rank) -> Rank | None:
        """The first instruction that begins when that of ``unit`` has ended; None where none does."""
        found = bisect_left(self._clocks, rank, key=lambda clock: clock[unit])
        return self._ranks[found] if found < len(self._ranks) else None


def _merged(one: Clock, other: Clock) -> Clock:
    return tuple(map(max, one, other))


class TokenChain:
    """Launches that have been joined so far."""

    def __init__(self, accelerator: Accelerator, limit: int, idle: Collection[int], family: Family) -> None:
        units = len(accelerator.units)
        self.members: list[Member] = []
        self.queues = {queue: TokenEdges() for queue in queues_of(accelerator)}
        self._accelerator, self._limit, self._family = accelerator, limit, family
        self._idle = idle
        self._into = {unit: [queue for queue in self.queues if queue.receiver == unit] for unit in range(units)}
        self._known = [_Knowledge(units) for _ in range(units)]
        self._last = np.full(units, -1, np.int64)
        self._next = STEP
        self._accesses = Accesses.none()

    def append(self, stream: TokenStream, touches: TouchesOf) -> None:
        """Join a launch, of which ``touches`` says what it touches on the chip, to those before it.

        Raises:
            CannotJoinError: it cannot be, and the chain is of no more use.
        """
        member = Member(stream, self._next)
        ranks = member.base + np.arange(len(stream.decoded)) * STEP
        accesses = StreamAccesses(stream, ranks, self._family, touches)
        self.members.append(member)
        for queue, edges in stream.edges().items():
            self.queues[queue].sent += [member.rank(row) for row, _ in edges]
            self.queues[queue].taken += [member.rank(row) for _, row in edges]
        self._run(member, accesses.first())
        self._check_room()
        self._next = member.base + stream.count * STEP
        for unit, rows in enumerate(stream.rows):
            self._last[unit] = member.rank(rows[-1]) if rows else self._last[unit]
        known = self._known_by_all()
        self._accesses = self._accesses.unfinished(known) + accesses.unfinished(known)

    def again(self, launches: Sequence[tuple[TokenStream, TouchesOf]]) -> "TokenChain":
        """Returns another chain for the same machine, of launches that were joined before."""
        chain = TokenChain(self._accelerator, self._limit, self._idle, self._family)
        for stream, touches in launches:
            chain.append(stream, touches)
        return chain

    def end(self) -> None:
        """Let the last launch end as it did by itself."""
        member = self.members[-1]
        for row, queue in member.stream.drains:
            self.queues[queue].add(member.rank(row), member.rank(member.stream.count))

    def _known_by_all(self) -> Int64:
        """Of each unit (units,), the last instruction that every other one knows to have ended."""
        clocks = np.array([knowledge.now for knowledge in self._known], np.int64)
        np.fill_diagonal(clocks, np.iinfo(np.int64).max)
        return clocks.min(axis=0) if len(clocks) > 1 else self._last

    def _run(self, member: Member, accesses: Iterator[Accesses]) -> None:
        row, open_ = 0, bool((self._known_by_all() < self._last).any())
        while open_ and row < member.stream.count:
            self._step(member, row, next(accesses))
            row += 1
            open_ = bool((self._known_by_all() < self._last).any())
        for later in member.stream.taking(row):
            self._step(member, later, None)

    def _step(self, member: Member, row: int, accesses: Accesses | None) -> None:
        unit, rank = member.stream.unit[row], member.rank(row)
        for queue in self._into[unit]:
            sender = self.queues[queue].sender(rank)
            if sender is not None:
                self._known[unit].learn(rank, self._ended(queue.sender, sender))
        for other, awaited in self._accesses.awaited_by(accesses, unit).items() if accesses is not None else ():
            if self._known[unit].now[other] < awaited:
                self._order(member, row, Queue(other, unit), awaited)

    def _ended(self, unit: int, rank: Rank) -> Clock:
        """What is known when an instruction has ended."""
        clock = list(self._known[unit].at(rank))
        clock[unit] = rank
        return tuple(clock)

    def _check_room(self) -> None:
        """Refuse a queue that would hold more tokens than it can, however slow its receiver is."""
        for queue, edges in self.queues.items():
            for number in range(edges.checked, len(edges.sent)):
                known = self._known[queue.sender].at(edges.sent[number])[queue.receiver]
                if number + 1 - bisect_right(edges.taken, known) > self._limit:
                    raise CannotJoinError("a queue would hold more tokens than it can")
            edges.checked = len(edges.sent)

    def _order(self, member: Member, row: int, wanted: Queue, awaited: Rank) -> None:
        """Let the instruction at ``row`` wait for one of another unit, directly or through a third."""
        if wanted in self.queues:
            self._send(wanted, awaited, member.rank(row))
            return
        for through in range(len(self._known)):
            first, second = Queue(wanted.sender, through), Queue(through, wanted.receiver)
            if first in self.queues and second in self.queues:
                self._send(second, self._relay(member, row, first, second, awaited), member.rank(row))
                return
        raise CannotJoinError("two units that touch the same have no way to wait for each other")

    def _send(self, queue: Queue, sent: Rank, taken: Rank) -> None:
        """Let an instruction wait for another one, by a token."""
        for rank, push in ((sent, True), (taken, False)):
            self._check_able(rank, queue, push=push)
        self.queues[queue].add(sent, taken)
        self._known[queue.receiver].learn(taken, self._ended(queue.sender, sent))

    def _check_able(self, rank: Rank, queue: Queue, *, push: bool) -> None:
        member = next(each for each in reversed(self.members) if each.base <= rank or each is self.members[0])
        if rank % STEP == 0:
            kind = self._accelerator.instructions[member.stream.decoded.kind[member.row(rank)]]
            if token_field(self._accelerator, kind, queue, push=push) is None:
                raise CannotJoinError("an instruction has no such token")

    def _relay(self, member: Member, row: int, first: Queue, second: Queue, awaited: Rank) -> Rank:
        """Returns an instruction of a third unit before ``row`` that begins when the awaited one has ended.

        It is one that does nothing else where none knows in time.
        """
        unit = first.receiver
        host, at = self._relay_place(member, row, second, awaited)
        since = self._known[unit].since(first.sender, awaited)
        if since is not None and since < host.rank(at):
            return since
        if unit not in self._idle:
            raise CannotJoinError("a unit has no instruction that does nothing")
        begin = host.rank(at - 1)
        rank = max([begin, *(idle.rank for idle in host.idles if idle.row == at)]) + 1
        if rank == begin + STEP:
            raise CannotJoinError("too many instructions would be put between two")
        host.idles.append(Idle(at, unit, rank))
        self._send(first, awaited, rank)
        return rank

    def _relay_place(self, member: Member, row: int, queue: Queue, awaited: Rank) -> tuple[Member, int]:
        """The instruction before which one may be put that the one at ``row`` waits for, and its launch.

        A load waits for one behind all that it waits for already, and behind the step before the last one whose loads
        are before it, as loads of a launch by itself do: what is put further ahead would have that step wait as well.
        A step more goes by while what is awaited ends, if there is one, or else what its unit waits for next.
        """
        instruction = self._accelerator.instructions[member.stream.decoded.kind[row]]
        back = self.queues.get(Queue(queue.receiver, queue.sender))
        if back is None or not (isinstance(instruction, Copy) and instruction.direction == "load"):
            return member, row
        rank = member.rank(row)
        end = min(bisect_left(back.sent, rank), bisect_left(back.taken, rank))
        later = back.taken[bisect_right(back.taken, awaited, hi=end) : end][:1]
        ahead = back.taken[max(end - _AHEAD, 0) : end][:1]
        behind = max(*(later or [self._before_next(awaited)]), self.queues[queue].before(rank), *ahead)
        behind = min(behind, rank - STEP)
        host = next(each for each in reversed(self.members) if each.base <= behind)
        at = host.row(behind) + 1
        return (host, at) if host is member or at < host.stream.count else (self._next_to(host), 0)

    def _before_next(self, awaited: Rank) -> Rank:
        """The last instruction before the next one of the same unit; the awaited one where its launch has none."""
        host = next(each for each in reversed(self.members) if each.base <= awaited)
        rows = host.stream.rows[host.stream.unit[host.row(awaited)]]
        following = rows[bisect_right(rows, host.row(awaited)) :][:1]
        return host.rank(following[0] - 1) if following else awaited

    def _next_to(self, member: Member) -> Member:
        return self.members[self.members.index(member) + 1]
