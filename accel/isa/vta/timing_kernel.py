"""VTA's clock: an event loop over fetch, the three units, their token queues and the memory channel.

Every function is compiled by numba and sees only arrays; :mod:`accel.isa.vta.timing` makes them. Times are in
cycles from the launch. The rules are those of the Chisel sources (tvm-vta ``hardware/chisel``), cited where they act.
"""

import numpy as np
import numpy.typing as npt

from accel.isa.compiled import compiled

Int64 = npt.NDArray[np.int64]
_FAR = 1 << 60
_INSTRUCTION = 16  # bytes

# columns of the instruction table
TABLE = 17
UNIT, DURATION, IS_READ, PRIORITY, ADDRESS, ROWS, ROW_BYTES, STRIDE = range(8)
LEAD, TAIL, PADDING, TOP_PADDING, BARE_ROWS, POP_A, POP_B, PUSH_A, PUSH_B = range(8, TABLE)
# parameters
PARAMETERS = 13
BUS, LATENCY, BURST_BEATS, BOUNDARY, FETCH_BURST, TOKEN_LIMIT, IN_FLIGHT = range(7)
FETCH_LEAD, FETCH_TAIL, PADDING_LEAD, QUEUE_DEPTHS = range(7, 11)  # a depth for each of the three units
# columns of the result
RESULT = 6
START, END, DISPATCHED, TOKEN_A, TOKEN_B, UNOBSTRUCTED = range(RESULT)

# states of a unit
_IDLE, _RUNNING, _READING = 0, 1, 2
_FETCH = 3
# a client of the read channel
_NEXT, _PRIORITY, _ADDRESS, _ROWS, _ROW_BYTES, _LEFT, _STRIDE, _DATA_BEGIN, _DATA_END, _BEATS = range(10)
_CLIENT = 10
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
    client[_DATA_BEGIN] = -1
    client[_DATA_END] = 0
    client[_BEATS] = 0


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
def _grant(channel: Int64, client: Int64, time: int, parameters: Int64) -> None:
    """Take the client's next command at ``time``: its data follow those before, after the latency at the earliest."""
    beats = _take_burst(client, parameters)
    start = max(channel[_FREE], time + parameters[LATENCY])
    channel[_FREE] = start + beats
    channel[_RING + channel[_GRANTS] % parameters[IN_FLIGHT]] = start + beats
    channel[_GRANTS] += 1
    channel[_LAST_GRANT] = time
    if client[_DATA_BEGIN] < 0:
        client[_DATA_BEGIN] = start
    client[_DATA_END] = start + beats
    client[_BEATS] += beats
    client[_NEXT] = time + 2  # a client's command queue holds one and is not flow-through


@compiled
def _padded(row: Int64, start: int, client: Int64, parameters: Int64) -> int:
    """When the zeros around a block are written, at the earliest; 0 without padding.

    Zeros are written in the cycles that bring no data. Rows without padding at their sides, on the way to padding at
    the bottom, take one cycle each, which is lost before the data begin (TensorLoadNarrowVME: sZpSideSkip).
    """
    if row[PADDING] == 0:
        return 0
    lost = min(row[BARE_ROWS], max(client[_DATA_BEGIN] - start - row[TOP_PADDING], 0))
    return int(start + parameters[PADDING_LEAD] + lost + row[PADDING] + client[_BEATS])


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
def _pop(row: Int64, tokens: Int64) -> None:
    for column in (POP_A, POP_B):
        if row[column] >= 0:
            tokens[row[column]] -= 1


@compiled
def _push(row: Int64, tokens: Int64, since: Int64, time: int, limit: int) -> None:
    for column in (PUSH_A, PUSH_B):
        queue = row[column]
        if queue >= 0:
            if tokens[queue] == 0:
                since[queue] = time
            tokens[queue] = min(tokens[queue] + 1, limit)


@compiled
def _dispatch(
    table: Int64, parameters: Int64, queues: Int64, sent: Int64, position: int, last: int, time: int, result: Int64
) -> tuple[int, int]:
    """Send fetched instructions to their units' queues, one a cycle, until ``last`` or a full queue.

    Returns the next position, and the time of the next dispatch.
    """
    while position < last:
        unit = table[position, UNIT]
        depth = parameters[QUEUE_DEPTHS + unit]
        if sent[unit] >= depth:
            leaving = result[queues[unit, sent[unit] - depth], END]
            if leaving < 0:
                return position, time
            time = max(time, leaving)  # a queue's slot is free in the cycle after the instruction's last
        result[position, DISPATCHED] = time
        queues[unit, sent[unit]] = position
        sent[unit] += 1
        position += 1
        time += 1
    return position, time


@compiled
def _last_read(table: Int64, index: int, client: Int64, parameters: Int64, result: Int64) -> int:
    """The end of a load whose last command was granted; notes what it would be on an idle channel."""
    row = table[index]
    start = result[index, START]
    padded = _padded(row, start, client, parameters)
    alone = start + row[LEAD] + parameters[LATENCY] + client[_BEATS] + row[TAIL]
    result[index, UNOBSTRUCTED] = max(alone, padded)
    return int(max(client[_DATA_END] + row[TAIL], padded))


@compiled
def _note_start(table: Int64, index: int, since: Int64, time: int, result: Int64) -> None:
    result[index, START] = time
    result[index, TOKEN_A] = since[table[index, POP_A]] if table[index, POP_A] >= 0 else 0
    result[index, TOKEN_B] = since[table[index, POP_B]] if table[index, POP_B] >= 0 else 0
    result[index, UNOBSTRUCTED] = time + table[index, DURATION]


# One loop, not parts: its variables are its speed, eight million instructions a second against one and a half.
@compiled
def run(table: Int64, parameters: Int64, tokens: Int64, result: Int64) -> int:  # noqa: C901, PLR0912, PLR0915
    """Run the instructions of ``table`` (n, 17); fills ``result`` (n, 6) and updates ``tokens`` (queues,).

    The earliest event comes next; at one time ends before starts, starts before reads, reads by priority.

    Returns the number of instructions that ended: fewer than n in a deadlock.
    """
    count = len(table)
    result[:] = -1
    queues = np.zeros((3, count), np.int64)
    sent, done = np.zeros(3, np.int64), np.zeros(3, np.int64)
    state, free, until = np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros(3, np.int64)
    since = np.zeros_like(tokens)
    clients = np.zeros((4, _CLIENT), np.int64)
    channel = np.zeros(_RING + parameters[IN_FLIGHT], np.int64)
    channel[_LAST_GRANT] = -1
    fetched, position, dispatch_time, fetching, ended = 0, 0, 0, False, 0
    while ended < count:
        if not fetching:
            if position < fetched:
                position, dispatch_time = _dispatch(
                    table, parameters, queues, sent, position, fetched, dispatch_time, result
                )
            if position == fetched and fetched < count:
                nbytes = min(parameters[FETCH_BURST], count - fetched) * _INSTRUCTION
                _open(clients[_FETCH], dispatch_time + parameters[FETCH_LEAD], 0, 0, 1, nbytes, 0)
                fetching = True
        time, who, rank = _FAR, -1, 0
        for unit in range(3):
            if state[unit] == _RUNNING:
                at, order = until[unit], -2
            elif state[unit] == _READING:
                at, order = _grant_time(channel, clients[unit, _NEXT], parameters[IN_FLIGHT]), clients[unit, _PRIORITY]
            elif done[unit] < sent[unit]:
                index = queues[unit, done[unit]]
                at, order = _start_time(table[index], tokens, since, free[unit], result[index, DISPATCHED]), -1
            else:
                continue
            if at < time or (at == time and order < rank):
                time, who, rank = at, unit, order
        if fetching:
            at = _grant_time(channel, clients[_FETCH, _NEXT], parameters[IN_FLIGHT])
            if at < time or (at == time and rank > 0):
                time, who = at, _FETCH
        if time == _FAR:
            break
        if who == _FETCH:
            _grant(channel, clients[_FETCH], time, parameters)
            if clients[_FETCH, _ROWS] == 0:
                fetching = False
                fetched = min(fetched + parameters[FETCH_BURST], count)
                dispatch_time = clients[_FETCH, _DATA_END] + parameters[FETCH_TAIL]
            continue
        index = queues[who, done[who]]
        row = table[index]
        if state[who] == _IDLE:
            _note_start(table, index, since, time, result)
            _pop(row, tokens)
            if row[IS_READ]:
                first = time + row[LEAD]
                _open(clients[who], first, row[PRIORITY], row[ADDRESS], row[ROWS], row[ROW_BYTES], row[STRIDE])
                state[who] = _READING
            else:
                until[who] = time + row[DURATION]
                state[who] = _RUNNING
        elif state[who] == _READING:
            _grant(channel, clients[who], time, parameters)
            if clients[who, _ROWS] == 0:
                until[who] = _last_read(table, index, clients[who], parameters, result)
                state[who] = _RUNNING
        else:
            result[index, END] = time
            _push(row, tokens, since, time, parameters[TOKEN_LIMIT])
            free[who] = time
            done[who] += 1
            ended += 1
            state[who] = _IDLE
    return ended
