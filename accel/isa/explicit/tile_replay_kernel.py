"""Kernel of the replay: the pieces of a candidate's first tiles, when they would begin, and when they do."""

from typing import NamedTuple

import numpy as np

from accel.isa.kernels.compiled_kernels import Signature, compiled
from accel.isa.kernels.kernel_types import MATRIX, VECTOR, Fields
from accel.util.arrays import Int64

PARTS = 16
"""Of a cycle: what the kernel counts in."""

# columns of a candidate; then those of each kind of work
TILES, REDUCTIONS, DATA_STAY, WEIGHTS_STAY, OUT_BLOCKS, RESULT_CONTEXTS, WORKS = range(7)
START, DATA, WEIGHTS, PRODUCTS, PASSES, STORE = range(6)
"""Kinds of work: what accumulators begin with, the loads of a step, its products, what follows them, the results."""
KINDS = 6
COUNT, CYCLES, NOMINAL, BUS = range(4)
"""Columns of a kind of work: instructions, and of all of them cycles, nominal ones, and those of the shared bus."""
EACH = 4
COLUMNS = WORKS + KINDS * EACH

_CONTEXTS = 2  # of operands
_MOST_STEPS = 48  # that are done of each candidate
_STEPS, _GROUPS = 4, 3  # of a tile at most, and of tiles for which an operand stays at least
_FEW_PIECES, _PRODUCT_PIECES = 6, 16  # of loads, stores and passes; of the products of a step
_PIECES = _MOST_STEPS * (5 * _FEW_PIECES + _PRODUCT_PIECES)
# rows of pieces: what they are; the pieces that they wait for, or -1; when they are planned to begin, begin and end
_UNIT, _TIME, _PLAN_TIME, _BEATS, _WEIGHT, _BEFORE, _NEEDS_DATA, _NEEDS_WEIGHTS, _PLANNED, _BEGUN, _ENDED = range(11)
_SENT, _ROWS = 11, 12  # the pieces in the order in which they are sent
_FIRST, _MADE, _LOADS = range(3)  # of an operand's loads: the first piece and how many of the last one; how many


class Room(NamedTuple):
    """Room for the replay of a candidate.

    Attributes:
        pieces: (_ROWS, _PIECES).
        loads: (2, 3) of data and of weights, as the columns say.
        readers: (4, _CONTEXTS) the products that read a context last: the first and how many, of data and of weights.
        stores: (2, tiles + 1) the first piece of each tile's results and how many, from 1 on.
        products: (steps + 1,) the last piece of each step's products, from 1 on.
    """

    pieces: Int64
    loads: Int64
    readers: Int64
    stores: Int64
    products: Int64


_ROOM = Fields(Room, (MATRIX, MATRIX, MATRIX, MATRIX, VECTOR))


def new_room() -> Room:
    """Returns room for one candidate after the other."""
    sizes = (_ROWS, _PIECES), (2, 3), (4, _CONTEXTS), (2, _MOST_STEPS + 1)
    pieces, loads, readers, stores = (np.zeros(size, np.int64) for size in sizes)
    return Room(pieces, loads, readers, stores, np.zeros(_MOST_STEPS + 1, np.int64))


def replay_signatures() -> tuple[Signature, ...]:
    """Returns what prices of tilings run."""
    return (Signature(replay, MATRIX, VECTOR, VECTOR, VECTOR, _ROOM, VECTOR),)


@compiled
def replay(candidates: Int64, order: Int64, units: Int64, windows: Int64, room: Room, found: Int64) -> None:
    """Replace by parts of cycles what ``found`` (n,) has of the candidates (n, COLUMNS): the least they can take.

    They are looked at in their ``order`` (n,); what takes no less than five quarters of the cheapest is left.

    Args:
        candidates: what a tile takes of each kind of work, as the columns say.
        order: the candidates by what they probably take.
        units: the unit of each kind of work (6,), and behind these how many units there are.
        windows: how many instructions are looked at where their order is made, and by the machine; 1: it is in order.
        room: of :func:`new_room`.
        found: the result.
    """
    least = 1 << 62
    for place in range(len(order)):
        one = order[place]
        if 4 * found[one] < 5 * least:
            found[one] = max(found[one], _cycles(candidates[one], units, windows, room))
            least = min(least, found[one])


@compiled
def _cycles(candidate: Int64, units: Int64, windows: Int64, room: Room) -> int:
    """Parts of cycles of a candidate: those of some tiles, and of one more of them as often as there are more."""
    tiles, reductions, pieces = candidate[TILES], candidate[REDUCTIONS], room.pieces
    stays = max(candidate[DATA_STAY], candidate[WEIGHTS_STAY]) // reductions
    group = tiles  # for which the same operand stays
    if 1 < stays < tiles:
        group = stays
    groups, steps = tiles // group, min(reductions, _STEPS)
    most = _MOST_STEPS // steps
    done = min(group, most // min(groups, _GROUPS))
    some = min(groups, most // done)
    count = _lay_out(candidate, units, some, done, steps, room)
    _run(pieces, count, units[KINDS], windows[0], 0)
    pieces[_PLANNED] = pieces[_BEGUN]
    _run(pieces, count, units[KINDS], windows[1], 1)
    last = some * done
    total = _end(room, last)
    if groups > some:
        half = (some + 1) // 2
        total += (groups - some) * (_end(room, last) - _end(room, last - half * done)) // half
    if group > done:
        half = max(done // 2, 1)
        total += groups * (group - done) * (_end(room, last) - _end(room, last - half)) // half
    if reductions > steps:
        half, step = steps // 2, last * steps
        each = pieces[_ENDED, room.products[step]] - pieces[_ENDED, room.products[step - half]]
        total += tiles * (reductions - steps) * each // half
    return total


@compiled
def _end(room: Room, tile: int) -> int:
    """When the results of a tile are stored."""
    time: int = room.pieces[_ENDED, room.stores[0, tile] + room.stores[1, tile] - 1]
    return time


@compiled
def _lay_out(candidate: Int64, units: Int64, groups: int, tiles: int, steps: int, room: Room) -> int:
    """Lay out the pieces of so many groups of tiles of steps, in the order of the program; returns their number."""
    reductions, contexts = candidate[REDUCTIONS], candidate[RESULT_CONTEXTS]
    staying = (candidate[DATA_STAY] > reductions, candidate[WEIGHTS_STAY] > reductions)
    _clear(room)
    count = 0
    for tile in range(groups * tiles):
        if tile % tiles == 0 and staying[1]:
            count = _load(candidate, units, WEIGHTS, room, count)
        if tile % tiles == 0 and staying[0]:
            count = _load(candidate, units, DATA, room, count)
        free = max(tile - contexts + 1, 0)  # the tile that leaves its accumulators
        before, others = room.stores[0, free], room.stores[1, free]
        begun = count
        count = _add(candidate, units, START, before, others, room.pieces, count)
        if count > begun:
            before, others = begun, count - begun
        for step in range(steps):
            if not staying[0]:
                count = _load(candidate, units, DATA, room, count)
            if not staying[1]:
                count = _load(candidate, units, WEIGHTS, room, count)
            begun = count
            count = _add(candidate, units, PRODUCTS, before, others, room.pieces, count)
            _note_operands(candidate, room, begun, count - begun)
            room.products[tile * steps + step + 1] = count - 1
        made = count - begun
        summed = count
        count = _add(candidate, units, PASSES, begun, made, room.pieces, count)
        if count > summed:
            begun, made = summed, count - summed
        stored = count
        count = _add(candidate, units, STORE, begun, made, room.pieces, count)
        if count > stored:
            begun, made = stored, count - stored
        room.stores[0, tile + 1], room.stores[1, tile + 1] = begun, made
    return count


@compiled
def _clear(room: Room) -> None:
    """Nothing is loaded, read or stored yet."""
    for row in range(2):
        room.loads[row, _LOADS] = 0
        for context in range(_CONTEXTS):
            room.readers[2 * row + 1, context] = 0
    room.stores[1, 0] = 0


@compiled
def _load(candidate: Int64, units: Int64, work: int, room: Room, count: int) -> int:
    """Add a load of data or of weights, which waits for the products that read its context; returns how many pieces."""
    row = work - DATA
    context = room.loads[row, _LOADS] % _CONTEXTS
    before, others = room.readers[2 * row, context], room.readers[2 * row + 1, context]
    first = count
    count = _add(candidate, units, work, before, others, room.pieces, count)
    room.loads[row, _FIRST], room.loads[row, _MADE] = first, count - first
    room.loads[row, _LOADS] += 1
    return count


@compiled
def _note_operands(candidate: Int64, room: Room, first: int, made: int) -> None:
    """Let a step's products wait for the loads that they use, and later loads for them.

    All data are used by the first block of results, its weights by each; data are free when all products are over.
    """
    pieces, loads = room.pieces, room.loads
    for part in range(made):
        data = min((part + 1) * candidate[OUT_BLOCKS], made) * loads[0, _MADE]
        weights = (part + 1) * loads[1, _MADE]
        pieces[_NEEDS_DATA, first + part] = loads[0, _FIRST] + (data + made - 1) // made - 1 if data > 0 else -1
        pieces[_NEEDS_WEIGHTS, first + part] = (
            loads[1, _FIRST] + (weights + made - 1) // made - 1 if weights > 0 else -1
        )
    data, weights = (loads[0, _LOADS] + 1) % _CONTEXTS, (loads[1, _LOADS] + 1) % _CONTEXTS
    room.readers[0, data], room.readers[1, data] = first + made - 1, 1
    room.readers[2, weights], room.readers[3, weights] = first, made


@compiled
def _add(candidate: Int64, units: Int64, work: int, before: int, others: int, pieces: Int64, count: int) -> int:
    """Add the pieces of some work, which wait for as much of ``others`` pieces from ``before`` on; returns how many."""
    at = WORKS + EACH * work
    number = candidate[at + COUNT]
    cut = min(number, _PRODUCT_PIECES if work == PRODUCTS else _FEW_PIECES)
    for part in range(cut):
        pieces[_UNIT, count] = units[work]
        pieces[_TIME, count] = candidate[at + CYCLES] // cut
        pieces[_PLAN_TIME, count] = candidate[at + NOMINAL] // cut
        pieces[_BEATS, count] = candidate[at + BUS] // cut
        pieces[_WEIGHT, count] = number * (part + 1) // cut - number * part // cut
        pieces[_BEFORE, count] = before + ((part + 1) * others + cut - 1) // cut - 1 if others > 0 else -1
        pieces[_NEEDS_DATA, count] = pieces[_NEEDS_WEIGHTS, count] = -1
        count += 1
    return count


@compiled
def _run(pieces: Int64, count: int, units: int, window: int, planned: int) -> None:
    """Fill when pieces begin and end: in the order of the program, or in that in which they are planned to begin.

    Each unit does its own in their order. Until they are planned their cycles are nominal, and there is no bus.
    """
    free, following = np.zeros(units, np.int64), np.zeros(units, np.int64)
    for unit in range(units):
        following[unit] = _next(pieces, count, unit, 0)
    turn = flight = head = bus = 0
    for sent in range(count):
        piece = _first_planned(pieces, count, following) if planned else sent
        if window > 1:
            while head < sent and flight - pieces[_WEIGHT, pieces[_SENT, head]] >= window:
                turn = max(turn, pieces[_ENDED, pieces[_SENT, head]])
                flight -= pieces[_WEIGHT, pieces[_SENT, head]]
                head += 1
            if flight >= window and head < sent:  # as many of the oldest are over
                oldest = pieces[_SENT, head]
                turn = max(turn, _share(pieces, oldest, flight + 1 - window, pieces[_WEIGHT, oldest]))
            turn += PARTS * pieces[_WEIGHT, piece]
        elif sent > 0:  # what was planned before it has begun
            last = pieces[_SENT, sent - 1]
            took = pieces[_PLAN_TIME, last]
            share = min(pieces[_PLANNED, piece] - pieces[_PLANNED, last], took - took // pieces[_WEIGHT, last])
            turn = max(turn, PARTS + _share(pieces, last, share, max(took, 1)))
        begin = max(turn, free[pieces[_UNIT, piece]])
        for row in range(_BEFORE, _NEEDS_WEIGHTS + 1):
            if pieces[row, piece] >= 0:
                begin = max(begin, pieces[_ENDED, pieces[row, piece]])
        end = begin + pieces[_TIME if planned else _PLAN_TIME, piece]
        if planned and pieces[_BEATS, piece] > 0:
            bus = max(bus, end - pieces[_BEATS, piece]) + pieces[_BEATS, piece]
            end = max(end, bus)
        pieces[_BEGUN, piece], pieces[_ENDED, piece], pieces[_SENT, sent] = begin, end, piece
        free[pieces[_UNIT, piece]] = end
        flight += pieces[_WEIGHT, piece]
        following[pieces[_UNIT, piece]] = _next(pieces, count, pieces[_UNIT, piece], piece + 1)


@compiled
def _share(pieces: Int64, piece: int, part: int, whole: int) -> int:
    """When ``part`` of the ``whole`` of a piece is over."""
    begin = pieces[_BEGUN, piece]
    over: int = begin + (pieces[_ENDED, piece] - begin) * part // whole
    return over


@compiled
def _first_planned(pieces: Int64, count: int, following: Int64) -> int:
    """Returns which of the units' next pieces is planned to begin first; of two that of the program."""
    first = count
    for unit in range(len(following)):
        other = following[unit]
        if other < count and (
            first == count
            or pieces[_PLANNED, other] < pieces[_PLANNED, first]
            or (pieces[_PLANNED, other] == pieces[_PLANNED, first] and other < first)
        ):
            first = other
    return first


@compiled
def _next(pieces: Int64, count: int, unit: int, piece: int) -> int:
    """Returns the next piece of a unit from ``piece`` on; ``count`` if there is none."""
    while piece < count and pieces[_UNIT, piece] != unit:
        piece += 1
    return piece
