"""The order in which the instructions of a launch are sent, so that its three controllers work at the same time.

A processor sends them one after the other, and the station holds few: behind the loads of a whole tile no product is
sent, and behind its products no load. Each queue keeps its own order here, and instructions of different queues that
share rows keep theirs; the others are merged in the order in which they would start if the station had no end.

What moves shares the answers of memory, a store reads a bank of the accumulator only while no sum is added to it, and
each waits for the instructions whose rows it shares. Cycles are about those of the recorded design, and not the
document's: the words of a program do not depend on its timing.
"""

import numpy as np

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.stream.loop_expansion import as_signed, has_no_loops
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.build import new_machine
from accel.isa.gemmini.timing.machine.commands import EXECUTE, LOAD, STORE, queue_of
from accel.isa.gemmini.timing.machine.station import entry_at, fill_entry, note_configuration
from accel.isa.kernels.compiled_kernels import Signature, compiled
from accel.isa.kernels.kernel_types import MATRIX, SCALAR, VECTOR
from accel.util.arrays import Int64, Words

_LOADED, _MADE, _READ, _STORED = range(4)  # the last load and product that wrote a row, product and store that read it
_KINDS = 4
# banks: of what is stored, loaded or added, and of what a product reads; the first product that uses a load
_BANK, _DATA_BANK, _WEIGHTS_BANK, _USER, _QUEUE, _CYCLES, _BEATS, _ADDS, _PAIRED = range(_KINDS, 13)
_NONE_BELOW, _FACTS = _QUEUE, 13  # facts that may be -1 come first
_FENCES = 3  # as a queue
_HEAD, _START, _FREE = range(3)  # of a queue: the instruction that is sent next, when it starts; when one may
_SUMS, _OVER, _ANSWERED = range(3)  # sums so far, when all is over, when memory has given all answers
_SEEN, _READ_UNTIL = range(2)  # of banks: how many sums are over; until when products read it
_BEGIN, _END, _OF = range(3)  # when a sum is added to the accumulator, and to which bank
_ROW_THIRDS = 7  # thirds of a cycle from one row that is moved to the next: 16 requests under way, an answer after 37
_LINE, _BEAT = 64, 16  # bytes of the longest request, and of a beat of its answer
_STORE_THIRDS = 10  # of a row that is stored, with answers of loads between
_POOL_THIRDS = 5  # of an element of a window
_WIDE_THIRDS = 15  # of whole accumulators that are stored: four beats of the bus
_ANSWER = 60  # cycles until the last row of a load is there
_MARGIN = 2  # of the time that the mesh has to do before it waits for a move
_FEWEST_ROWS = 7  # cycles from one product of few rows to the next, where the weights stay
_DRAIN = 10  # cycles, beside twice the mesh's rows, until a product is in the accumulator


@compiled
def _last(m: Int64, place: int, spad: Int64, acc: Int64, kind: int) -> int:
    """The last instruction of a kind with the rows of the range at ``place``; -1: there is none.

    With a stride of 0 the range is empty, and its first row is meant.
    """
    latest = -1
    if m[place] < 0:
        return latest
    table = acc if m[place] == 1 else spad
    for row in range(m[place + 1], min(max(m[place + 2], m[place + 1] + 1), len(table))):
        latest = max(latest, table[row, kind])
    return latest


@compiled
def _note(m: Int64, place: int, spad: Int64, acc: Int64, kind: int, index: int) -> None:
    """Note the last instruction of a kind with the rows of the range at ``place``, as :func:`_last` takes them."""
    if m[place] < 0:
        return
    table = acc if m[place] == 1 else spad
    for row in range(m[place + 1], min(max(m[place + 2], m[place + 1] + 1), len(table))):
        table[row, kind] = index


@compiled
def _bank(m: Int64, place: int, memory: int) -> int:
    """The bank in which a range begins; -1: it is of the other ``memory``, or there is no other bank."""
    banks, rows = m[at.ACC_BANKS], m[at.ACC_BANK_ROWS]
    if memory == 0:
        banks, rows = m[at.SPAD_BANKS], m[at.SPAD_BANK_ROWS]
    if m[place] != memory or banks == 1:
        return -1
    return int(min(m[place + 1] // rows, banks - 1))


@compiled
def _note_user(m: Int64, place: int, spad: Int64, acc: Int64, facts: Int64, index: int, kind: int) -> None:
    """Note the first product that uses what a load brings to the range at ``place``, or writes where a store reads."""
    if m[place] < 0:
        return
    table = acc if m[place] == 1 else spad
    for row in range(m[place + 1], min(max(m[place + 2], m[place + 1] + 1), len(table))):
        move = table[row, kind]
        if move >= 0 and facts[move, _USER] < 0:
            facts[move, _USER] = index


@compiled
def _moves(queue: int, rs1: int, rs2: int, pooled: int) -> tuple[int, int]:
    """Cycles from one move to the next if it is alone, and beats of the answers of memory.

    A store reads ``pooled`` elements of windows; 0: it reads rows.
    """
    rows, columns = rs2 >> 48 & 0xFFFF, rs2 >> 32 & 0xFFFF
    if queue == STORE and pooled:
        return pooled * _POOL_THIRDS // 3 + 1, 0  # of the writes, fewer than what is read, no answer is waited for
    if queue == STORE:
        wide = rs2 & rocc.FULL and rs2 & rocc.ACCUMULATOR
        return rows * (_WIDE_THIRDS if wide else _STORE_THIRDS) // 3 + 1, rows
    requests = ((rs1 & _LINE - 1) + columns + _LINE - 1) // _LINE  # of a row, which may begin within a line
    beats = (columns + _BEAT - 1) // _BEAT + requests - 1
    return rows * max(_ROW_THIRDS * requests, 3 * beats) // 3 + 1, rows * beats


@compiled
def _windows_read(rs1: int) -> int:
    """The elements that a store reads of windows, by what config_st says; 0: it takes none."""
    size = rs1 >> 6 & 3 if rs1 >> 4 & 3 else 0
    return (rs1 >> 32 & 0xFF) * (rs1 >> 40 & 0xFF) * size * size


@compiled
def _clear(facts: Int64) -> None:
    """Clear the facts (_FACTS,) of an instruction."""
    for fact in range(len(facts)):
        facts[fact] = -1 if fact < _NONE_BELOW else 0


@compiled
def _read_facts(m: Int64, words: Int64, spad: Int64, acc: Int64, facts: Int64) -> None:
    """What the order takes of each instruction (n, _FACTS): its queue, what it waits for, what it takes.

    ``spad`` and ``acc`` (rows, _KINDS) are of -1, and so are the facts that an instruction does not have.
    """
    preload, held, pooled = -1, entry_at(EXECUTE, 1), 0
    for index in range(len(words)):
        _clear(facts[index])
        funct, rs1, rs2 = words[index, 0], words[index, 1], words[index, 2]
        queue = _FENCES if funct == rocc.FENCE else queue_of(funct, rs1)
        facts[index, _QUEUE] = queue
        if funct == rocc.FENCE:
            continue
        entry = held if funct == rocc.PRELOAD else entry_at(queue, 0)
        fill_entry(m, entry, queue, funct, rs1, rs2)
        one, other = entry + at.S_A, entry + at.S_B
        if funct == rocc.CONFIG:
            pooled = _windows_read(rs1) if queue == STORE and rs1 & 3 == rocc.CONFIG_ST else pooled
        elif queue == LOAD:
            for kind in (_MADE, _READ, _STORED):
                facts[index, kind] = _last(m, one, spad, acc, kind)
            _note(m, one, spad, acc, _LOADED, index)
            facts[index, _BANK] = _bank(m, one, 0)
            facts[index, _CYCLES], facts[index, _BEATS] = _moves(queue, rs1, rs2, pooled)
        elif queue == STORE:
            for kind in (_LOADED, _MADE):
                facts[index, kind] = _last(m, one, spad, acc, kind)
            _note(m, one, spad, acc, _STORED, index)
            facts[index, _BANK] = _bank(m, one, 1)
            facts[index, _CYCLES], facts[index, _BEATS] = _moves(queue, rs1, rs2, pooled)
        elif funct == rocc.PRELOAD:
            facts[index, _LOADED] = max(_last(m, one, spad, acc, _LOADED), _last(m, other, spad, acc, _LOADED))
            facts[index, _STORED] = _last(m, one, spad, acc, _STORED)
            _note(m, one, spad, acc, _MADE, index)
            _note_user(m, other, spad, acc, facts, index, _LOADED)
            _note_user(m, one, spad, acc, facts, index, _STORED)
            preload = index
        else:
            facts[index, _LOADED] = max(_last(m, one, spad, acc, _LOADED), _last(m, other, spad, acc, _LOADED))
            fewest = _FEWEST_ROWS if m[held + at.S_B] < 0 else m[at.DIM]  # weights that stay are not read
            facts[index, _CYCLES] = max(fewest, rs1 >> 48 & 0xFFFF)
            _note_user(m, one, spad, acc, facts, index, _LOADED)
            facts[index, _DATA_BANK] = _bank(m, one, 0)
            _note(m, one, spad, acc, _READ, index)
            _note(m, other, spad, acc, _READ, index)
            if preload >= 0:
                _note(m, held + at.S_A, spad, acc, _MADE, index)
                _note(m, held + at.S_B, spad, acc, _READ, index)
                facts[index, _WEIGHTS_BANK] = _bank(m, held + at.S_B, 0)
                facts[index, _BANK] = _bank(m, held + at.S_A, 1)
                facts[index, _ADDS] = words[preload, 2] >> 30 & 1
                facts[preload, _PAIRED] = preload == index - 1
        note_configuration(m, queue, funct, rs1, rs2)


@compiled
def _cleared(facts: Int64, index: int, ends: Int64) -> int:
    """When what an instruction waits for is over; -1: some of it has not been sent.

    ``ends`` (n, 2) are when an instruction has read its rows, and when it has written them; -1 before it is sent.
    """
    time = 0
    for kind in range(_KINDS):
        other = facts[index, kind]
        if other >= 0:
            end = ends[other, 1 if kind in (_LOADED, _MADE) else 0]
            if end < 0:
                return -1
            time = max(time, end)
    return time


@compiled
def _between_sums(sums: Int64, count: int, banks: Int64, bank: int, time: int, cycles: int) -> int:
    """When ``cycles`` of reading a bank are over, which begin at ``time``: it is read while no sum is added to it.

    ``sums`` are the first ``count`` that are added; of each bank is known how many of them are over.
    """
    place = banks[bank, _SEEN]
    while place < count:
        if sums[place, _OF] == bank and sums[place, _END] > time:
            if sums[place, _BEGIN] - time >= cycles:
                break
            cycles -= max(sums[place, _BEGIN] - time, 0)
            time = sums[place, _END]
        place += 1
    banks[bank, _SEEN] = place
    return time + cycles


@compiled
def _next(facts: Int64, queue: int, index: int, end: int) -> int:
    """The first instruction of a queue from ``index`` on; ``end``: there is none before it."""
    while index < end and facts[index, _QUEUE] != queue:
        index += 1
    return index


@compiled
def _startable(facts: Int64, index: int, ends: Int64) -> int:
    """:func:`_cleared` of an instruction, and of a product with its preload."""
    cleared = _cleared(facts, index, ends)
    if cleared < 0 or not facts[index, _PAIRED]:
        return cleared
    behind = _cleared(facts, index + 1, ends)
    return -1 if behind < 0 else max(cleared, behind)


@compiled
def _times_longer(facts: Int64, index: int, ahead: Int64, product: int) -> int:
    """How many times as long a move may take, from the ``product`` on that is next; 1: the mesh would wait for it.

    ``ahead`` (n + 1, 3) are cycles of each queue before an instruction. The moves that the first product which waits
    for this one waits for too stand between the two.
    """
    user, queue = facts[index, _USER], facts[index, _QUEUE]
    if user < 0:
        return 1
    products, moves = ahead[user, EXECUTE] - ahead[product, EXECUTE], ahead[user, queue] - ahead[index, queue]
    if queue == STORE:
        return int(max(products // (_MARGIN * (moves + _ANSWER)), 1))
    return int(max(min(products // (moves + _ANSWER), _MARGIN), 1))


@compiled
def _first(
    facts: Int64,
    ends: Int64,
    sums: Int64,
    banks: Int64,
    queues: Int64,
    clock: Int64,
    ahead: Int64,
    fence: int,
) -> int:
    """The queue whose next instruction starts first of those before ``fence``."""
    chosen, product = -1, queues[EXECUTE, _HEAD]
    for queue in range(len(queues)):
        index = queues[queue, _HEAD]
        if index == fence:
            continue
        if queues[queue, _START] < 0:
            cleared = _startable(facts, index, ends)
            if cleared < 0:
                continue
            queues[queue, _START] = max(cleared, queues[queue, _FREE])
        start = queues[queue, _START]
        if queue == STORE and facts[index, _BANK] >= 0:  # sums that were sent since may be in its way
            start = _between_sums(sums, clock[_SUMS], banks, facts[index, _BANK], start, 1) - 1
        elif queue == LOAD and facts[index, _BANK] >= 0 and _times_longer(facts, index, ahead, product) > 1:
            start = max(start, banks[facts[index, _BANK], _READ_UNTIL])  # rows that come would be in the way
        queues[queue, _START] = start
        earlier = chosen < 0 or start < queues[chosen, _START]
        if earlier or (start == queues[chosen, _START] and index < queues[chosen, _HEAD]):
            chosen = queue
    return chosen


@compiled
def _send(
    facts: Int64, index: int, ends: Int64, sums: Int64, banks: Int64, queue: Int64, clock: Int64, dim: int
) -> None:
    """Note what an instruction does that starts when its ``queue`` (3,) says: its ends, and what it has of others."""
    kind, bank, cycles, begin = facts[index, _QUEUE], facts[index, _BANK], facts[index, _CYCLES], queue[_START]
    end = begin + cycles
    if kind == STORE and bank >= 0:
        end = _between_sums(sums, clock[_SUMS], banks, bank, begin, cycles)
    if facts[index, _BEATS]:
        clock[_ANSWERED] = max(clock[_ANSWERED], begin) + facts[index, _BEATS]
        end = max(end, clock[_ANSWERED])
    written = end
    if kind == LOAD and cycles:
        written = end + _ANSWER
    elif kind == EXECUTE and cycles:
        written = end + 2 * dim + _DRAIN
        if facts[index, _DATA_BANK] >= 0:
            banks[facts[index, _DATA_BANK], _READ_UNTIL] = end
        if facts[index, _WEIGHTS_BANK] >= 0:
            banks[facts[index, _WEIGHTS_BANK], _READ_UNTIL] = end
        if facts[index, _ADDS] and bank >= 0:
            place = clock[_SUMS]
            sums[place, _BEGIN], sums[place, _END], sums[place, _OF] = written - cycles, written, bank
            clock[_SUMS] = place + 1
    ends[index, 0], ends[index, 1] = end, written
    queue[_FREE], clock[_OVER] = end, max(clock[_OVER], written)


@compiled
def _count_ahead(facts: Int64, ahead: Int64) -> None:
    """Add up the cycles (n + 1, 3) of each queue before each instruction."""
    for queue in range(3):
        ahead[0, queue] = 0
    for index in range(len(facts)):
        for queue in range(3):
            own = facts[index, _CYCLES] if facts[index, _QUEUE] == queue else 0
            ahead[index + 1, queue] = ahead[index, queue] + own


@compiled
def _merge(facts: Int64, ahead: Int64, dim: int, banks: Int64, order: Int64) -> None:
    """Find the order (n,) of instructions, by what :func:`_read_facts` has found of them."""
    count, sent = len(facts), 0
    _count_ahead(facts, ahead)
    ends, sums = np.full((count, 2), -1, np.int64), np.zeros((count, 3), np.int64)
    queues, clock = np.zeros((3, 3), np.int64), np.zeros(3, np.int64)
    while sent < count:
        fence = _next(facts, _FENCES, sent, count)
        for number in range(len(queues)):
            queues[number, _HEAD], queues[number, _START] = _next(facts, number, sent, fence), -1
        while sent < fence:
            chosen = _first(facts, ends, sums, banks, queues, clock, ahead, fence)
            index, begin = queues[chosen, _HEAD], queues[chosen, _START]
            order[sent] = index
            sent += 1
            if facts[index, _PAIRED]:
                ends[index, 0], ends[index, 1] = begin, begin
                index += 1
                order[sent] = index
                sent += 1
            _send(facts, index, ends, sums, banks, queues[chosen], clock, dim)
            if chosen != EXECUTE:  # memory may take longer
                times = _times_longer(facts, index, ahead, queues[EXECUTE, _HEAD])
                queues[chosen, _FREE] = max(queues[chosen, _FREE], begin + times * facts[index, _CYCLES])
            queues[chosen, _HEAD], queues[chosen, _START] = _next(facts, chosen, index + 1, fence), -1
        if fence < count:
            order[sent] = fence
            sent += 1
            for number in range(len(queues)):
                queues[number, _FREE] = clock[_OVER]


def _touches_others(words: Int64, parameters: GemminiParameters) -> bool:
    """Whether instructions touch rows that are not the ones the station takes them to.

    Stores that pool an image that goes on in another bank, loads that repeat pixels, products that transpose or keep
    their results in the mesh.
    """
    configurations = words[words[:, 0] == rocc.CONFIG, 1]
    kind = configurations & 3
    execute = configurations[(kind == rocc.CONFIG_EX) & (configurations >> 7 & 1 == 0)]
    load = configurations[kind == rocc.CONFIG_LD]
    products = (execute >> 2 & 1 == 0) | (execute >> 8 & 3 != 0)
    return bool(products.any() or (load >> 8 & 0xFF > 1).any() or _pools_beyond_a_bank(words, parameters))


def _pools_beyond_a_bank(words: Int64, parameters: GemminiParameters) -> bool:
    """Whether a store pools rows that are not of the accumulator's bank in which its image begins.

    A launch without products is taken for one that does: its loads and stores wait for nothing else.
    """
    is_config = (words[:, 0] == rocc.CONFIG) & (words[:, 1] & 3 == rocc.CONFIG_ST)
    if not (words[is_config, 1] >> 4 & 3).any():
        return False
    places = np.maximum.accumulate(np.where(is_config, np.arange(len(words)), -1))
    stores = (words[:, 0] == rocc.MVOUT) & (places >= 0)
    known, local = words[places[stores], 1], words[stores, 2]
    pools, first = known >> 4 & 3 != 0, local & rocc.STORE_ROW
    stride, size, width = known >> 4 & 3, known >> 6 & 3, known >> 56 & 0xFF
    rows, columns = (((known >> bit & 0xFF) - 1) * stride + size - 1 for bit in (32, 40))
    above, left = known >> 8 & 3, known >> 10 & 3
    last = first + np.minimum(rows - above, (known >> 48 & 0xFF) - 1) * width + np.minimum(columns - left, width - 1)
    bank = parameters.accumulator_rows // parameters.accumulator_banks
    within = (local & rocc.ACCUMULATOR != 0) & (first // bank == last // bank)
    alone = not (words[:, 0] == rocc.PRELOAD).any()
    return bool((pools & (~within | alone)).any())


def facts_signature() -> Signature:
    """Returns what finds what instructions wait for."""
    return Signature(_read_facts, VECTOR, MATRIX, MATRIX, MATRIX, MATRIX)


def order_signature() -> Signature:
    """Returns what merges the queues."""
    return Signature(_merge, MATRIX, MATRIX, SCALAR, MATRIX, VECTOR)


def issue_order(words: Words, parameters: GemminiParameters) -> Int64:
    """Returns the places (n,) of a launch's instructions ``words`` (n, 3) in the order in which to send them.

    A launch of loops is sent as it stands, and one that touches other rows than the station knows of.
    """
    signed = as_signed(words)
    if not has_no_loops(signed) or _touches_others(signed, parameters):
        return np.arange(len(words))
    sizes = parameters.scratchpad_rows, parameters.accumulator_rows
    spad, acc = (np.full((rows, _KINDS), -1, np.int64) for rows in sizes)
    order = np.zeros(len(words), np.int64)
    facts = np.empty((len(words), _FACTS), np.int64)
    bare = parameters.model_copy(update={"core": None, "memory": None})
    _read_facts(new_machine(bare, LaunchContext.fresh(bare)), signed, spad, acc, facts)
    banks = np.zeros((max(parameters.scratchpad_banks, parameters.accumulator_banks), 2), np.int64)
    _merge(facts, np.empty((len(words) + 1, 3), np.int64), parameters.dim, banks, order)
    return order
