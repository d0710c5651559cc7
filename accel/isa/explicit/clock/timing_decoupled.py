"""Clock of a machine whose units run decoupled, and wait for tokens or for addresses."""

import numpy as np

from accel.isa.explicit.clock.timing_bus import run_time
from accel.isa.explicit.clock.timing_in_order import conflict, port_time, take_ports
from accel.isa.explicit.clock.timing_layout import (
    BITS,
    BLOCKER,
    CAUSES,
    END,
    FREE,
    HAZARD,
    HELD_ADDRESSES,
    NEXT,
    NOWHERE,
    ORDER,
    PENDING,
    PORT,
    READY,
    RUNNING,
    SPARE,
    START,
    TOUCH_HIGH,
    TOUCH_LOW,
    WHO,
    WRITE_HIGH,
    WRITE_LOW,
    State,
    Stream,
)
from accel.isa.explicit.hazards.accesses import HIGH, LOW, MEMORY, WRITES
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Bools, Int64

_NEVER = 1 << 62


@compiled
def run_decoupled(  # noqa: C901, PLR0912  one loop over time: all of it is what happens at one time
    stream: Stream, state: State, times: Int64, waits: Int64, blockers: Int64
) -> int:
    """Fill ``times`` (2, n), ``waits`` (4 + queues, n), ``blockers`` (2, n), and leave in ``state.tokens`` the rest.

    The blockers are the instructions that were the last to leave an instruction's addresses, and the bus to it.

    Returns how many instructions started: fewer than n in a deadlock; the units' next ones are then those that wait.
    """
    accesses, start, ports = stream.accesses, stream.start, stream.ports
    units, window, spans, waiting, place = state.units, state.window, state.spans, state.waiting, state.place
    tokens, since = state.tokens, state.since
    count, places = len(stream.unit), window.shape[1]
    dispatched = 0 if places else count
    near = np.zeros(places, np.bool_)
    filled = done = time = turn = 0
    while True:
        for unit in range(units.shape[1]):
            index = units[RUNNING, unit]
            if index >= 0 and times[END, index] <= time:
                units[RUNNING, unit], units[FREE, unit] = -1, time
                _push(stream.push_start, stream.pushes, tokens, since, state.limit, index, time)
                if places:
                    _leave(accesses, start, spans, index, place[index])
                    filled = _release(window, waiting, place[index], filled, time, index)
        if dispatched < count and turn <= time and filled < places:
            place[dispatched] = _dispatch(accesses, start, window, spans, waiting, near, dispatched, filled)
            window[READY, place[dispatched]] = times[START, dispatched] = time
            dispatched, filled, turn = dispatched + 1, filled + 1, time + 1
        unit = 0
        while unit >= 0:
            unit, first = -1, dispatched
            for other in range(units.shape[1]):
                index = units[NEXT, other]
                if units[RUNNING, other] >= 0 or index >= first:
                    continue
                waits_for_tokens = _misses(stream.pop_start, stream.pops, tokens, index)
                pending = places > 0 and window[PENDING, place[index]] > 0
                if not waits_for_tokens and not pending and port_time(accesses, start, ports, index) <= time:
                    unit, first = other, index
            if unit >= 0:
                free = _ordered(window, place, times, waits, units[FREE, unit], first)
                blockers[HELD_ADDRESSES, first] = window[BLOCKER, place[first]] if places else -1
                free = _pop(stream.pop_start, stream.pops, tokens, since, waits, free, first)
                waits[PORT, first] = time - free
                times[START, first] = time
                times[END, first] = time + run_time(stream, waits, blockers, first, time)
                take_ports(accesses, start, ports, first, times[END, first])
                units[RUNNING, unit], units[NEXT, unit] = first, state.following[first]
                done += 1
        following = turn if dispatched < count and filled < places else _NEVER
        for unit in range(units.shape[1]):
            if units[RUNNING, unit] >= 0:
                following = min(following, times[END, units[RUNNING, unit]])
        if following == _NEVER:
            return done
        time = max(time, following)


@compiled
def _push(push_start: Int64, pushes: Int64, tokens: Int64, since: Int64, limit: int, index: int, time: int) -> None:
    """Send the tokens of an instruction that ends; a counter that is full drops them."""
    for at in range(push_start[index], push_start[index + 1]):
        queue = pushes[at]
        if tokens[queue] == 0:
            since[queue] = time
        tokens[queue] = min(tokens[queue] + 1, limit)


@compiled
def _misses(pop_start: Int64, pops: Int64, tokens: Int64, index: int) -> bool:
    """Whether an instruction finds no token in a queue that it pops from."""
    missing = False
    for at in range(pop_start[index], pop_start[index + 1]):
        missing |= tokens[pops[at]] == 0
    return missing


@compiled
def _pop(pop_start: Int64, pops: Int64, tokens: Int64, since: Int64, waits: Int64, free: int, index: int) -> int:
    """Take the tokens of an instruction that starts, and note what it lost waiting for each in turn from ``free`` on.

    Returns when the last was there.
    """
    for at in range(pop_start[index], pop_start[index + 1]):
        queue = pops[at]
        if since[queue] > free:
            waits[CAUSES + queue, index] += since[queue] - free
            free = since[queue]
        tokens[queue] -= 1
    return free


@compiled
def _ordered(window: Int64, place: Int64, times: Int64, waits: Int64, free: int, index: int) -> int:
    """Note what an instruction that starts lost from ``free`` on to its dispatch, and then to its addresses.

    Returns when they were free.
    """
    if not window.shape[1]:
        return free
    turn: int = max(free, times[START, index])
    ready: int = max(turn, window[READY, place[index]])
    waits[ORDER, index], waits[HAZARD, index] = turn - free, ready - turn
    return ready


@compiled
def _dispatch(
    accesses: Int64, start: Int64, window: Int64, spans: Int64, waiting: Int64, near: Bools, index: int, filled: int
) -> int:
    """Put an instruction into the window, and note the unfinished ones there that it must wait for.

    Returns its place. ``near`` (places,) is room to look first at what others touch from end to end.
    """
    own, pending = int(window[SPARE, filled]), 0
    others = near[: min(index, len(near))]
    others[:] = False
    for access in range(start[index], start[index + 1]):
        span, low, high = spans[accesses[access, MEMORY]], accesses[access, LOW], accesses[access, HIGH]
        _meet(span, WRITE_LOW, low, high, others)
        if accesses[access, WRITES]:
            _meet(span, TOUCH_LOW, low, high, others)
    for other in range(len(others)):
        if others[other] and conflict(accesses, start, index, window[WHO, other]):
            waiting[other // BITS, own] |= 1 << other % BITS
            pending += 1
    for access in range(start[index], start[index + 1]):
        span, low, high = spans[accesses[access, MEMORY]], accesses[access, LOW], accesses[access, HIGH]
        _extend(span, TOUCH_LOW, own, low, high)
        if accesses[access, WRITES]:
            _extend(span, WRITE_LOW, own, low, high)
    window[WHO, own], window[PENDING, own], window[BLOCKER, own] = index, pending, -1
    return own


@compiled
def _meet(span: Int64, first: int, low: int, high: int, others: Bools) -> None:
    """Mark the places whose range, rows ``first`` and the next of ``span``, has something of ``[low, high)``."""
    lows, highs = span[first], span[first + 1]
    for other in range(len(others)):
        others[other] |= (lows[other] < high) & (low < highs[other])


@compiled
def _extend(span: Int64, first: int, own: int, low: int, high: int) -> None:
    """Let the range of a place hold ``[low, high)``."""
    span[first, own] = min(span[first, own], low)
    span[first + 1, own] = max(span[first + 1, own], high)


@compiled
def _leave(accesses: Int64, start: Int64, spans: Int64, index: int, own: int) -> None:
    """An instruction that ends touches nothing."""
    for access in range(start[index], start[index + 1]):
        span = spans[accesses[access, MEMORY]]
        span[TOUCH_LOW, own] = span[WRITE_LOW, own] = NOWHERE
        span[TOUCH_HIGH, own] = span[WRITE_HIGH, own] = 0


@compiled
def _release(window: Int64, waiting: Int64, own: int, filled: int, time: int, index: int) -> int:
    """Free the place of instruction ``index``; those that wait for it wait for one less.

    Returns how many are filled.
    """
    window[SPARE, filled - 1] = own
    row, bit = waiting[own // BITS], own % BITS
    for other in range(len(row)):
        if row[other] >> bit & 1:
            row[other] ^= 1 << bit
            window[PENDING, other] -= 1
            window[READY, other], window[BLOCKER, other] = time, index
    return filled - 1
