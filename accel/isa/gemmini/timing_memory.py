"""Gemmini's DMA: packets, requests in flight and the bus.

A row becomes requests of aligned powers of two bytes; each time the one that brings most of what is left, and the
smallest of those (DMA.scala ``read_packets``). One request leaves in a cycle while there is room for it among those in
flight, and the bus answers in order, one beat a cycle.
"""

import numpy as np
import numpy.typing as npt

from accel.isa.compiled import compiled
from accel.isa.gemmini import timing_layout as at

Int64 = npt.NDArray[np.int64]

# state of a channel, (CHANNEL + requests in flight,): last request, bus free, requests so far; then ends as a ring
LAST, BUS_FREE, COUNT = range(3)
CHANNEL = 3


@compiled
def packet(address: int, left: int, bus: int, most: int) -> tuple[int, int]:
    """Size of the next request and how many of its bytes are wanted."""
    best, useful = bus, 0
    size = bus
    while size <= most:
        end = (address // size + 1) * size
        wanted = min(end - address, left)
        if wanted > useful:
            best, useful = size, wanted
        size *= 2
    return best, useful


@compiled
def transfer(channel: Int64, parameters: Int64, address: int, nbytes: int, ready: int, latency: int) -> int:
    """Move one row that can be requested from cycle ``ready`` on; when its last beat has passed."""
    flights = parameters[at.IN_FLIGHT]
    end = ready
    while nbytes > 0:
        size, useful = packet(address, nbytes, parameters[at.BUS], parameters[at.MAX_BYTES])
        slot = CHANNEL + channel[COUNT] % flights
        request = max(ready, channel[LAST] + 1, channel[slot])
        channel[LAST] = request
        end = max(request + latency, channel[BUS_FREE]) + size // parameters[at.BUS]
        channel[BUS_FREE] = end
        channel[slot] = end if latency > 0 else end + parameters[at.LATENCY]
        channel[COUNT] += 1
        address += useful
        nbytes -= useful
    return end
