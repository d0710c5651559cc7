"""The read channel: whose command the memory engine takes when, and when its data come.

Every function is a compiled kernel. Times are cycles from the launch; an end is the first cycle after. The rules are
those of the Chisel sources (tvm-vta ``hardware/chisel``), cited where they act.
"""

from accel.isa.kernels.compiled_kernels import compiled
from accel.isa.vta.timing.clock_columns import (
    ADDRESS,
    BARE_ROWS,
    BOUNDARY,
    BURST_BEATS,
    BUS,
    DURATION,
    IN_FLIGHT,
    LATENCY,
    PRIORITY,
    ROW_BYTES,
    ROWS,
    STRIDE,
    TAIL,
    ZEROS,
    ZEROS_BELOW,
    ZEROS_LEAD,
)
from accel.util.arrays import Int64

# a client of the read channel
NEXT, WHOSE, _ADDRESS, ROWS_LEFT, _ROW_BYTES, _LEFT, _STRIDE, DATA_END, BEATS = range(9)
_TAIL, _CLOCK, _ZEROS, _BARE, _BELOW = range(9, 14)
CLIENT = 14
# the read channel
_FREE, LAST_GRANT, _GRANTS, RING = range(4)


@compiled
def _open(clients: Int64, who: int, first: int) -> None:
    """Begin reading: the first command at ``first``. What to read is for the caller to set."""
    clients[who, NEXT] = first
    clients[who, DATA_END] = 0
    clients[who, BEATS] = 0


@compiled
def _take_burst(clients: Int64, who: int, parameters: Int64) -> int:
    """Beats of the client's next burst, which ends with its row, at the boundary, or at the longest burst."""
    bus = parameters[BUS]
    address = clients[who, _ADDRESS]
    room = parameters[BOUNDARY] - address % parameters[BOUNDARY]
    room = min(room, parameters[BURST_BEATS] * bus - address % bus)
    size = min(clients[who, _LEFT], room)
    clients[who, _ADDRESS] = address + size
    clients[who, _LEFT] -= size
    if clients[who, _LEFT] == 0:
        clients[who, ROWS_LEFT] -= 1
        clients[who, _ADDRESS] += clients[who, _STRIDE] - clients[who, _ROW_BYTES]
        clients[who, _LEFT] = clients[who, _ROW_BYTES]
    return int((address + size - 1) // bus - address // bus + 1)


@compiled
def grant_time(channel: Int64, ready: int, in_flight: int) -> int:
    """First cycle from ``ready`` in which the memory engine can take a command.

    It takes one a cycle, none while too many are in flight, and none in the cycle of a burst's last beat (VME.scala:
    availableEntries, deq.ready).
    """
    time = max(ready, int(channel[LAST_GRANT]) + 1)
    if time >= channel[_FREE]:
        return time
    oldest = int(channel[_GRANTS] % in_flight)
    if channel[_GRANTS] >= in_flight:
        time = max(time, int(channel[RING + oldest]))
    for slot in range(RING + oldest, RING + in_flight):
        time += channel[slot] - 1 == time
    for slot in range(RING, RING + oldest):
        time += channel[slot] - 1 == time
    return time


@compiled
def _write_zeros(clients: Int64, who: int, begin: int, end: int) -> None:
    """Move the padding's clock to ``end``; data are written from ``begin`` on.

    Zeros are written in the cycles that bring no data. Rows without padding at their sides, on the way to padding
    below, are passed in one cycle each, data or not (TensorLoadNarrowVME: ZeroPadding, sZpSideSkip).
    """
    idle = max(begin - clients[who, _CLOCK], 0)
    zeros = min(clients[who, _ZEROS], idle)
    bare = min(clients[who, _BARE], idle - zeros)
    below = min(clients[who, _BELOW], idle - zeros - bare)
    clients[who, _ZEROS] -= zeros
    clients[who, _BARE] -= bare
    clients[who, _BELOW] -= below
    if clients[who, _ZEROS] == 0:
        clients[who, _BARE] -= min(clients[who, _BARE], end - begin)
    clients[who, _CLOCK] = end


@compiled
def grant(channel: Int64, clients: Int64, who: int, time: int, parameters: Int64) -> None:
    """Take the client's next command at ``time``: its data follow those before, after the latency at the earliest."""
    beats = _take_burst(clients, who, parameters)
    start = max(channel[_FREE], time + parameters[LATENCY])
    end = start + beats
    channel[_FREE] = end
    channel[RING + channel[_GRANTS] % parameters[IN_FLIGHT]] = end
    channel[_GRANTS] += 1
    channel[LAST_GRANT] = time
    if clients[who, _ZEROS] + clients[who, _BARE] + clients[who, _BELOW] > 0:
        pipe = clients[who, _TAIL] - 1  # a load ends in the cycle after its last write
        _write_zeros(clients, who, start + pipe, end + pipe)
    clients[who, DATA_END] = end
    clients[who, BEATS] += beats
    clients[who, NEXT] = time + 2  # a client's command queue holds one and is not flow-through


@compiled
def begin_load(table: Int64, index: int, clients: Int64, who: int, time: int) -> None:
    """Begin the load ``index`` at ``time``: its commands, and the zeros around its data."""
    _open(clients, who, time + table[index, DURATION])
    clients[who, WHOSE] = table[index, PRIORITY]
    clients[who, _ADDRESS] = table[index, ADDRESS]
    clients[who, ROWS_LEFT] = table[index, ROWS]
    clients[who, _ROW_BYTES] = table[index, ROW_BYTES]
    clients[who, _LEFT] = table[index, ROW_BYTES]
    clients[who, _STRIDE] = table[index, STRIDE]
    clients[who, _TAIL] = table[index, TAIL]
    clients[who, _CLOCK] = time + table[index, ZEROS_LEAD]
    clients[who, _ZEROS] = table[index, ZEROS]
    clients[who, _BARE] = table[index, BARE_ROWS]
    clients[who, _BELOW] = table[index, ZEROS_BELOW]


@compiled
def begin_fetch(clients: Int64, who: int, nbytes: int, first: int) -> None:
    """Where the instructions lie does not matter: they are fetched in whole pages (FetchVME64: xmax_bytes)."""
    _open(clients, who, first)
    clients[who, ROWS_LEFT] = 1
    clients[who, _ADDRESS] = 0
    clients[who, _ROW_BYTES] = nbytes
    clients[who, _LEFT] = nbytes


@compiled
def load_end(clients: Int64, who: int, alone: int) -> tuple[int, int]:
    """The end of a load whose last command was granted: of its data, or of its zeros; and what other readers cost it.

    ``alone`` is when its data would end on an idle channel.
    """
    tail = clients[who, _TAIL]
    left = clients[who, _ZEROS] + clients[who, _BARE] + clients[who, _BELOW]
    zeros = clients[who, _CLOCK] + left + 1 if left > 0 else 0
    end = max(clients[who, DATA_END] + tail, zeros)
    return int(end), int(end - max(alone + tail, zeros))
