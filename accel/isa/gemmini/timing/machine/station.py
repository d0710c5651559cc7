"""The reservation station: entries, what each waits for, and when it is handed over (ReservationStation.scala)."""

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.stream.configuration_registers import load_configuration_of
from accel.isa.gemmini.timing.machine import log_columns as log
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.commands import EXECUTE, LOAD, STORE, queue_of
from accel.isa.gemmini.timing.machine.mesh import is_garbage
from accel.isa.gemmini.timing.machine.queues import front, has_room, put, take
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64

_FAR = 1 << 40


@compiled
def entry_at(queue: int, slot: int) -> int:
    """Where an entry of a queue lies."""
    return at.STATION + queue * at.STATION_QUEUE + slot * at.S_WIDTH


@compiled
def _range(m: Int64, place: int, word: int, rows: int) -> None:
    """The rows from a local address on: memory (0 scratchpad, 1 accumulator, -1 none), first, end."""
    if is_garbage(word):
        m[place] = -1
        return
    memory = word >> 31 & 1
    first, most = word & rocc.STORE_ROW, m[at.ACC_ROWS] if memory else m[at.SPAD_ROWS]
    if first >= most:
        first %= most
    m[place], m[place + 1], m[place + 2] = memory, first, first + rows


@compiled
def _load_range(m: Int64, place: int, funct: int, rs2: int) -> None:
    which = load_configuration_of(funct)
    columns, rows = rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF
    blocks = columns + m[at.DIM] - 1 >> m[at.DIM_SHIFT]
    _range(m, place, rs2, (blocks - 1) * m[at.RS_BLOCK + which] + rows)
    back = m[at.RS_PIXELS + which] - 1
    if back > 0 and m[place] == 0:
        first, half = m[place + 1], m[at.SPAD_ROWS] // 2
        floor = half if first > half else 0
        moved = max(first - back, floor)
        m[place + 2] += moved - first
        m[place + 1] = moved


@compiled
def _store_range(m: Int64, place: int, rs2: int) -> None:
    columns, rows = rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF
    blocks = columns + m[at.DIM] - 1 >> m[at.DIM_SHIFT]
    _range(m, place, rs2 & ~(7 << 26), (blocks - 1) * m[at.DIM] + rows)
    if m[at.RS_POOLING] and m[place] == 1:  # to the end of its bank; of the last bank, without end
        bank = m[place + 1] // m[at.ACC_BANK_ROWS] + 1
        m[place + 2] = _FAR if bank >= m[at.ACC_BANKS] else bank * m[at.ACC_BANK_ROWS]


@compiled
def fill_entry(m: Int64, entry: int, queue: int, funct: int, rs1: int, rs2: int) -> None:
    """Note in a new entry what the instruction reads and writes."""
    m[entry + at.S_A] = m[entry + at.S_B] = -1
    m[entry + at.S_WRITES] = 0
    if funct == rocc.CONFIG:
        return
    if queue == LOAD:
        _load_range(m, entry + at.S_A, funct, rs2)
        m[entry + at.S_WRITES] = 1
    elif queue == STORE:
        _store_range(m, entry + at.S_A, rs2)
    elif funct == rocc.PRELOAD:
        _range(m, entry + at.S_A, rs2, (rs2 >> 48 & 0xFFFF) * m[at.RS_C_STRIDE])
        _range(m, entry + at.S_B, rs1, rs1 >> 48 & 0xFFFF)
        m[entry + at.S_WRITES] = 1
    else:
        rows = rs1 >> (32 if m[at.RS_A_TRANSPOSE] else 48) & 0xFFFF
        _range(m, entry + at.S_A, rs1, rows * m[at.RS_A_STRIDE])
        _range(m, entry + at.S_B, rs2, rs2 >> 48 & 0xFFFF)


@compiled
def rows_of(m: Int64, place: int) -> tuple[int, int]:
    """The range at ``place`` in rows of the scratchpad and, behind them, of the accumulator; of an empty one a row."""
    if m[place] < 0:
        return 0, 0
    base, depth = (m[at.SPAD_ROWS], m[at.ACC_ROWS]) if m[place] == 1 else (0, m[at.SPAD_ROWS])
    return base + m[place + 1], base + min(max(m[place + 2], m[place + 1] + 1), depth)


@compiled
def _meet(m: Int64, one: int, other: int) -> bool:
    """Whether two ranges share a row, or an empty one lies in the other."""
    if m[one] < 0 or m[one] != m[other]:
        return False
    if m[other + 1] <= m[one + 1] < m[other + 2]:
        return True
    return bool(m[one + 1] <= m[other + 1] < m[one + 2])


@compiled
def _must_wait(m: Int64, new: int, queue: int, old: int, other: int) -> bool:
    """Whether a new entry of a queue waits for an old one of another: it reads or writes what that one writes."""
    if queue == LOAD:
        if _meet(m, new + at.S_A, old + at.S_A):
            return True
        return other == EXECUTE and _meet(m, new + at.S_A, old + at.S_B)
    if queue == EXECUTE:
        if other == LOAD:
            return _meet(m, new + at.S_A, old + at.S_A) or _meet(m, new + at.S_B, old + at.S_A)
        return bool(m[new + at.S_WRITES] and _meet(m, new + at.S_A, old + at.S_A))
    if other == EXECUTE and not m[old + at.S_WRITES]:
        return False
    return _meet(m, new + at.S_A, old + at.S_A)


@compiled
def note_configuration(m: Int64, queue: int, funct: int, rs1: int, rs2: int) -> None:
    """Note what of an instruction the ranges of later ones depend on."""
    if funct == rocc.CONFIG:
        if queue == EXECUTE:
            m[at.RS_A_STRIDE], m[at.RS_C_STRIDE] = rs1 >> 16 & 0xFFFF, rs2 >> 48 & 0xFFFF
            if not rs1 >> 7 & 1:
                m[at.RS_A_TRANSPOSE] = rs1 >> 8 & 1
        elif queue == LOAD:
            which = min(rs1 >> 3 & 3, 2)
            m[at.RS_BLOCK + which], m[at.RS_PIXELS + which] = rs1 >> 16 & 0xFFFF, max(rs1 >> 8 & 0xFF, 1)
        elif rs1 & 3 == rocc.CONFIG_ST:
            m[at.RS_POOLING] = rs1 >> 4 & 3
    elif funct == rocc.PRELOAD:
        m[at.SOLITARY] = 1
    elif queue == EXECUTE:
        m[at.SOLITARY] = 0


@compiled
def _free_slot(used: int, entries: int) -> int:
    if used == (1 << entries) - 1:  # as in most cycles
        return -1
    for slot in range(entries):
        if not used >> slot & 1:
            return slot
    return -1


@compiled
def _is_ordered(m: Int64, queue: int) -> bool:
    """Whether an instruction of a queue waits until all before it in the queue are complete."""
    return bool(queue == STORE and m[at.STORES_ORDERED])


@compiled
def allocate(m: Int64, command: int, now: int, rows: Int64) -> bool:
    """Give the instruction at ``command`` an entry, if its queue has one; it is logged in ``rows``."""
    funct, rs1, rs2 = m[command + at.F_FUNCT], m[command + at.F_RS1], m[command + at.F_RS2]
    queue = queue_of(funct, rs1)
    slot = _free_slot(m[at.STATION_MASK + queue], m[at.LOAD_ENTRIES + queue])
    if slot < 0:
        return False
    entry = entry_at(queue, slot)
    row = m[at.LOGGED] & m[at.LOG_MASK]
    m[entry + at.S_VALID], m[entry + at.S_ISSUED], m[entry + at.S_CONFIG] = 1, 0, funct == rocc.CONFIG
    m[entry + at.S_ROW], m[entry + at.S_FROM] = row, m[command + at.F_FROM]
    m[entry + at.S_FUNCT], m[entry + at.S_RS1], m[entry + at.S_RS2] = funct, rs1, rs2
    fill_entry(m, entry, queue, funct, rs1, rs2)
    for other in range(3):
        deps = 0
        left = m[at.STATION_MASK + other]
        if other == queue:  # instructions of a queue are handed over in their order; its stores may be done in it too
            deps = left if _is_ordered(m, queue) else 0
            left = 0
        elif funct == rocc.CONFIG or (queue == EXECUTE and other == STORE and not m[entry + at.S_WRITES]):
            left = 0
        place = 0
        while left:
            if left & 1 and _must_wait(m, entry, queue, entry_at(other, place), other):
                deps |= 1 << place
            left >>= 1
            place += 1
        m[entry + at.S_DEPS + other] = deps
    m[at.STATION_MASK + queue] |= 1 << slot
    m[put(m, at.OLDEST + queue * at.OLDEST_QUEUE, now) + 1] = slot
    note_configuration(m, queue, funct, rs1, rs2)
    rows[row, log.QUEUE], rows[row, log.ORIGIN] = queue, m[command + at.F_ORIGIN]
    rows[row, log.FUNCT], rows[row, log.RS1], rows[row, log.RS2] = funct, rs1, rs2
    rows[row, log.ASKED], rows[row, log.ENTERED] = m[command + at.F_ASKED], now
    rows[row, log.ISSUED] = rows[row, log.COMPLETE] = rows[row, log.BEGUN] = -1
    for other in range(3):
        rows[row, log.CLEARED + other] = rows[row, log.CLEARED_BY + other] = -1
    m[at.LOGGED] += 1
    m[at.PROGRESS] = now
    return True


@compiled
def ready_slot(m: Int64, queue: int, now: int) -> int:
    """The slot of a queue's oldest instruction that is not handed over, if it waits for none; else -1."""
    oldest = at.OLDEST + queue * at.OLDEST_QUEUE
    if not m[oldest + 1]:
        return -1
    head = front(m, oldest)
    entry = entry_at(queue, m[head + 1])
    if m[head] == now or m[entry + at.S_DEPS] | m[entry + at.S_DEPS + 1] | m[entry + at.S_DEPS + 2]:
        return -1
    return int(m[head + 1])


@compiled
def _clear(m: Int64, queue: int, slot: int, now: int, rows: Int64) -> None:
    """Nobody waits for a slot any more."""
    bit, row = 1 << slot, m[entry_at(queue, slot) + at.S_ROW]
    for other in range(3):
        if other == queue and not _is_ordered(m, queue):
            continue
        used = m[at.STATION_MASK + other]
        place = 0
        while used:
            if used & 1:
                entry = entry_at(other, place)
                if m[entry + at.S_DEPS + queue] & bit:
                    m[entry + at.S_DEPS + queue] &= ~bit
                    _note_cleared(m, entry, queue, row, now, rows)
            used >>= 1
            place += 1


@compiled
def _note_cleared(m: Int64, entry: int, queue: int, row: int, now: int, rows: Int64) -> None:
    """Log that an entry does not wait for the instruction of ``row``, which is of ``queue``, any more."""
    mine = m[entry + at.S_ROW]
    rows[mine, log.CLEARED + queue], rows[mine, log.CLEARED_BY + queue] = now, row


@compiled
def _free(m: Int64, queue: int, slot: int) -> None:
    entry = entry_at(queue, slot)
    m[entry + at.S_VALID] = 0
    m[at.STATION_MASK + queue] &= ~(1 << slot)
    if m[entry + at.S_FROM]:
        m[at.FSM_DONE + (m[entry + at.S_FROM] - 1) * 3 + queue] += 1
        m[at.FSM_ANY] = 1
    m[at.CHANGED] = 1


@compiled
def issue(m: Int64, queue: int, slot: int, now: int, rows: Int64) -> None:
    """Hand an instruction over; configurations of loads and stores are complete with it."""
    entry, oldest = entry_at(queue, slot), at.OLDEST + queue * at.OLDEST_QUEUE
    take(m, oldest, now)
    m[entry + at.S_ISSUED] = 1
    m[at.PROGRESS] = now
    rows[m[entry + at.S_ROW], log.ISSUED] = now
    m[at.BEGUN + queue * at.MOST_ENTRIES + slot] = now + 1
    if m[oldest + 1] and not _is_ordered(m, queue):
        _note_cleared(m, entry_at(queue, m[front(m, oldest) + 1]), queue, m[entry + at.S_ROW], now, rows)
    if m[entry + at.S_CONFIG] == 1 and queue != EXECUTE:
        _clear(m, queue, slot, now, rows)
        rows[m[entry + at.S_ROW], log.BEGUN] = now + 1
        _free(m, queue, slot)
    if queue == EXECUTE:
        place = at.UNROLL + (m[at.UNROLL_HEAD] + m[at.UNROLL_COUNT]) % 2 * at.E_WIDTH
        m[place + at.E_ROW], m[place + at.E_FUNCT], m[place + at.E_SLOT] = (
            m[entry + at.S_ROW],
            m[entry + at.S_FUNCT],
            slot,
        )
        m[place + at.E_RS1], m[place + at.E_RS2] = m[entry + at.S_RS1], m[entry + at.S_RS2]
        m[at.UNROLL_COUNT] += 1
        return
    command = put(m, at.LOAD_QUEUE if queue == LOAD else at.STORE_QUEUE, now)
    m[command + at.C_ROW], m[command + at.C_FUNCT], m[command + at.C_SLOT] = (
        m[entry + at.S_ROW],
        m[entry + at.S_FUNCT],
        slot,
    )
    m[command + at.C_RS1], m[command + at.C_RS2] = m[entry + at.S_RS1], m[entry + at.S_RS2]


@compiled
def complete(m: Int64, queue: int, slot: int, now: int, rows: Int64) -> None:
    """An instruction is complete: its entry is free, and who waited for it need not."""
    m[at.PROGRESS] = now
    row = m[entry_at(queue, slot) + at.S_ROW]
    rows[row, log.COMPLETE], rows[row, log.BEGUN] = now, m[at.BEGUN + queue * at.MOST_ENTRIES + slot]
    _clear(m, queue, slot, now, rows)
    _free(m, queue, slot)


@compiled
def controller_has_room(m: Int64, queue: int, now: int, unrolling: int) -> bool:
    """Whether a queue's controller takes an instruction; ``unrolling``: how many the preload unroller held before."""
    if queue == EXECUTE:
        return unrolling < 2
    return has_room(m, at.LOAD_QUEUE if queue == LOAD else at.STORE_QUEUE, now)


@compiled
def is_busy(m: Int64) -> bool:
    """Whether an instruction is in the station, a preload without its compute excepted."""
    used = m[at.STATION_MASK] | m[at.STATION_MASK + 1] | m[at.STATION_MASK + 2]
    if not used:
        return False
    alone = m[at.STATION_MASK] == 0 and m[at.STATION_MASK + 2] == 0
    mask = m[at.STATION_MASK + 1]
    return not (alone and mask & (mask - 1) == 0 and m[at.SOLITARY])
