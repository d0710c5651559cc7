"""The last level behind the L2, and the rows of DRAM behind that.

It is FireSim's (``LastLevelCache.scala``): one machine does one thing at a time, the answer of DRAM first, then reads,
then writes, each kind in its order. Its lines may be longer than the L2's. A miss holds its set: a request of that set
waits, and all of its kind behind it. So of a long line that is read from its beginning, the second line of the L2
waits for DRAM too. A write of less than a line reads it first, as what the L2 writes back is.
"""

from accel.isa.gemmini.timing.machine import places as at
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64

_LINE_BYTES = 64
_TAKEN, _LOOKED_UP = 1, 2  # cycles of the machine for any request: idle, then its tags
_SHIFT, _BITS = 16, 0x7FFFFFFF


@compiled
def random_way(m: Int64, ways: int) -> int:
    """Return the next victim."""
    m[at.L2_RANDOM] = m[at.L2_RANDOM] * 1103515245 + 12345 & _BITS  # C's example of rand()
    return int((m[at.L2_RANDOM] >> _SHIFT) % ways)


@compiled
def dram_line(m: Int64, at_least: int, line: int) -> int:
    """When DRAM has a line of 64 bytes that it is asked for; a bank opens the line's row first."""
    place = at.DRAM_ROWS + line // m[at.DRAM_ROW_LINES] % m[at.DRAM_BANKS]
    row = line // (m[at.DRAM_ROW_LINES] * m[at.DRAM_BANKS]) + 1
    begin = max(at_least, m[at.DRAM_FREE])
    m[at.DRAM_FREE] = begin + m[at.DRAM_CYCLES]
    opens = m[at.DRAM_ROW] if m[place] != row else 0
    m[place] = row
    return int(begin + opens + m[at.DRAM_LATENCY])


@compiled
def _find(m: Int64, block: int) -> int:
    """Where the last level has a line, or -1 less where it puts it: where none is, or at random."""
    first = m[at.LLC_LINES] + block % m[at.LLC_SETS] * m[at.LLC_WAYS]
    empty = -1
    for way in range(m[at.LLC_WAYS]):
        kept = m[first + way]
        if kept >= 0 and kept >> 1 == block:
            return int(first + way)
        if kept < 0 and empty < 0:
            empty = first + way
    return int(-1 - empty) if empty >= 0 else int(-1 - (first + random_way(m, m[at.LLC_WAYS])))


@compiled
def touch_block(m: Int64, line: int, write: int) -> None:
    """Put the line of a line of 64 bytes into the last level, without timing it."""
    block = line // m[at.LLC_LINE]
    found = _find(m, block)
    kept = 0
    if found < 0:
        found = -1 - found
    else:
        kept = m[found] & 1
    m[found] = block << 1 | kept | write


@compiled
def _begin(m: Int64, at_least: int, place: int, cycles: int) -> int:
    """When the machine can begin with a request of a set that takes ``cycles``; it has answers of DRAM to take in."""
    begin, moved = at_least, True
    while moved:
        moved = False
        soonest = begin + (1 << 40)
        for number in range(m[at.LLC_MISSES]):
            miss = at.LLC_MISS + number * at.V_WIDTH
            until = m[miss + at.V_UNTIL]
            soonest = min(soonest, until)
            if until > begin and m[miss + at.V_SET] == place:
                begin, moved = until, True
            if m[miss + at.V_REFILL] < begin + cycles and m[miss + at.V_REFILLED] > begin:
                begin, moved = m[miss + at.V_REFILLED], True
        if soonest > begin:
            begin, moved = soonest, True
    return int(begin)


@compiled
def last_level(m: Int64, now: int, line: int, write: int) -> int:
    """When the last level answers for a line of 64 bytes that it is asked for, or gets, ``now``."""
    block = line // m[at.LLC_LINE]
    place, beats = block % m[at.LLC_SETS], max(_LINE_BYTES // m[at.LLC_BUS], 1)
    order = at.LLC_WRITE if write else at.LLC_READ
    found = _find(m, block)
    begin = _begin(m, max(now, m[order], m[at.LLC_FREE]), place, _TAKEN + beats)
    m[order] = begin
    if found >= 0:
        m[at.LLC_FREE] = begin + _TAKEN + beats
        m[found] |= write
        return int(begin + _LOOKED_UP)
    found = -1 - found
    whole = m[at.LLC_LINE] * beats  # beats of a line of this level
    miss = at.LLC_MISS
    for number in range(m[at.LLC_MISSES]):
        other = at.LLC_MISS + number * at.V_WIDTH
        if m[other + at.V_UNTIL] < m[miss + at.V_UNTIL]:
            miss = other
    asked = begin + _LOOKED_UP
    busy = asked
    written_back = begin
    if m[found] >= 0 and m[found] & 1:
        busy += whole
        written_back = dram_line(m, asked, (m[found] >> 1) * m[at.LLC_LINE])
    if write:
        busy += beats
    m[at.LLC_FREE] = busy
    fills = busy
    m[miss + at.V_SET] = place
    if not write or m[at.LLC_LINE] > 1:
        fills = max(dram_line(m, asked, line), busy)
        for number in range(m[at.LLC_MISSES]):  # one answer of DRAM is taken in at a time
            fills = max(fills, m[at.LLC_MISS + number * at.V_WIDTH + at.V_REFILLED])
        m[miss + at.V_REFILL], m[miss + at.V_REFILLED] = fills, fills + whole
    m[miss + at.V_UNTIL] = max(fills, written_back)
    m[found] = block << 1 | write
    return int(fills)
