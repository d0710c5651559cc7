"""The mesh: rows that enter, results that leave, and whose they are (MeshWithDelays.scala, TagQueue.scala)."""

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.memory.load_data import (
    ACCUMULATOR,
    SPAD,
    acc_bank,
    acc_row,
    note_accumulator_write,
    spad_bank,
)
from accel.isa.gemmini.timing.machine.queues import front, has_room, offers, put, take
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64

IDS = 5  # products at once
NO_SLOT = -1


@compiled
def is_garbage(word: int) -> bool:
    """Whether a local address is none: all flags and the low bits are set (LocalAddr.scala)."""
    return bool(word >> 29 & 7 == 7 and word & 0xFFF == 0xFFF)


@compiled
def step_outputs(m: Int64, now: int) -> None:
    """Write the row of results that leaves the mesh; note which preload is complete with it."""
    m[at.EX_WRITES], m[at.EX_DONE] = 0, NO_SLOT
    if not m[at.OUTPUTS + 1]:
        return
    row = front(m, at.OUTPUTS)
    if m[row] != now:
        return
    identity, last = m[row + 1], m[row + 2]
    take(m, at.OUTPUTS, now)
    tag, total = -1, m[at.DIM]
    if offers(m, at.TAGS, now) and m[front(m, at.TAGS) + at.G_ID] == identity:
        tag = front(m, at.TAGS)
    sized = offers(m, at.ROWS_QUEUE, now) and m[front(m, at.ROWS_QUEUE) + 1] == identity
    if sized:
        total = m[front(m, at.ROWS_QUEUE) + 2]
    if tag >= 0:
        _write(m, tag, total, now)
        if last and m[tag + at.G_SLOT] != NO_SLOT:
            m[at.EX_DONE] = m[tag + at.G_SLOT]
    m[at.OUTPUT_ROW] += 1
    if m[at.OUTPUT_ROW] >= total:
        m[at.OUTPUT_ROW] = 0
    if last:
        if tag >= 0:
            m[at.TAG_DONE] = tag
            take(m, at.TAGS, now)
        if sized:
            take(m, at.ROWS_QUEUE, now)


@compiled
def forget_product(m: Int64) -> None:
    """Forget the product that left in this cycle: the next one sees it no more."""
    tag = m[at.TAG_DONE]
    if tag:
        m[tag + at.G_ADDRESS], m[tag + at.G_SLOT] = rocc.GARBAGE, NO_SLOT
        m[at.TAG_DONE] = 0


@compiled
def _write(m: Int64, tag: int, total: int, now: int) -> None:
    address, count = m[tag + at.G_ADDRESS], m[at.OUTPUT_ROW]
    if is_garbage(address):
        return
    step = count * m[at.EX_C_STRIDE]
    place = count
    if not m[at.EX_WS]:
        step, place = total - 1 - step, total - 1 - count
    if place >= m[tag + at.G_ROWS]:
        return
    row = (address & rocc.LOAD_ROW) + step
    if address >> 31 & 1:
        row = acc_row(m, row)
        bank = acc_bank(m, row)
        m[at.EX_WRITES], m[at.EX_WRITE_BANK] = ACCUMULATOR, bank
        if address >> 30 & 1:
            m[at.ACC_ADDING] |= 1 << bank
        note_accumulator_write(m, bank, row, now)
    else:
        m[at.EX_WRITES], m[at.EX_WRITE_BANK] = SPAD, spad_bank(m, row)
        m[at.SPAD_WRITTEN] |= 1 << m[at.EX_WRITE_BANK]


@compiled
def product_in_progress(m: Int64) -> bool:
    """Whether a product that some command waits for is on its way."""
    for place in range(at.TAGS_LENGTH):
        if m[at.TAGS + at.HEADER + place * 5 + at.G_SLOT] != NO_SLOT:
            return True
    return False


@compiled
def is_being_computed(m: Int64, word: int) -> bool:
    """Whether a product on its way writes this address."""
    mask = 1 << 31 | (1 << 26) - 1
    for place in range(at.TAGS_LENGTH):
        address = m[at.TAGS + at.HEADER + place * 5 + at.G_ADDRESS]
        if not is_garbage(address) and (address ^ word) & mask == 0:
            return True
    return False


@compiled
def _start(m: Int64, flush: int, rows: int) -> None:
    m[at.MESH_VALID], m[at.MESH_FLUSH], m[at.MESH_ROWS] = 1, flush, rows
    m[at.MESH_ID] = 0 if m[at.MESH_ID] == IDS - 1 else m[at.MESH_ID] + 1
    m[at.CHANGED] = 1


@compiled
def _tag(m: Int64, control: int, now: int) -> None:
    """Remember whose result the product after this one is (the one after that if output stationary)."""
    identity = m[at.MESH_ID]
    slot = put(m, at.TAGS, now)
    m[slot + at.G_ID] = (identity + (2 if m[control + at.K_WS] else 3)) % IDS
    m[slot + at.G_SLOT], m[slot + at.G_ADDRESS] = m[control + at.K_SLOT], m[control + at.K_ADDRESS]
    m[slot + at.G_ROWS] = m[control + at.K_TAG_ROWS]
    size = put(m, at.ROWS_QUEUE, now)
    m[size + 1], m[size + 2] = (identity + 1) % IDS, m[control + at.K_ROWS]


@compiled
def _row_enters(m: Int64, now: int) -> tuple[bool, bool]:
    """Send a row that is complete into the array; whether one went, and whether it is the product's last."""
    complete = m[at.MESH_A] and m[at.MESH_B] and m[at.MESH_D]
    if not m[at.MESH_VALID] or not (complete or m[at.MESH_FLUSH]):
        return False, False
    last = m[at.MESH_FIRED] == m[at.MESH_ROWS] - 1
    out = put(m, at.OUTPUTS, now)
    m[out], m[out + 1], m[out + 2] = now + m[at.MESH_LATENCY], m[at.MESH_ID], last
    m[at.MESH_A] = m[at.MESH_B] = m[at.MESH_D] = 0
    m[at.MESH_FIRED] = 0 if last else m[at.MESH_FIRED] + 1
    return True, bool(last)


@compiled
def step_mesh(m: Int64, now: int, flushing: bool) -> tuple[bool, bool]:
    """Move rows into the mesh; whether it is asked for a product or a flush and takes it, and whether it would."""
    a_full, b_full, d_full = m[at.MESH_A], m[at.MESH_B], m[at.MESH_D]
    entered, last = _row_enters(m, now)
    room = has_room(m, at.TAGS, now) and has_room(m, at.ROWS_QUEUE, now)
    ready = (not m[at.MESH_VALID] or last) and room
    if last:
        m[at.MESH_FLUSH] = max(m[at.MESH_FLUSH] - 1, 0)
        m[at.MESH_VALID] = m[at.MESH_FLUSH] > 0
    if not offers(m, at.CONTROL, now):
        if flushing and ready:
            _start(m, 1, m[at.DIM])
        return flushing and ready, ready
    control = front(m, at.CONTROL)
    arrived = m[control] + 1 + m[at.SPAD_DELAY] <= now
    moves, reads = True, 0
    for operand in range(3):
        full = a_full
        if operand == 1:
            full = b_full
        elif operand == 2:
            full = d_full
        if not m[control + at.K_A + operand]:
            continue
        takes = not full or entered or ready
        bank = m[control + at.K_A_BANK + operand]
        fires = takes and (bank < 0 or arrived)
        if fires:
            m[at.MESH_A + operand] = 1
            m[at.CHANGED] = 1
            if bank >= 0:
                reads |= 1 << bank
        elif takes:
            moves = False
    any_fire = m[control + at.K_A] or m[control + at.K_B] or m[control + at.K_D]
    if m[control + at.K_FIRST] and not ready:
        moves = False
    asks = False
    if moves:
        asks = any_fire and ready
        if asks:
            _tag(m, control, now)
            _start(m, 0, m[control + at.K_ROWS])
        bank = 0
        while reads:
            m[at.EX_PIPE + bank] -= reads & 1
            reads >>= 1
            bank += 1
        take(m, at.CONTROL, now)
    return bool(asks), bool(ready)
