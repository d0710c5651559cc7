"""An order in which tokens let a launch run, and what has ended before each instruction starts, whatever the times."""

import numpy as np

from accel.isa.compiled import compiled
from accel.isa.explicit.timing_layout import Int64


@compiled
def run(
    unit: Int64,
    pop_start: Int64,
    pops: Int64,
    push_start: Int64,
    pushes: Int64,
    tokens: Int64,
    clock: Int64,
    order: Int64,
) -> int:
    """Fill ``order`` (n,), and ``clock`` (n, units): instructions of each unit that have ended when one starts.

    Clocks count from the launch: all before it has ended. A token says that its sender has ended, and what the sender
    knew; the k-th that is taken from a queue is the k-th that was sent to it, after the ``tokens`` (queues,) that
    were there. These become what is left. Returns how many can run: fewer than n in a deadlock.
    """
    count, units = clock.shape
    sent, taken, first = np.zeros(len(tokens), np.int64), np.zeros(len(tokens), np.int64), _offsets(pushes, tokens)
    sender = np.empty(len(pushes), np.int64)
    found = tokens.copy()
    following, heads, last = np.full(count, count), np.full(units, count), np.full(units, -1)
    for index in range(count - 1, -1, -1):
        following[index], heads[unit[index]] = heads[unit[index]], index
    done, moved = 0, True
    while moved:
        moved = False
        for own in range(units):
            index = heads[own]
            while index < count and _has_tokens(pop_start, pops, tokens, index):
                _learn(clock, index, own, last[own])
                for at in range(pop_start[index], pop_start[index + 1]):
                    queue = pops[at]
                    if taken[queue] >= found[queue]:
                        _hear(clock, index, sender[first[queue] + taken[queue] - found[queue]], unit)
                    taken[queue] += 1
                    tokens[queue] -= 1
                for at in range(push_start[index], push_start[index + 1]):
                    queue = pushes[at]
                    sender[first[queue] + sent[queue]] = index
                    sent[queue] += 1
                    tokens[queue] += 1
                order[done] = index
                done += 1
                moved = True
                last[own], index = index, following[index]
            heads[own] = index
    return done


@compiled
def _offsets(pushes: Int64, tokens: Int64) -> Int64:
    """Where the senders of each queue begin."""
    first = np.zeros(len(tokens) + 1, np.int64)
    for queue in pushes:
        first[queue + 1] += 1
    return np.cumsum(first)


@compiled
def _has_tokens(pop_start: Int64, pops: Int64, tokens: Int64, index: int) -> bool:
    """Whether there is a token in every queue that an instruction pops from."""
    found = True
    for at in range(pop_start[index], pop_start[index + 1]):
        found &= tokens[pops[at]] > 0
    return found


@compiled
def _learn(clock: Int64, index: int, own: int, before: int) -> None:
    """An instruction knows what the one before it in its unit knew, and that this one has ended."""
    if before >= 0:
        clock[index] = clock[before]
        clock[index, own] += 1


@compiled
def _hear(clock: Int64, index: int, sender: int, unit: Int64) -> None:
    """It learns what the sender of a token knew, and that the sender has ended."""
    for other in range(clock.shape[1]):
        ended = clock[sender, other] + (unit[sender] == other)
        clock[index, other] = max(clock[index, other], ended)
