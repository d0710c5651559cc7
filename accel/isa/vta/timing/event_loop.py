"""VTA's clock: an event loop over fetch, the three units, their token queues and the memory channel.

Every function is a compiled kernel and sees only arrays; :mod:`accel.isa.vta.timing.timing_table` makes them. Times are
in cycles from the launch; an end is the first cycle after. The rules are those of the Chisel sources (tvm-vta
``hardware/chisel``), cited where they act.
"""

import numpy as np

from accel.isa.kernels.compiled_kernels import compiled
from accel.isa.vta.timing.clock_columns import (
    BUSY,
    DURATION,
    END,
    FETCH,
    FETCH_BURST,
    FETCH_LEAD,
    FETCH_TAIL,
    IN_FLIGHT,
    LATENCY,
    POP_A,
    POP_B,
    PRIORITY,
    PUSH_A,
    PUSH_B,
    QUEUE_DEPTHS,
    START,
    STUCK,
    TOKEN_LIMIT,
    UNIT,
)
from accel.isa.vta.timing.read_channel import (
    BEATS,
    CLIENT,
    DATA_END,
    LAST_GRANT,
    NEXT,
    RING,
    ROWS_LEFT,
    WHOSE,
    begin_fetch,
    begin_load,
    grant,
    grant_time,
    load_end,
)
from accel.util.arrays import Int64

_FAR = 1 << 56
_INSTRUCTION = 16  # bytes

# states of a unit
_IDLE, _RUNNING, _READING = 0, 1, 2
_ORDERS = 8  # within a time: ends, starts, then the channel's five clients by priority


@compiled
def _start_time(table: Int64, index: int, tokens: Int64, since: Int64, free: int, dispatched: int) -> int:
    time = max(free, dispatched)
    for column in (POP_A, POP_B):
        queue = table[index, column]
        if queue >= 0:
            if tokens[queue] == 0:
                return _FAR
            time = max(time, since[queue])
    return time


@compiled
def _pop(table: Int64, index: int, tokens: Int64, since: Int64, ready: int, waits: Int64) -> None:
    """Take the tokens; the time from ``ready`` on was lost waiting for them, one after the other."""
    for column in (POP_A, POP_B):
        queue = table[index, column]
        if queue >= 0:
            tokens[queue] -= 1
            if since[queue] > ready:
                waits[1 + queue, index] += since[queue] - ready
                ready = since[queue]


@compiled
def _push(table: Int64, index: int, tokens: Int64, since: Int64, time: int, limit: int) -> None:
    """Send the tokens; a counter that is full drops them (Semaphore.scala)."""
    for column in (PUSH_A, PUSH_B):
        queue = table[index, column]
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


# One loop, not parts: its variables are its speed, eight million instructions a second against one and a half.
@compiled
def run_clock(  # noqa: C901, PLR0912, PLR0915
    table: Int64, parameters: Int64, queues: Int64, tokens: Int64, times: Int64, waits: Int64, units: Int64
) -> int:
    """Run the instructions of ``table`` (n, 16).

    ``queues`` is room for what waits for the units (3, a power of two above their depths). Updates ``tokens``
    (queues,). Fills ``times`` (2, n) and, where they are zero, ``waits`` (2 + queues, n): cycles lost before the start
    to the fetch and to each token queue, and after it to other readers; and ``units`` (2, 3): cycles at work, and the
    instruction that the unit could not start, or -1. The earliest event comes next; at one time ends before starts,
    starts before reads, reads by priority.

    Returns the number of instructions that ended: fewer than n in a deadlock.
    """
    count, memory = len(table), len(waits) - 1
    counts = np.zeros((2, 3), np.int64)
    sent, done = counts[0], counts[1]
    state, free = np.zeros(4, np.int64), np.zeros(3, np.int64)
    next_ = np.full(4, _FAR * _ORDERS, np.int64)  # each one's next event: its time, and its order within that time
    since = np.zeros(len(tokens), np.int64)
    clients = np.zeros((4, CLIENT), np.int64)  # the three units, then the fetch
    entries, fetcher = queues.shape[1], len(clients) - 1
    channel = np.zeros(RING + parameters[IN_FLIGHT], np.int64)
    channel[LAST_GRANT] = -1
    fetched, position, dispatch_time, ended, moved, granted = 0, 0, 0, 0, False, False
    while ended < count:
        if state[fetcher] == _IDLE:
            if position < fetched:
                before = position
                position, dispatch_time = _dispatch(
                    table, parameters, queues, counts, position, fetched, dispatch_time, times
                )
                moved = moved or position > before
            if position == fetched and fetched < count:
                nbytes = min(parameters[FETCH_BURST], count - fetched) * _INSTRUCTION
                begin_fetch(clients, fetcher, nbytes, dispatch_time + parameters[FETCH_LEAD])
                state[fetcher] = _READING
                granted = True
        if moved:  # something was dispatched or has ended: idle units may have become able to start
            moved = False
            for unit in range(3):
                if state[unit] == _IDLE and done[unit] < sent[unit]:
                    index = queues[unit, done[unit] & entries - 1]
                    at = _start_time(table, index, tokens, since, free[unit], times[START, index])
                    next_[unit] = at * _ORDERS + 1
        if granted:  # the channel, or who waits for it, has changed
            granted = False
            for client in range(4):
                if state[client] == _READING:
                    at = grant_time(channel, clients[client, NEXT], parameters[IN_FLIGHT])
                    next_[client] = at * _ORDERS + 2 + clients[client, WHOSE]
        who = 0
        for other in range(1, 4):
            who = other if next_[other] < next_[who] else who
        time = next_[who] // _ORDERS
        if time >= _FAR:
            break
        if who == fetcher:
            grant(channel, clients, who, time, parameters)
            granted = True
            if clients[fetcher, ROWS_LEFT] == 0:
                state[fetcher], next_[fetcher] = _IDLE, _FAR * _ORDERS
                fetched = min(fetched + parameters[FETCH_BURST], count)
                dispatch_time = clients[fetcher, DATA_END] + parameters[FETCH_TAIL]
            continue
        index = queues[who, done[who] & entries - 1]
        if state[who] == _IDLE:
            dispatched = times[START, index]
            if dispatched > free[who]:
                waits[FETCH, index] = dispatched - free[who]
            _pop(table, index, tokens, since, max(dispatched, free[who]), waits)
            times[START, index] = time
            if table[index, PRIORITY] > 0:
                begin_load(table, index, clients, who, time)
                state[who] = _READING
                granted = True
            else:
                next_[who] = (time + table[index, DURATION]) * _ORDERS
                state[who] = _RUNNING
        elif state[who] == _READING:
            grant(channel, clients, who, time, parameters)
            granted = True
            if clients[who, ROWS_LEFT] == 0:
                alone = times[START, index] + table[index, DURATION] + parameters[LATENCY] + clients[who, BEATS]
                end, lost = load_end(clients, who, alone)
                if lost > 0:
                    waits[memory, index] = lost
                next_[who] = end * _ORDERS
                state[who] = _RUNNING
        else:
            times[END, index] = time
            units[BUSY, who] += time - times[START, index]
            _push(table, index, tokens, since, time, parameters[TOKEN_LIMIT])
            free[who] = time
            done[who] += 1
            ended += 1
            state[who], next_[who] = _IDLE, _FAR * _ORDERS
            moved = True
    for unit in range(3):
        units[STUCK, unit] = queues[unit, done[unit] & entries - 1] if done[unit] < sent[unit] else -1
    return ended
