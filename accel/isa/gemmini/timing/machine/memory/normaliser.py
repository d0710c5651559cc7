"""The normaliser between the accumulators and their scale (Normalizer.scala), or the queue where a design has none.

A row that is stored stays until the scale takes it, one for each number of statistics. A row that a statistic is
gathered of goes no further: it is in the lanes in the cycle after, and then its number is free, or waits for quotients.
How long those take follows from the bits of their significands. It is what most numbers take: zeros take a cycle, and
some numbers one less.
"""

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import STATISTICS
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.queues import has_room, offers, put, take
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64

_LANES = 5  # cycles from a row in the lanes until they are empty (``latency`` of Scratchpad.scala, and one)
# cycles of DivSqrtRecFN_small, of as many bits as int32 and float32 have: sigWidth + 2 of a quotient, + 1 of a root
_INTEGER_QUOTIENT, _ROOT, _QUOTIENT = 34, 33, 26


@compiled
def takes_row(m: Int64, row: int, now: int) -> bool:
    """Whether a row that was read from the accumulators is taken in."""
    if not m[at.NORMALISES]:
        return has_room(m, at.PASSTHROUGH, now)
    number = m[row + at.W_STATISTICS]
    return bool(now >= m[at.STATISTICS_FROM] and now >= m[at.STATISTICS_FREE + number] and not m[at.STORED + number])


@compiled
def take_row(m: Int64, row: int, now: int) -> None:
    """Take a row in, which is stored or gathered."""
    if not m[at.NORMALISES]:
        put(m, at.PASSTHROUGH, now)
        return
    number, command = m[row + at.W_STATISTICS], m[row + at.W_NORM]
    m[at.CHANGED] = 1
    if command == rocc.RESET:
        m[at.STORED + number] = 1
    elif command == rocc.MAX:
        m[at.STATISTICS_FROM] = now + 2
    elif command in (rocc.MEAN, rocc.INV_STDDEV):
        _use_lanes(m, now + 1)
        _divide(m, number, now + 1 + _LANES, command == rocc.INV_STDDEV)
    elif command == rocc.INV_SUM_EXP:
        m[at.STATISTICS_FROM] = now + 2
        m[at.QUOTIENT + number] = now + 1
        _use_lanes(m, now + 1)
    else:
        _use_lanes(m, now + 1)


@compiled
def give_row(m: Int64, now: int) -> bool:
    """Give the scale the row that is stored next, if there is one; in a cycle it is asked before a row is taken in."""
    if not m[at.NORMALISES]:
        there = offers(m, at.PASSTHROUGH, now)
        if there:
            take(m, at.PASSTHROUGH, now)
        return bool(there)
    for number in range(STATISTICS):
        if m[at.STORED + number]:
            m[at.STORED + number], m[at.CHANGED] = 0, 1
            return True
    return False


@compiled
def row_is_taken_from(m: Int64, row: int) -> int:
    """The cycle from which a row is taken in, as far as statistics before it decide."""
    return int(max(m[at.STATISTICS_FROM], m[at.STATISTICS_FREE + m[row + at.W_STATISTICS]]))


@compiled
def _divide(m: Int64, number: int, ready: int, deviation: bool) -> None:
    """A mean, or a variance, its root and the reciprocal of that; no row is taken in until the first is begun."""
    begun = max(ready, m[at.DIVIDER_FREE])
    free = begun + _INTEGER_QUOTIENT
    m[at.STATISTICS_FROM], m[at.DIVIDER_FREE] = begun + 1, free
    if deviation:
        m[at.ROOT_FREE] = max(free + 1, m[at.ROOT_FREE]) + _ROOT
        m[at.RECIPROCAL_FREE] = max(m[at.ROOT_FREE] + 1, m[at.RECIPROCAL_FREE]) + _QUOTIENT
        free = m[at.RECIPROCAL_FREE]
    m[at.STATISTICS_FREE + number] = free


@compiled
def _use_lanes(m: Int64, when: int) -> None:
    """Put off quotients of sums of exponentials that have not begun when a row is in the lanes: they wait for these."""
    free = 0
    for number in range(STATISTICS):
        begun = m[at.QUOTIENT + number]
        if 0 < begun < when:
            free = max(free, begun + _QUOTIENT)
    for number in range(STATISTICS):
        if m[at.QUOTIENT + number] >= when:
            m[at.QUOTIENT + number] = max(when + _LANES, free)
            free = m[at.QUOTIENT + number] + _QUOTIENT
            m[at.STATISTICS_FREE + number] = free
