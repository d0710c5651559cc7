"""What instructions have in common: address ranges and ports of memories.

Functions of the clocks take the arrays that they need: handing over the whole launch would cost more than they do.
"""

from accel.isa.compiled import compiled
from accel.isa.explicit.accesses import HIGH, LOW, MEMORY, WRITES
from accel.isa.explicit.timing_layout import Int64


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
