"""VTA's clock: an event loop over fetch, the three units, their token queues and the memory channel.

Every function is compiled by numba and sees only arrays; :mod:`accel.isa.vta.timing_table` makes them. Times are in
cycles from the launch; an end is the first cycle after. The rules are those of the Chisel sources (tvm-vta
``hardware/chisel``), cited where they act.
"""

import numpy as np
import numpy.typing as npt

from accel.isa.compiled import compiled

Int64 = npt.NDArray[np.int64]
_FAR = 1 << 60
_INSTRUCTION = 16  # bytes

# columns of the instruction table; those after PUSH_B are for reads, whose DURATION is that of the first command
TABLE = 16  # two cache lines, of which only reads need the second
UNIT, DURATION, PRIORITY, POP_A, POP_B, PUSH_A, PUSH_B, TAIL = range(8)
ADDRESS, ROWS, ROW_BYTES, STRIDE, ZEROS_LEAD, ZEROS, BARE_ROWS, ZEROS_BELOW = range(8, TABLE)
# parameters
PARAMETERS = 12
BUS, LATENCY, BURST_BEATS, BOUNDARY, FETCH_BURST, TOKEN_LIMIT, IN_FLIGHT = range(7)
FETCH_LEAD, FETCH_TAIL, QUEUE_DEPTHS = range(7, 10)  # a depth for each of the three units
# rows of the times, of the waits (a row for each token queue follows, then one for the memory), of the units
TIMES = 2
START, END = range(TIMES)
FETCH = 0
UNITS = 2
BUSY, STUCK = range(UNITS)

# states of a unit
_IDLE, _RUNNING, _READING = 0, 1, 2
_FETCH = 3
# a client of the read channel
_NEXT, _PRIORITY, _ADDRESS, _ROWS, _ROW_BYTES, _LEFT, _STRIDE, _DATA_END, _BEATS = range(9)
_CLOCK, _ZEROS, _BARE, _BELOW = range(9, 13)
_CLIENT = 13
# the read channel
_FREE, _LAST_GRANT, _GRANTS, _RING = range(4)


@compiled
def _open(client: Int64, first: int, priority: int, address: int, rows: int, row_bytes: int, stride: int) -> None:
    client[_NEXT] = first
    client[_PRIORITY] = priority
    client[_ADDRESS] = address
    client[_ROWS] = rows
    client[_ROW_BYTES] = row_bytes
    client[_LEFT] = row_bytes
    client[_STRIDE] = stride
    client[_DATA_END] = 0
    client[_BEATS] = 0
    client[_ZEROS] = 0
    client[_BARE] = 0
    client[_BELOW] = 0


@compiled
def _take_burst(client: Int64, parameters: Int64) -> int:
    """Beats of the client's next burst, which ends with its row, at the boundary, or at the longest burst."""
    bus = parameters[BUS]
    address = client[_ADDRESS]
    room = parameters[BOUNDARY] - address % parameters[BOUNDARY]
    room = min(room, parameters[BURST_BEATS] * bus - address % bus)
    size = min(client[_LEFT], room)
    client[_ADDRESS] = address + size
    client[_LEFT] -= size
    if client[_LEFT] == 0:
        client[_ROWS] -= 1
        client[_ADDRESS] += client[_STRIDE] - client[_ROW_BYTES]
        client[_LEFT] = client[_ROW_BYTES]
    return int((address + size - 1) // bus - address // bus + 1)


@compiled
def _grant_time(channel: Int64, ready: int, in_flight: int) -> int:
    """First cycle from ``ready`` in which the memory engine can take a command.

    It takes one a cycle, none while too many are in flight, and none in the cycle of a burst's last beat (VME.scala:
    availableEntries, deq.ready).
    """
    time = max(ready, int(channel[_LAST_GRANT]) + 1)
    if time >= channel[_FREE]:
        return time
    grants = channel[_GRANTS]
    if grants >= in_flight:
        time = max(time, int(channel[_RING + grants % in_flight]))
    for step in range(in_flight):
        if channel[_RING + (grants + step) % in_flight] - 1 == time:
            time += 1
    return time


@compiled
def _write_zeros(client: Int64, begin: int, end: int) -> None:
    """Move the padding's clock to ``end``; data are written from ``begin`` on.

    Zeros are written in the cycles that bring no data. Rows without padding at their sides, on the way to padding
    below, are passed in one cycle each, data or not (TensorLoadNarrowVME: ZeroPadding, sZpSideSkip).
    """
    idle = max(begin - client[_CLOCK], 0)
    zeros = min(client[_ZEROS], idle)
    bare = min(client[_BARE], idle - zeros)
    below = min(client[_BELOW], idle - zeros - bare)
    client[_ZEROS] -= zeros
    client[_BARE] -= bare
    client[_BELOW] -= below
    if client[_ZEROS] == 0:
        client[_BARE] -= min(client[_BARE], end - begin)
    client[_CLOCK] = end


@compiled
def _grant(channel: Int64, client: Int64, time: int, tail: int, parameters: Int64) -> None:
    """Take the client's next command at ``time``: its data follow those before, after the latency at the earliest."""
    beats = _take_burst(client, parameters)
    start = max(channel[_FREE], time + parameters[LATENCY])
    end = start + beats
    channel[_FREE] = end
    channel[_RING + channel[_GRANTS] % parameters[IN_FLIGHT]] = end
    channel[_GRANTS] += 1
    channel[_LAST_GRANT] = time
    if client[_ZEROS] + client[_BARE] + client[_BELOW] > 0:
        _write_zeros(client, start + tail - 1, end + tail - 1)  # a load ends in the cycle after its last write
    client[_DATA_END] = end
    client[_BEATS] += beats
    client[_NEXT] = time + 2  # a client's command queue holds one and is not flow-through


@compiled
def _start_time(row: Int64, tokens: Int64, since: Int64, free: int, dispatched: int) -> int:
    time = max(free, dispatched)
    for column in (POP_A, POP_B):
        queue = row[column]
        if queue >= 0:
            if tokens[queue] == 0:
                return _FAR
            time = max(time, since[queue])
    return time


@compiled
def _pop(row: Int64, tokens: Int64, since: Int64, ready: int, waits: Int64, index: int) -> None:
    """Take the tokens; the time from ``ready`` on was lost waiting for them, one after the other."""
    for column in (POP_A, POP_B):
        queue = row[column]
        if queue >= 0:
            tokens[queue] -= 1
            if since[queue] > ready:
                waits[1 + queue, index] += since[queue] - ready
                ready = since[queue]


@compiled
def _push(row: Int64, tokens: Int64, since: Int64, time: int, limit: int) -> None:
    """Send the tokens; a counter that is full drops them (Semaphore.scala)."""
    for column in (PUSH_A, PUSH_B):
        queue = row[column]
        if queue >= 0:
            if tokens[queue] == 0:
                since[queue] = time
            tokens[queue] = min(tokens[queue] + 1, limit)


@compiled
def _dispatch(
    table: Int64, parameters: Int64, queues: Int64, counts: Int64, position: int, last: int, time: int, times: Int64
) -> tuple[int, int]:
    """Send fetched instructions to their units' queues, one a cycle, until ``last`` or a full queue.

    ``queues`` (3, a power of two) are rings of instructions, ``counts`` (2, 3) how many each unit was sent and has
    done. An instruction's start holds its dispatch until it starts. Returns the next position, and the time of the
    next dispatch.
    """
    while position < last:
        unit = table[position, UNIT]
        depth = parameters[QUEUE_DEPTHS + unit]
        sent = counts[0, unit]
        slot = sent & queues.shape[1] - 1
        if sent >= depth:
            if sent - counts[1, unit] >= depth:
                return position, time
            # its slot is free in the cycle after the last of the one that left, and is seen in the next
            time = max(time, times[END, queues[unit, sent - depth & queues.shape[1] - 1]] + 1)
        times[START, position] = time
        queues[unit, slot] = position
        counts[0, unit] = sent + 1
        position += 1
        time += 1
    return position, time


@compiled
def _begin_read(row: Int64, client: Int64, time: int) -> None:
    first = time + row[DURATION]
    _open(client, first, row[PRIORITY], row[ADDRESS], row[ROWS], row[ROW_BYTES], row[STRIDE])
    client[_CLOCK] = time + row[ZEROS_LEAD]
    client[_ZEROS] = row[ZEROS]
    client[_BARE] = row[BARE_ROWS]
    client[_BELOW] = row[ZEROS_BELOW]


@compiled
def _read_end(row: Int64, client: Int64, alone: int) -> tuple[int, int]:
    """The end of a load whose last command was granted: of its data, or of its zeros; and what other readers cost it.

    ``alone`` is the end of its data on an idle channel.
    """
    left = client[_ZEROS] + client[_BARE] + client[_BELOW]
    zeros = client[_CLOCK] + left + 1 if left > 0 else 0
    end = max(client[_DATA_END] + row[TAIL], zeros)
    return int(end), int(end - max(alone, zeros))


# One loop, not parts: its variables are its speed, eight million instructions a second against one and a half.
@compiled
def run(  # noqa: C901, PLR0912, PLR0915
    table: Int64, parameters: Int64, tokens: Int64, times: Int64, waits: Int64, units: Int64
) -> int:
    """Run the instructions of ``table`` (n, 16).

    Updates ``tokens`` (queues,). Fills ``times`` (2, n) and ``units`` (2, 3): cycles at work, and the instruction
    that the unit could not start, or -1. Adds to ``waits`` (2 + queues, n), which are zero: cycles lost before the
    start to the fetch and to each token queue, and after it to other readers. The earliest event comes next; at one
    time ends before starts, starts before reads, reads by priority.

    Returns the number of instructions that ended: fewer than n in a deadlock.
    """
    count, memory = len(table), len(waits) - 1
    entries = 2
    while entries <= min(count, parameters[QUEUE_DEPTHS : QUEUE_DEPTHS + 3].max()):
        entries *= 2
    queues = np.empty((3, entries), np.int64)
    counts = np.zeros((2, 3), np.int64)
    sent, done = counts[0], counts[1]
    state, free = np.zeros(3, np.int64), np.zeros(3, np.int64)
    since = np.zeros_like(tokens)
    clients = np.zeros((4, _CLIENT), np.int64)
    channel = np.zeros(_RING + parameters[IN_FLIGHT], np.int64)
    channel[_LAST_GRANT] = -1
    units[BUSY] = 0
    ready = np.full(3, _FAR, np.int64)  # when a unit that is idle can start, or one that runs ends
    fetched, position, dispatch_time, fetching, ended, moved = 0, 0, 0, False, 0, True
    while ended < count:
        if not fetching:
            if position < fetched:
                before = position
                position, dispatch_time = _dispatch(
                    table, parameters, queues, counts, position, fetched, dispatch_time, times
                )
                moved = moved or position > before
            if position == fetched and fetched < count:
                nbytes = min(parameters[FETCH_BURST], count - fetched) * _INSTRUCTION
                _open(clients[_FETCH], dispatch_time + parameters[FETCH_LEAD], 0, 0, 1, nbytes, 0)
                fetching = True
        if moved:  # something was dispatched or ended: idle units may have become able to start
            moved = False
            for unit in range(3):
                if state[unit] == _IDLE and done[unit] < sent[unit]:
                    index = queues[unit, done[unit] & entries - 1]
                    ready[unit] = _start_time(table[index], tokens, since, free[unit], times[START, index])
        time, who, rank = _FAR, -1, 0
        for unit in range(3):
            if state[unit] == _READING:
                at, order = _grant_time(channel, clients[unit, _NEXT], parameters[IN_FLIGHT]), clients[unit, _PRIORITY]
            else:
                at, order = ready[unit], -2 if state[unit] == _RUNNING else -1
            if at < time or (at == time and order < rank):
                time, who, rank = at, unit, order
        if fetching:
            at = _grant_time(channel, clients[_FETCH, _NEXT], parameters[IN_FLIGHT])
            if at < time or (at == time and rank > 0):
                time, who = at, _FETCH
        if time == _FAR:
            break
        if who == _FETCH:
            _grant(channel, clients[_FETCH], time, 0, parameters)
            if clients[_FETCH, _ROWS] == 0:
                fetching = False
                fetched = min(fetched + parameters[FETCH_BURST], count)
                dispatch_time = clients[_FETCH, _DATA_END] + parameters[FETCH_TAIL]
            continue
        index = queues[who, done[who] & entries - 1]
        row = table[index]
        if state[who] == _IDLE:
            dispatched = times[START, index]
            if dispatched > free[who]:
                waits[FETCH, index] = dispatched - free[who]
            _pop(row, tokens, since, max(dispatched, free[who]), waits, index)
            times[START, index] = time
            if row[PRIORITY] > 0:
                _begin_read(row, clients[who], time)
                state[who] = _READING
            else:
                ready[who] = time + row[DURATION]
                state[who] = _RUNNING
        elif state[who] == _READING:
            _grant(channel, clients[who], time, row[TAIL], parameters)
            if clients[who, _ROWS] == 0:
                alone = times[START, index] + row[DURATION] + parameters[LATENCY] + clients[who, _BEATS] + row[TAIL]
                ready[who], lost = _read_end(row, clients[who], alone)
                if lost > 0:
                    waits[memory, index] = lost
                state[who] = _RUNNING
        else:
            times[END, index] = time
            units[BUSY, who] += time - times[START, index]
            _push(row, tokens, since, time, parameters[TOKEN_LIMIT])
            free[who] = time
            done[who] += 1
            ended += 1
            state[who], ready[who] = _IDLE, _FAR
            moved = True
    for unit in range(3):
        units[STUCK, unit] = queues[unit, done[unit] & entries - 1] if done[unit] < sent[unit] else -1
    return ended
