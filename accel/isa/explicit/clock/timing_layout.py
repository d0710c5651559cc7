"""The arrays that the timing kernels share; times are in cycles from the launch, an end is the first cycle after."""

from typing import NamedTuple

from accel.isa.kernels.kernel_types import CUBE, MATRIX, SCALAR, VECTOR, Fields
from accel.util.arrays import Int64

# rows of the times of instructions
TIMES = 2
START, END = range(TIMES)

# causes, rows of the waits in the order in which they can end, the last while the instruction runs; queues follow
CAUSES = 4
ORDER, HAZARD, PORT, BUS = range(CAUSES)

# rows of the blockers: who was the last to hold addresses, and the bus
BLOCKERS = 2
HELD_ADDRESSES, HELD_BUS = range(BLOCKERS)


class Stream(NamedTuple):
    """A launch of n instructions.

    ``unit``, ``cycles`` and ``beats`` are (n,): its unit, how long it takes where nothing holds it up, and how many of
    these, the last ones, it is on the bus that units share. ``bus`` (3, units) is room for the stretches in which that
    is taken; it has no columns where none is shared.

    Instruction i has the rows ``[start[i], start[i + 1])`` of ``accesses`` (a, 4), see
    :func:`accel.isa.explicit.hazards.accesses.ranges_of`, and in the same way queues in ``pops`` and ``pushes``.
    ``ports`` (memories, most) says until when each port is taken.
    """

    unit: Int64
    cycles: Int64
    accesses: Int64
    start: Int64
    pops: Int64
    pop_start: Int64
    pushes: Int64
    push_start: Int64
    ports: Int64
    beats: Int64
    bus: Int64


STREAM = Fields(Stream, (VECTOR, VECTOR, MATRIX, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, MATRIX, VECTOR, MATRIX))


class State(NamedTuple):
    """Where units that run apart are.

    ``units`` (3, units): the next instruction, the one that runs or -1, and since when none does. ``window`` (5,
    places) holds what is dispatched and unfinished, ``place`` (n,) where, ``spans`` (memories and DRAM, 4, places) what
    it touches; place p waits for place q if bit q % BITS of ``waiting[q // BITS, p]`` is set. These four are empty
    where units do not wait for addresses. ``tokens`` and ``since`` (queues,): how many there are, and since when there
    are some; a counter stops at ``limit``. ``following`` (n,) is the next instruction of the same unit, or n.
    """

    units: Int64
    window: Int64
    spans: Int64
    waiting: Int64
    place: Int64
    tokens: Int64
    since: Int64
    following: Int64
    limit: int


STATE = Fields(State, (MATRIX, MATRIX, CUBE, MATRIX, VECTOR, VECTOR, VECTOR, VECTOR, SCALAR))

# rows of the units
UNIT = 3
NEXT, RUNNING, FREE = range(UNIT)

# rows of the stretches in which the bus is taken, in their order: from when to when, and whose the last cycle is
STRETCH = 3
BEGINS, ENDS, WHOSE = range(STRETCH)

# rows of the window: the instruction, how many unfinished ones it waits for, when the last of those ended, the free
# places, behind as many as are filled, and the unit of that last one, or -1
PLACE = 5
WHO, PENDING, READY, SPARE, BLOCKER = range(PLACE)

# what an instruction in the window touches and writes of a memory, from the first to the last; nothing by itself
SPAN = 4
TOUCH_LOW, TOUCH_HIGH, WRITE_LOW, WRITE_HIGH = range(SPAN)
NOWHERE = 1 << 62
BITS = 62  # places in a row of the matrix of who waits for whom
