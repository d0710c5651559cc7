"""Clock of a machine that starts instructions in program order; address ranges and ports that they share."""

import numpy as np

from accel.isa.explicit.clock.timing_bus import run_time
from accel.isa.explicit.clock.timing_layout import END, HAZARD, HELD_ADDRESSES, ORDER, PORT, START, Stream
from accel.isa.explicit.hazards.accesses import HIGH, LOW, MEMORY, WRITES
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64


@compiled
def conflict(accesses: Int64, start: Int64, one: int, other: int) -> bool:
    """Whether two instructions touch overlapping ranges of a memory, and one of them writes there."""
    for a in range(start[one], start[one + 1]):
        for b in range(start[other], start[other + 1]):
            if (
                accesses[a, MEMORY] == accesses[b, MEMORY]
                and accesses[a, WRITES] | accesses[b, WRITES]
                and accesses[a, LOW] < accesses[b, HIGH]
                and accesses[b, LOW] < accesses[a, HIGH]
            ):
                return True
    return False


@compiled
def port_time(accesses: Int64, start: Int64, ports: Int64, index: int) -> int:
    """From when on each memory that an instruction touches has a free port; DRAM always has."""
    time = 0
    for a in range(start[index], start[index + 1]):
        memory = accesses[a, MEMORY]
        if memory < len(ports):
            time = max(time, ports[memory, _free_port(ports, memory)])
    return time


@compiled
def take_ports(accesses: Int64, start: Int64, ports: Int64, index: int, end: int) -> None:
    """Take one port of each memory that an instruction touches, until ``end``."""
    taken = 0
    for a in range(start[index], start[index + 1]):
        memory = accesses[a, MEMORY]
        if memory < len(ports) and not taken >> memory & 1:
            ports[memory, _free_port(ports, memory)] = end
            taken |= 1 << memory


@compiled
def _free_port(ports: Int64, memory: int) -> int:
    """The port that is free first."""
    best = 0
    for port in range(1, ports.shape[1]):
        if ports[memory, port] < ports[memory, best]:
            best = port
    return best


@compiled
def run(stream: Stream, units: int, times: Int64, waits: Int64, blockers: Int64) -> None:
    """Fill ``times`` (2, n), ``waits`` (4, n), and ``blockers`` (2, n): who held addresses, and the bus.

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
                blockers[HELD_ADDRESSES, index] = last[other]
        waits[HAZARD, index] = ready - time
        begin = max(ready, port_time(accesses, start, ports, index))
        waits[PORT, index] = begin - ready
        end = begin + run_time(stream, waits, blockers, index, begin)
        take_ports(accesses, start, ports, index, end)
        times[START, index], times[END, index] = begin, end
        free[own], last[own] = end, index
        turn = begin + 1
