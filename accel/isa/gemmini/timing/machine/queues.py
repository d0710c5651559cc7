"""Queues in the machine's array.

An entry's first number is the cycle in which it was put: it can be taken from the next one on. Within a cycle whoever
takes comes before whoever puts, so a queue is as full for the latter as it was when the cycle began, unless it is one
that passes its readiness on (``pipe`` of Chisel's ``Queue``).
"""

from accel.isa.gemmini.timing.machine import places as at
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64

FIRST, COUNT, TAKEN, CAPACITY, WIDTH = range(at.HEADER)


@compiled
def make(m: Int64, queue: int, capacity: int, width: int) -> None:
    """Set up an empty queue."""
    m[queue + FIRST], m[queue + COUNT], m[queue + TAKEN] = 0, 0, -1
    m[queue + CAPACITY], m[queue + WIDTH] = capacity, width


@compiled
def has_room(m: Int64, queue: int, now: int) -> bool:
    """Whether it had room when the cycle began."""
    return bool(m[queue + COUNT] + (m[queue + TAKEN] == now) < m[queue + CAPACITY])


@compiled
def has_room_now(m: Int64, queue: int) -> bool:
    """Whether it has room, or just got some."""
    return bool(m[queue + COUNT] < m[queue + CAPACITY])


@compiled
def put(m: Int64, queue: int, now: int) -> int:
    """Add an entry; where its numbers lie."""
    position = m[queue + FIRST] + m[queue + COUNT]
    if position >= m[queue + CAPACITY]:
        position -= m[queue + CAPACITY]
    m[queue + COUNT] += 1
    slot = queue + at.HEADER + position * m[queue + WIDTH]
    m[slot] = now
    m[at.CHANGED] = 1
    return int(slot)


@compiled
def front(m: Int64, queue: int) -> int:
    """Where the numbers of the oldest entry lie."""
    return int(queue + at.HEADER + m[queue + FIRST] * m[queue + WIDTH])


@compiled
def offers(m: Int64, queue: int, now: int) -> bool:
    """Whether there is an entry, put before this cycle."""
    return bool(m[queue + COUNT] > 0 and m[queue + at.HEADER + m[queue + FIRST] * m[queue + WIDTH]] < now)


@compiled
def take(m: Int64, queue: int, now: int) -> None:
    """Drop the oldest entry."""
    m[queue + FIRST] += 1
    if m[queue + FIRST] == m[queue + CAPACITY]:
        m[queue + FIRST] = 0
    m[queue + COUNT] -= 1
    m[queue + TAKEN] = now
    m[at.CHANGED] = 1
