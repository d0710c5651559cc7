"""The DRAM bus that units share: of copies that want the same cycle of it, the one that started first has it.

A copy takes its cycles on the bus as it starts: as many as it is there for, the first that no earlier copy has taken
from where its last cycles begin, with breaks where others are served. It ends behind the last of them.
"""

from accel.isa.explicit.clock.timing_layout import BEGINS, BUS, ENDS, HELD_BUS, WHOSE, Stream
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64


@compiled
def run_time(stream: Stream, waits: Int64, blockers: Int64, index: int, time: int) -> int:
    """Returns the cycles of an instruction that starts at ``time``, and notes what it lost to others on the bus."""
    cycles: int = stream.cycles[index]
    beats: int = stream.beats[index]
    if beats == 0:
        return cycles
    end = _take(stream.bus, blockers, index, time, time + cycles - beats, beats)
    waits[BUS, index] = end - time - cycles
    return end - time


@compiled
def _take(bus: Int64, blockers: Int64, index: int, time: int, begin: int, beats: int) -> int:
    """Take the first ``beats`` free cycles of the bus from ``begin`` on, and return the cycle behind the last of them.

    ``bus`` (3, units) has the stretches that are taken, in their order. Those that are over by ``time``, now, are
    dropped: each of the rest ends with a copy that runs, so that there is room. From ``begin`` to the end no cycle
    stays free, so that the stretches which hold it up are one with its own. The last of them is the blocker's.
    """
    free, left, first, kept = begin, beats, begin, 0
    for place in range(bus.shape[1]):
        low, high, whose = bus[BEGINS, place], bus[ENDS, place], bus[WHOSE, place]
        if high <= time:
            continue
        if high > begin and low < free + left:
            left -= max(low - free, 0)
            first, free = min(first, low), high
            blockers[HELD_BUS, index] = whose
            continue
        bus[BEGINS, kept], bus[ENDS, kept], bus[WHOSE, kept] = low, high, whose
        kept += 1
    end = free + left
    at = kept
    while at > 0 and bus[BEGINS, at - 1] >= end:
        bus[BEGINS, at], bus[ENDS, at], bus[WHOSE, at] = bus[BEGINS, at - 1], bus[ENDS, at - 1], bus[WHOSE, at - 1]
        at -= 1
    bus[BEGINS, at], bus[ENDS, at], bus[WHOSE, at] = first, end, index
    for place in range(kept + 1, bus.shape[1]):
        bus[ENDS, place] = 0
    return end
