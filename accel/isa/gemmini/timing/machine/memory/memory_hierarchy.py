"""Memory behind the port: an L2 whose lines are replaced at random, a last level if there is one, and DRAM.

The L2 takes a request, and the next one when its bus has moved the bytes that are read; those that are written come in
on another. A line that is there is answered after the L2's latency. Behind a write, a request of the same set waits for
it, and all behind that one. A line that is not there is read from the last level, or from DRAM; a limited number is
under way at once, and the L2 takes nothing while one more would be. A line that was written goes back when it is
replaced, and its miss is under way until it is taken; a write of a whole line reads nothing. So does SiFive's
InclusiveCache, with an MSHR for each miss (rocket-chip-inclusive-cache ``Directory.scala`` ``victimLFSR``,
``MSHR.scala``). What is behind is :mod:`accel.isa.gemmini.timing.machine.memory.last_level`.
"""

from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.memory.last_level import dram_line, last_level, random_way, touch_block
from accel.isa.kernels.compiled_kernels import Signature, compiled
from accel.isa.kernels.kernel_types import MATRIX, VECTOR
from accel.util.arrays import Int64

_LINE_BITS = 6
BEGIN, ROWS, STRIDE, BYTES, WRITE = range(5)  # columns of the boxes that are put into the caches


@compiled
def empty_cache(m: Int64) -> None:
    """Empty the L2: no line is there, and nothing is under way."""
    for line in range(m[at.L2_SETS] * m[at.L2_WAYS]):
        m[at.LINES + line * at.LINE_WIDTH + at.LINE_TAG] = -1
    for line in range(m[at.LLC_SETS] * m[at.LLC_WAYS]):
        m[m[at.LLC_LINES] + line] = -1


@compiled
def _find_line(m: Int64, line: int) -> int:
    """Where the L2 has a line, or -1 less where it puts it instead of another."""
    first = at.LINES + line % m[at.L2_SETS] * m[at.L2_WAYS] * at.LINE_WIDTH
    for way in range(m[at.L2_WAYS]):
        place = first + way * at.LINE_WIDTH
        if m[place + at.LINE_TAG] == line:
            return int(place)
    return int(-1 - (first + random_way(m, m[at.L2_WAYS]) * at.LINE_WIDTH))


@compiled
def _fetch(m: Int64, start: int, line: int, whole: bool, place: int) -> int:
    """Make room for a line at a ``place``, and read it, unless it is written as a ``whole``; when it is there."""
    miss = at.SIZE
    for other in range(at.SIZE + 1, at.SIZE + m[at.L2_MISSES]):
        if m[other] < m[miss]:
            miss = other
    begin = max(start, m[miss])
    m[at.L2_FREE] = max(m[at.L2_FREE], begin)
    ready = begin
    if not whole:
        ready = _answer_behind(m, begin, line, 0)
    m[miss] = ready
    if m[place + at.LINE_DIRTY]:
        m[miss] = max(ready, _answer_behind(m, begin, m[place + at.LINE_TAG], 1))
    return int(ready)


@compiled
def _answer_behind(m: Int64, now: int, line: int, write: int) -> int:
    """When what is behind the L2 answers for a line."""
    if m[at.LLC_SETS]:
        return int(last_level(m, now, line, write) + m[at.LLC_LATENCY])
    return dram_line(m, now, line)


@compiled
def _look_up(m: Int64, now: int, line: int, write: int, nbytes: int, whole: bool) -> int:
    """When the L2 answers a request of ``nbytes`` of a line."""
    start = max(now, m[at.L2_FREE])
    written = at.LINES + m[at.L2_SETS] * m[at.L2_WAYS] * at.LINE_WIDTH + line % m[at.L2_SETS]
    start = max(start, m[written])
    m[at.L2_FREE] = start + (1 if write else max(nbytes // m[at.L2_BUS], 1))
    if write:
        m[written] = start + m[at.L2_WRITE]
    found = _find_line(m, line)
    if found < 0:
        found = -1 - found
        m[found + at.LINE_READY] = _fetch(m, start, line, whole, found)
        m[found + at.LINE_TAG], m[found + at.LINE_DIRTY] = line, 0
    m[found + at.LINE_DIRTY] |= write
    return int(max(start, m[found + at.LINE_READY]) + m[at.L2_LATENCY])


@compiled
def cached_answer(m: Int64, now: int, beat: int) -> int:
    """When the first beat of the answer to a request is due, whose last ``beat`` is taken ``now``."""
    write, address, nbytes = m[beat + at.A_WRITE], m[beat + at.A_ADDRESS], m[beat + at.A_BYTES]
    beats = m[beat + at.A_BEATS] if write else m[beat + at.A_ANSWER]
    size, due = beats * m[at.BUS], now
    for line in range(address >> _LINE_BITS, (address + size - 1 >> _LINE_BITS) + 1):
        due = max(due, _look_up(m, now, line, write, min(size, 1 << _LINE_BITS), nbytes >= 1 << _LINE_BITS))
    return due


@compiled
def _touch(m: Int64, line: int, write: int) -> None:
    found = _find_line(m, line)
    if found < 0:
        found = -1 - found
        if m[at.LLC_SETS]:
            if m[found + at.LINE_DIRTY]:
                touch_block(m, m[found + at.LINE_TAG], 1)
            touch_block(m, line, 0)
        m[found + at.LINE_TAG], m[found + at.LINE_DIRTY] = line, 0
    m[found + at.LINE_DIRTY] |= write


@compiled
def warm_cache(m: Int64, boxes: Int64) -> None:
    """Put the lines of accesses (b, 5) into the L2 of a machine, in their order, without timing them.

    Args:
        m: the machine, prepared.
        boxes: first byte, rows, bytes from row to row, bytes of a row, and whether they are written.
    """
    for box in range(len(boxes)):
        for row in range(boxes[box, ROWS]):
            begin = boxes[box, BEGIN] + row * boxes[box, STRIDE]
            for line in range(begin >> _LINE_BITS, (begin + boxes[box, BYTES] - 1 >> _LINE_BITS) + 1):
                _touch(m, line, boxes[box, WRITE])


def warming_signature() -> Signature:
    """Returns what fills the L2."""
    return Signature(warm_cache, VECTOR, MATRIX)
