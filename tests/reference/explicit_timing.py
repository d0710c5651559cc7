"""The rules of the timing, cycle by cycle and in plain Python: written from the prose, sharing no code with it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Range = tuple[str, bool, int, int]  # memory, writes, low, high (exclusive)


@dataclass
class Item:
    """An instruction: what it keeps for how long, and what it waits for.

    The last ``beats`` of its cycles are on the bus that units share. ``on_bus`` are those that it has there once it
    has begun, and ``gave_way`` is who had the last of those that it could not have.
    """

    unit: str
    cycles: int
    ranges: list[Range] = field(default_factory=list)
    pops: list[str] = field(default_factory=list)
    pushes: list[str] = field(default_factory=list)
    start: int | None = None
    end: int | None = None
    beats: int = 0
    on_bus: list[int] = field(default_factory=list)
    gave_way: "Item | None" = None

    def unfinished(self, now: int) -> bool:
        return self.end is None or self.end > now

    def runs(self, now: int) -> bool:
        return self.end is not None and self.end > now

    @property
    def memories(self) -> set[str]:
        return {memory for memory, *_ in self.ranges if memory != "dram"}


def meet(one: Item, other: Item) -> bool:
    """Whether they touch a common address that one of them writes."""
    return any(
        a == b and (writes or also) and low < top and bottom < high
        for a, writes, low, high in one.ranges
        for b, also, bottom, top in other.ranges
    )


def _ports_free(item: Item, items: list[Item], ports: int, now: int) -> bool:
    return all(sum(memory in other.memories for other in items if other.runs(now)) < ports for memory in item.memories)


def _begin(item: Item, now: int, items: list[Item]) -> None:
    taken = {cycle: other for other in items for cycle in other.on_bus}
    item.start, item.end = now, now + item.cycles
    cycle = item.end - item.beats
    while len(item.on_bus) < item.beats:
        if cycle in taken:
            item.gave_way = taken[cycle]
        else:
            item.on_bus.append(cycle)
        cycle += 1
        item.end = cycle


def in_order(items: list[Item], ports: int) -> None:
    """Start and end of each, where they start in the order of the program."""
    now = 0
    for index, item in enumerate(items):
        before = items[:index]
        while any(
            other.unit == item.unit or meet(other, item) for other in before if other.runs(now)
        ) or not _ports_free(item, before, ports, now):
            now += 1
        _begin(item, now, items)
        now += 1


def hazards(items: list[Item], ports: int, window: int) -> None:
    """Start and end of each, where units wait for addresses."""
    dispatched: list[Item] = []

    def ready(item: Item, now: int) -> bool:
        before = dispatched[: dispatched.index(item)]
        return not any(meet(other, item) for other in before if other.unfinished(now))

    def dispatch(now: int) -> list[Item]:
        waiting = sum(item.unfinished(now) for item in dispatched)
        if len(dispatched) < len(items) and waiting < window:
            dispatched.append(items[len(dispatched)])
        return dispatched

    _units_apart(items, ports, dispatch, ready)


def tokens(items: list[Item], ports: int, counters: dict[str, int], limit: int) -> bool:
    """Start and end of each, where units wait for tokens; ``counters`` holds what is left. False in a deadlock."""
    sent: set[int] = set()

    def arrive(now: int) -> list[Item]:
        for item in items:
            if item.end is not None and item.end <= now and id(item) not in sent:
                sent.add(id(item))
                for queue in item.pushes:
                    counters[queue] = min(counters[queue] + 1, limit)
        return items

    def ready(item: Item, now: int) -> bool:
        return all(counters[queue] > 0 for queue in item.pops)

    def take(item: Item) -> None:
        for queue in item.pops:
            counters[queue] -= 1

    return _units_apart(items, ports, arrive, ready, take)


def _units_apart(
    items: list[Item],
    ports: int,
    available: Callable[[int], list[Item]],
    ready: Callable[[Item, int], bool],
    begun: Callable[[Item], Any] = id,
) -> bool:
    now, quiet = 0, 0
    patience = sum(item.cycles + item.beats for item in items) + len(items) + 2
    while any(item.unfinished(now - 1) for item in items) and quiet <= patience:
        moved = _one_cycle(items, ports, available, ready, begun, now)
        quiet = 0 if moved else quiet + 1
        now += 1
    available(now)
    return all(item.start is not None for item in items)


def _one_cycle(items: list[Item], ports: int, available: Any, ready: Any, begun: Any, now: int) -> bool:
    """Everything that starts at ``now``: of what could, always the first of the program."""
    moved = False
    there = available(now)
    while True:
        found = None
        for item in there:
            if item.start is not None:
                continue
            mine = [other for other in items if other.unit == item.unit]
            first = next(other for other in mine if other.start is None)
            busy = any(other.runs(now) for other in mine)
            if item is first and not busy and ready(item, now) and _ports_free(item, items, ports, now):
                found = item
                break
        if found is None:
            return moved
        _begin(found, now, items)
        begun(found)
        moved = True
