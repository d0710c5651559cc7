"""What the units of a vector program have left to do when its operands have come: a bound with latencies in it.

Loads of one unit come one behind the other, each after its latency. While they do, what has come can be worked on. To
load in more pieces lets that begin earlier, and brings each latency once more, so that of no number of pieces, and of
no sizes of them, is the program shorter than the best of these.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accel.expression.syntax_tree import Statement

_HALVINGS = 40  # of an interval of cycles
_ROUNDING = 1e-9  # of shares that are quotients
_MOST_LOADS = 64  # behind the first ones; with more of them all is supposed to have come in time


@dataclass(frozen=True)
class Needed:
    """What a statement needs of its unit.

    Attributes:
        statement: what is done.
        unit: that does it.
        work: cycles of all its iterations, or bytes, without what instructions take besides.
        begin: what each instruction takes besides.
        least: the shortest instruction.
        bus: cycles on a bus that units share, of what copies.
        latency: of a load, before it is on the bus; None of what is no load.
        at_once: the largest share of a tensor that one instruction copies.
    """

    statement: Statement
    unit: str
    work: float
    begin: float
    least: float
    bus: float = 0.0
    latency: float | None = None
    at_once: float = 1.0

    @property
    def loads(self) -> bool:
        """Whether it loads a tensor."""
        return self.latency is not None


def bound_of_arrival(needed: Sequence[Needed]) -> float:
    """Returns the cycles that no instructions for statements go below, however many they are and in whatever order.

    Of each statement, and of each unit that loads what it depends on: of ``p`` operands nothing can be worked on before
    ``p`` loads have ended. Let a share ``a`` of each of them be there when some loads have ended, and less before the
    last of these. Tensors are products of axes, and an iteration depends on all elements that agree with it in some of
    them; so a share of an operand's elements has at least that share of the iterations of every statement behind it
    depend on it. Of each unit, the iterations that wait for the last of these loads are what is left of its work, once
    that has ended.

    So with the shares a(1) < a(2) < ... < a(m) = 1 that are there after p, p + 1, ... loads a program takes at least ::

        latencies of p + i - 1 loads + a(i) * bytes + (1 - a(i - 1)) * work + beginnings

    for each i, and the least over all shares of the largest of these is a bound. As one load brings a part of an
    operand at most where that lies in pieces, no share is more than so many loads can bring of all. Beginnings are
    those of an instruction for each statement that is left, of the shortest ones between the operands and the unit, and
    behind it.
    """
    graph = _Graph(needed)
    found = [0.0]
    for pivot in range(len(needed)):
        behind = {pivot} | {number for number, before in enumerate(graph.before) if pivot in before}
        for loads in _by_unit(graph.loads_before(pivot), needed).values():
            arriving = _Arriving(
                sum(needed[load].begin for load in loads),
                min(needed[load].begin for load in loads),
                sum(needed[load].work for load in loads),
                tuple(_shares([needed[load].at_once for load in loads])),
            )
            for own in _by_unit(behind, needed).values():
                head = min(graph.between(pivot, number) for number in own)
                rest = head + sum(needed[number].begin for number in own) + graph.tail(own)
                found.append(arriving.least(sum(needed[number].work for number in own), rest))
    for own in _by_unit(
        [number for number, before in enumerate(graph.before) if _waits(needed, number, before)], needed
    ).values():
        whole = sum(needed[number].begin + needed[number].work for number in own)
        found.append(min(graph.starts[number] for number in own) + whole + graph.tail(own))
    return max(found)


def bound_of_bus(needed: Sequence[Needed]) -> float:
    """Returns the cycles of all copies on a bus that units share, and those in which nothing can be on it yet.

    Where one unit loads, that is the latency of a load of each operand that all stores wait for.
    """
    graph, beats = _Graph(needed), sum(each.bus for each in needed)
    copying = [number for number, each in enumerate(needed) if each.bus]
    stores = [frozenset(graph.loads_before(number)) for number in copying if not needed[number].loads]
    loads = [number for number in copying if needed[number].loads]
    if not stores or len({needed[load].unit for load in loads}) != 1:
        return beats
    awaited = frozenset(loads).intersection(*stores)
    return beats + sum(needed[load].latency or 0.0 for load in awaited)


def _waits(needed: Sequence[Needed], number: int, before: frozenset[int]) -> bool:
    """Whether a statement loads, or depends on what is loaded; what does not may be done ahead."""
    return needed[number].loads or any(needed[other].loads for other in before)


def _by_unit(numbers: Iterable[int], needed: Sequence[Needed]) -> Mapping[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number in numbers:
        found.setdefault(needed[number].unit, []).append(number)
    return found


def _shares(at_once: Sequence[float]) -> Iterator[float]:
    """Yields the largest share of all operands that is there after a load of each, after one more, and so on to all.

    Loads go where least is there: after ``n`` loads of an operand that is ``n`` times what one brings.
    """
    loads = [1] * len(at_once)
    for _ in range(_MOST_LOADS):
        there = [number * share for number, share in zip(loads, at_once, strict=True)]
        least = min(there)
        if least >= 1.0 - _ROUNDING:
            yield 1.0
            return
        yield least
        loads[there.index(least)] += 1


@dataclass(frozen=True)
class _Arriving:
    """Operands that one unit loads: latencies of a load of each, of a further load, and cycles of their bytes.

    ``shares``: the largest that are there after a load of each, and after each one more, to all of them.
    """

    first: float
    further: float
    moved: float
    shares: tuple[float, ...]

    def least(self, work: float, rest: float) -> float:
        """The least cycles in which ``work`` is done as operands come, and ``rest`` whenever they have come."""
        low, high = 0.0, self.first + self.further * (len(self.shares) - 1) + self.moved + work + rest
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._is_enough(middle, work, rest) else (middle, high)
        return low

    def _is_enough(self, cycles: float, work: float, rest: float) -> bool:
        """Whether all can have come in time: as much as may with each load, as more lets the next have more."""
        share, loaded = 0.0, self.first
        for number in range(_MOST_LOADS):
            left = cycles - rest - loaded - (1 - share) * work
            if left < self.moved and left <= share * self.moved:  # no more than was there
                return False
            share = 1.0 if left >= self.moved else left / self.moved
            share = min(share, self.shares[number]) if number < len(self.shares) else share
            if share >= 1.0:
                return True
            loaded += self.further
        return True


class _Graph:
    """Which statements depend on which others, in their order, and the shortest instructions along the ways."""

    def __init__(self, needed: Sequence[Needed]) -> None:
        self._needed = needed
        self._sources = list(_sources(needed))
        self.before: list[frozenset[int]] = []
        self.starts: list[float] = []
        for sources in self._sources:
            self.before.append(sources.union(*(self.before[source] for source in sources)))
            self.starts.append(max((self.starts[source] + needed[source].least for source in sources), default=0.0))
        self._ends = [0.0] * len(needed)
        for number in reversed(range(len(needed))):
            for source in self._sources[number]:
                self._ends[source] = max(self._ends[source], needed[number].least + self._ends[number])

    def loads_before(self, number: int) -> list[int]:
        """The loads that a statement depends on."""
        return [other for other in sorted(self.before[number]) if self._needed[other].loads]

    def between(self, first: int, last: int) -> float:
        """Cycles of the shortest instructions of the longest way from a statement to one behind it, without that."""
        longest = {first: 0.0}
        for number in range(first + 1, last + 1):
            ways = [longest[each] + self._needed[each].least for each in self._sources[number] if each in longest]
            if ways:
                longest[number] = max(ways)
        return longest[last]

    def tail(self, numbers: Sequence[int]) -> float:
        """Cycles of the shortest instructions behind the last that a unit does, of the statements that are all its own.

        It is of a statement that no other of them depends on.
        """
        inner = frozenset[int]().union(*(self.before[number] for number in numbers))
        return min(self._ends[number] for number in numbers if number not in inner)


def _sources(needed: Sequence[Needed]) -> Iterator[frozenset[int]]:
    """Yields, for each statement, those that make what it reads: buffers are used again, so the last before it.

    What is looked up in a table depends on its elements by what the data say, and does not count.
    """
    writers: dict[str, frozenset[int]] = {}
    for number, each in enumerate(needed):
        statement = each.statement
        tables, target = {table.name for table in statement.looked_up}, statement.target.name
        read = {access.name for access in statement.accesses} - tables
        read |= {target} if statement.updates else set()
        yield frozenset[int]().union(*(writers.get(name, frozenset()) for name in read))
        writers[target] = frozenset({number}) | (writers.get(target, frozenset()) if statement.updates else frozenset())
