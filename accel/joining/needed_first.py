"""The first loads of a launch in the order in which they are needed: its first product waits for no more than it reads.

A launch tells once that its first tile is there, behind all that this tile will need; what its epilogue needs, such as
a bias, may come while the first product runs.
"""

from dataclasses import replace

import numpy as np

from accel.accelerator.field_bits import put_field
from accel.isa.decode import decode
from accel.isa.family import Touches
from accel.joining.prefetched_loads import RowLaunch
from accel.joining.token_stream import TokenStream, token_field, token_stream


def with_needed_first(launch: RowLaunch) -> RowLaunch:
    """Returns a launch that loads what its first product needs first, and tells of the rest apart."""
    stream, touches = launch.decoded.derived(token_stream), launch.touches
    assert touches is not None
    for unit in range(len(stream.rows)):
        launch = _reordered(launch, stream, touches, unit)
        stream, touches = launch.decoded.derived(token_stream), launch.touches
        assert touches is not None
    return launch


def _reordered(launch: RowLaunch, stream: TokenStream, touches: Touches, unit: int) -> RowLaunch:
    """The launch with the first loads of a unit in another order."""
    run = _first_run(stream, touches, unit)
    if not run or len(stream.pushes[run[-1]]) != 1:
        return launch
    (queue,) = stream.pushes[run[-1]]
    takers = [taken for sent, taken in stream.edges()[queue] if sent >= run[-1]]
    users = {row: _first_user(touches, row) for row in run}
    late = [row for row in run if takers[0] < users[row] < stream.count and stream.unit[users[row]] == queue.receiver]
    order = [row for row in run if row not in late] + late
    if not late or run[-1] in late or order == run:
        return launch
    decoded = launch.decoded
    words, place = decoded.words.copy(), np.arange(len(decoded))
    words[run], place[run] = decoded.words[order], order
    used = min(users[row] for row in late)
    if len(takers) == 1 or takers[1] > used:
        for row, push in ((run[-1], True), (used, False)):
            kind = decoded.kind[place[row]]
            token = token_field(decoded.accelerator, decoded.accelerator.instructions[kind], queue, push=push)
            if token is None or (not push and queue in stream.pops[row]):
                return launch
            put_field(words, row, token, 1)
    now = np.empty_like(place)
    now[place] = np.arange(len(place))
    touches = replace(touches, instruction=now[touches.instruction])
    return RowLaunch(decode(decoded.accelerator, words, decoded.first), launch.origin[place], touches)


def _first_run(stream: TokenStream, touches: Touches, unit: int) -> list[int]:
    """The instructions of a unit up to the first that sends a token, if each fills one range and takes no token."""
    rows = stream.rows[unit]
    ends = [number for number, row in enumerate(rows) if stream.pushes[row]]
    run = list(rows[: ends[0] + 1]) if ends else []
    ranges = [touches.of(touches.instruction == row) for row in run]
    alone = all(len(each.write) == 1 and each.write[0] for each in ranges)
    apart = len({(int(each.memory[0]), int(each.begin[0])) for each in ranges}) == len(run) if alone else False
    return run if alone and apart and not any(stream.pops[row] for row in run) else []


def _first_user(touches: Touches, row: int) -> int:
    """The first instruction behind a load that touches what it fills; a number beyond all where none does."""
    (own,) = np.flatnonzero(touches.instruction == row)
    meet = (touches.memory == touches.memory[own]) & (touches.begin < touches.end[own])
    meet &= (touches.begin[own] < touches.end) & (touches.instruction > row)
    return int(touches.instruction[meet].min(initial=np.iinfo(np.int64).max))
