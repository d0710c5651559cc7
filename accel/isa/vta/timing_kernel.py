"""VTA's clock: an event loop over fetch, the three units, their token queues and the memory channel.

Every function is compiled by numba and sees only arrays; :mod:`accel.isa.vta.timing` makes them. Times are in
cycles from the launch. The rules are those of the Chisel sources (tvm-vta ``hardware/chisel``), cited where they act.
"""

import numpy as np
import numpy.typing as npt

from accel.isa.compiled import compiled

Int64 = npt.NDArray[np.int64]
_FAR = 1 << 60

# columns of the instruction table
TABLE = 17
UNIT, DURATION, IS_READ, PRIORITY, ADDRESS, ROWS, ROW_BYTES, STRIDE = range(8)
LEAD, TAIL, PADDING, TOP_PADDING, BARE_ROWS, POP_A, POP_B, PUSH_A, PUSH_B = range(8, TABLE)
# parameters
PARAMETERS = 11
BUS, LATENCY, BURST_BEATS, BOUNDARY, FETCH_BURST, QUEUE_DEPTH, TOKEN_LIMIT, IN_FLIGHT = range(8)
FETCH_LEAD, FETCH_TAIL, PADDING_LEAD = range(8, 11)
# columns of the result
RESULT = 6
START, END, DISPATCHED, TOKEN_A, TOKEN_B, UNOBSTRUCTED = range(RESULT)

# a unit: what it does, when it was free, when it will be, instructions done and sent to it
_STATE, _FREE_AT, _UNTIL, _DONE, _SENT = range(5)
_IDLE, _RUNNING, _READING = range(3)
# fetch: instructions fetched and dispatched, the time of the next dispatch, whether a burst is on its way
_FETCHED, _POSITION, _TIME, _BUSY = range(4)
_FETCH = 3  # its client of the read channel, after the units'
# a client of the read channel
_NEXT, _PRIORITY, _ADDRESS, _ROWS, _ROW_BYTES, _LEFT, _STRIDE, _DATA_BEGIN, _DATA_END, _BEATS = range(10)
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
    size = min(client[_LEFT], room, parameters[BURST_BEATS] * bus - address % bus)
    client[_ADDRESS] = address + size
    client[_LEFT] -= size
    if client[_LEFT] == 0:
        client[_ROWS] -= 1
        client[_ADDRESS] += client[_STRIDE] - client[_ROW_BYTES]
        client[_LEFT] = client[_ROW_BYTES]
    return (address + size - 1) // bus - address // bus + 1


@compiled
def _grant_time(channel: Int64, ready: int, in_flight: int) -> int:
    """First cycle from ``ready`` in which the memory engine can take a command.

    It takes one a cycle, none while too many are in flight, and none in the cycle of a burst's last beat (VME.scala:
    availableEntries, deq.ready).
    """
    time = max(ready, channel[_LAST_GRANT] + 1)
    if time >= channel[_FREE]:
        return time
    grants = channel[_GRANTS]
    if grants >= in_flight:
        time = max(time, channel[_RING + grants % in_flight])
    for step in range(in_flight):
        if channel[_RING + (grants + step) % in_flight] - 1 == time:
            time += 1
    return time


@compiled
def _grant(channel: Int64, client: Int64, time: int, parameters: Int64) -> None:
    """Take the client's next command at ``time``: its data follow those granted before, after the latency at the earliest."""
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
def _dispatch(table: Int64, parameters: Int64, queues: Int64, units: Int64, fetch: Int64, result: Int64) -> None:
    """Send fetched instructions to their units' queues, one a cycle, until the last or a full queue."""
    depth = parameters[QUEUE_DEPTH]
    while fetch[_POSITION] < fetch[_FETCHED]:
        index = fetch[_POSITION]
        unit = table[index, UNIT]
        sent = units[unit, _SENT]
        if sent >= depth:
            leaving = result[queues[unit, sent - depth], END]
            if leaving < 0:
                return
            fetch[_TIME] = max(fetch[_TIME], leaving)  # its slot is free in the cycle after its last
        result[index, DISPATCHED] = fetch[_TIME]
        queues[unit, sent] = index
        units[unit, _SENT] += 1
        fetch[_POSITION] += 1
        fetch[_TIME] += 1


@compiled
def _fetch(
    table: Int64, parameters: Int64, queues: Int64, units: Int64, fetch: Int64, clients: Int64, result: Int64
) -> None:
    """Dispatch what is there; ask for the next burst once all of the last is dispatched (FetchVME64: sDrain)."""
    if fetch[_BUSY]:
        return
    _dispatch(table, parameters, queues, units, fetch, result)
    left = len(table) - fetch[_FETCHED]
    if fetch[_POSITION] == fetch[_FETCHED] and left > 0:
        nbytes = min(parameters[FETCH_BURST], left) * 2 * parameters[BUS]
        _open(clients[_FETCH], fetch[_TIME] + parameters[FETCH_LEAD], 0, 0, 1, nbytes, 0)
        fetch[_BUSY] = 1


@compiled
def _next_event(
    table: Int64,
    parameters: Int64,
    queues: Int64,
    units: Int64,
    fetch: Int64,
    clients: Int64,
    channel: Int64,
    tokens: Int64,
    since: Int64,
    result: Int64,
) -> tuple[int, int]:
    """The earliest thing that can happen, as (time, client): ends before starts, then reads by priority."""
    best, who, rank = _FAR, -1, 0
    for unit in range(3):
        state = units[unit, _STATE]
        if state == _RUNNING:
            time, order = units[unit, _UNTIL], -2
        elif state == _READING:
            time = _grant_time(channel, clients[unit, _NEXT], parameters[IN_FLIGHT])
            order = clients[unit, _PRIORITY]
        elif units[unit, _DONE] < units[unit, _SENT]:
            index = queues[unit, units[unit, _DONE]]
            time = _start_time(table[index], tokens, since, units[unit, _FREE_AT], result[index, DISPATCHED])
            order = -1
        else:
            continue
        if time < best or (time == best and order < rank):
            best, who, rank = time, unit, order
    if fetch[_BUSY]:
        time = _grant_time(channel, clients[_FETCH, _NEXT], parameters[IN_FLIGHT])
        if time < best or (time == best and rank > 0):
            best, who = time, _FETCH
    return best, who


@compiled
def _start(row: Int64, unit: Int64, client: Int64, tokens: Int64, since: Int64, time: int, result: Int64) -> None:
    result[START] = time
    result[TOKEN_A] = since[row[POP_A]] if row[POP_A] >= 0 else 0
    result[TOKEN_B] = since[row[POP_B]] if row[POP_B] >= 0 else 0
    _pop(row, tokens)
    if row[IS_READ]:
        _open(client, time + row[LEAD], row[PRIORITY], row[ADDRESS], row[ROWS], row[ROW_BYTES], row[STRIDE])
        unit[_STATE] = _READING
    else:
        unit[_UNTIL] = result[UNOBSTRUCTED] = time + row[DURATION]
        unit[_STATE] = _RUNNING


@compiled
def _read(row: Int64, unit: Int64, client: Int64, parameters: Int64, result: Int64) -> None:
    """After a command was granted: if it was the last, the instruction's end is known."""
    if client[_ROWS] == 0:
        padded = _padded(row, result[START], client, parameters)
        alone = result[START] + row[LEAD] + parameters[LATENCY] + client[_BEATS] + row[TAIL]
        result[UNOBSTRUCTED] = max(alone, padded)
        unit[_UNTIL] = max(client[_DATA_END] + row[TAIL], padded)
        unit[_STATE] = _RUNNING


@compiled
def run(table: Int64, parameters: Int64, tokens: Int64, result: Int64) -> int:
    """Run the instructions of ``table`` (n, 17); fills ``result`` (n, 6) and updates ``tokens`` (queues,).

    Returns the number of instructions that ended: fewer than n in a deadlock.
    """
    result[:] = -1
    queues = np.zeros((3, len(table)), np.int64)
    units, fetch, since = np.zeros((3, 5), np.int64), np.zeros(4, np.int64), np.zeros_like(tokens)
    clients = np.zeros((4, 10), np.int64)
    channel = np.zeros(_RING + parameters[IN_FLIGHT], np.int64)
    channel[_LAST_GRANT] = -1
    ended = 0
    while ended < len(table):
        _fetch(table, parameters, queues, units, fetch, clients, result)
        time, who = _next_event(table, parameters, queues, units, fetch, clients, channel, tokens, since, result)
        if time == _FAR:
            break
        if who == _FETCH:
            _grant(channel, clients[_FETCH], time, parameters)
            fetch[_BUSY] = clients[_FETCH, _ROWS]
            fetch[_FETCHED] = min(fetch[_FETCHED] + parameters[FETCH_BURST], len(table))
            fetch[_TIME] = clients[_FETCH, _DATA_END] + parameters[FETCH_TAIL]
            continue
        unit = units[who]
        index = queues[who, unit[_DONE]]
        row, times = table[index], result[index]
        if unit[_STATE] == _IDLE:
            _start(row, unit, clients[who], tokens, since, time, times)
        elif unit[_STATE] == _READING:
            _grant(channel, clients[who], time, parameters)
            _read(row, unit, clients[who], parameters, times)
        else:
            times[END] = time
            _push(row, tokens, since, time, parameters[TOKEN_LIMIT])
            unit[_FREE_AT] = time
            unit[_DONE] += 1
            unit[_STATE] = _IDLE
            ended += 1
    return ended
