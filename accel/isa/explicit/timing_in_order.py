"""The clock of a machine that starts its instructions in the order of the program."""

import numpy as np

from accel.isa.compiled import compiled
from accel.isa.explicit.timing_conflicts import conflict, port_time, take_ports
from accel.isa.explicit.timing_layout import END, HAZARD, ORDER, PORT, START, Int64, Stream


@compiled
def run(stream: Stream, units: int, times: Int64, waits: Int64) -> None:
    """Fill ``times`` (2, n) and ``waits`` (3, n).

    Each starts a cycle after the one before it in the program at the earliest; its unit is free, no unfinished
    instruction touches what it touches, if one of them writes, and a port of each memory is free. A wait counts from
    when the unit was free: for the instructions before it (``ORDER``), then for addresses, then for ports.
    """
    accesses, start, ports = stream.accesses, stream.start, stream.ports
    free = np.zeros(units, np.int64)
    last = np.full(units, -1)
    turn = 0
    for index in range(len(stream.unit)):
        own = stream.unit[index]
        time = max(turn, free[own])
        waits[ORDER, index] = time - free[own]
        ready = time
        for other in range(units):
            if free[other] > ready and conflict(accesses, start, index, last[other]):
                ready = free[other]
        waits[HAZARD, index] = ready - time
        begin = max(ready, port_time(accesses, start, ports, index))
        waits[PORT, index] = begin - ready
        end = begin + stream.cycles[index]
        take_ports(accesses, start, ports, index, end)
        times[START, index], times[END, index] = begin, end
        free[own], last[own] = end, index
        turn = begin + 1
