"""The execute controller: commands, and rows of operands that are read for the mesh (ExecuteController.scala)."""

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.memory.load_data import spad_bank
from accel.isa.gemmini.timing.machine.memory.write_dma import taken_banks
from accel.isa.gemmini.timing.machine.mesh import (
    NO_SLOT,
    is_being_computed,
    is_garbage,
    product_in_progress,
)
from accel.isa.gemmini.timing.machine.queues import has_room_now, put
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64

WAITING, COMPUTING, FLUSH, FLUSHING = range(4)  # states
PRELOAD, PRODUCT_AND_PRELOAD, PRODUCT = range(3)  # what is being done
FEWEST_ROWS = 4  # of a product: its results must have been added before the next ones (ExecuteController.scala)


@compiled
def _command(m: Int64, place: int) -> int:
    position = m[at.EX_HEAD] + place
    if position >= m[at.EX_CAPACITY]:
        position -= m[at.EX_CAPACITY]
    return int(at.EX_QUEUE + position * at.E_WIDTH)


@compiled
def _computes(m: Int64, command: int) -> bool:
    return bool(
        m[command + at.E_FUNCT] == rocc.COMPUTE_PRELOADED or m[command + at.E_FUNCT] == rocc.COMPUTE_ACCUMULATED
    )


@compiled
def _pop(m: Int64, count: int) -> None:
    m[at.EX_HEAD] += count
    if m[at.EX_HEAD] >= m[at.EX_CAPACITY]:
        m[at.EX_HEAD] -= m[at.EX_CAPACITY]
    m[at.EX_COUNT] -= count
    m[at.CHANGED] = 1


@compiled
def _configure(m: Int64, rs1: int, rs2: int) -> None:
    if not rs1 >> 7 & 1:
        m[at.EX_WS], m[at.EX_A_TRANSPOSE], m[at.EX_B_TRANSPOSE] = rs1 >> 2 & 1, rs1 >> 8 & 1, rs1 >> 9 & 1
    m[at.EX_A_STRIDE], m[at.EX_C_STRIDE] = rs1 >> 16 & 0xFFFF, rs2 >> 48 & 0xFFFF


@compiled
def _begin(m: Int64, count: int) -> int:
    """What to do with the commands at hand, or -1: nothing."""
    head, second, third = _command(m, 0), _command(m, 1), _command(m, 2)
    if m[head + at.E_FUNCT] == rocc.PRELOAD and count > 1:
        busy = is_being_computed(m, m[head + at.E_RS1])
        if not (busy or is_being_computed(m, m[second + at.E_RS1]) or is_being_computed(m, m[second + at.E_RS2])):
            return PRELOAD
    if _computes(m, head):
        if count > 2 and m[second + at.E_FUNCT] == rocc.PRELOAD:
            busy = is_being_computed(m, m[second + at.E_RS1])
            if not (busy or is_being_computed(m, m[third + at.E_RS1]) or is_being_computed(m, m[third + at.E_RS2])):
                return PRODUCT_AND_PRELOAD
        return PRODUCT
    return -1


@compiled
def _one_ahead(mine: int, started: int, other: int, total: int) -> bool:
    return bool(started and mine == (0 if other + 1 == total else other + 1))


@compiled
def _choose_operands(m: Int64, mode: int, begins: bool) -> None:
    """Note which operands the commands at hand read, and how many rows."""
    weight_stationary = m[at.EX_WS]
    a_turned = m[at.EX_A_TRANSPOSE] if weight_stationary else not m[at.EX_A_TRANSPOSE]
    b_turned = not weight_stationary and m[at.EX_B_TRANSPOSE]
    d_turned = weight_stationary and m[at.EX_B_TRANSPOSE]
    first = m[_command(m, 0) + at.E_FUNCT] == rocc.PRELOAD
    preload = _command(m, 0 if first else 1)
    a_command = _command(m, 1 if first else (2 if a_turned else 0))
    b_command = _command(m, 1 if first else (2 if b_turned else 0))
    in_a, in_b, in_d = True, True, True
    if mode == PRELOAD:
        in_a, in_b = a_turned, b_turned
    elif mode == PRODUCT:
        in_a, in_d = not a_turned, False
        in_b = begins or not b_turned
    a_word, b_word, d_word = m[a_command + at.E_RS1], m[b_command + at.E_RS2], m[preload + at.E_RS1]
    a_none, b_none, d_none = is_garbage(a_word), is_garbage(b_word), is_garbage(d_word)
    m[at.EX_READS_A], m[at.EX_READS_B] = in_a and not a_none, in_b and not b_none
    m[at.EX_READS_D] = in_d and not d_none
    m[at.EX_A_ROW], m[at.EX_B_ROW] = a_word & rocc.LOAD_ROW, b_word & rocc.LOAD_ROW
    m[at.EX_D_ROW] = d_word & rocc.LOAD_ROW
    m[at.EX_A_ROWS] = a_word >> (32 if m[at.EX_A_TRANSPOSE] else 48) & 0xFFFF
    m[at.EX_B_ROWS] = b_word >> (32 if b_turned else 48) & 0xFFFF
    m[at.EX_D_ROWS] = d_word >> (32 if d_turned else 48) & 0xFFFF
    total = m[at.DIM]
    if weight_stationary and not m[at.EX_READS_D] and not a_turned and not d_turned:
        a_rows = m[at.EX_A_ROWS] if m[at.EX_READS_A] else 1
        b_rows = m[at.EX_B_ROWS] if m[at.EX_READS_B] else 1
        total = max(a_rows, b_rows, FEWEST_ROWS)
    m[at.EX_TOTAL] = total
    c_word = m[preload + at.E_RS2]
    m[at.EX_TAG_SLOT] = NO_SLOT if is_garbage(c_word) or mode == PRODUCT else m[preload + at.E_SLOT]
    m[at.EX_TAG_ADDRESS] = rocc.GARBAGE if mode == PRODUCT else c_word & 0xFFFFFFFF
    m[at.EX_TAG_ROWS] = c_word >> 48 & 0xFFFF


@compiled
def _fire(m: Int64, row: int, total: int, place: int, bank: int) -> None:
    """Send the next of an operand's rows; ``place`` gets the bank that it is read from, -1: it is not read."""
    m[row] = 0 if m[row] + 1 == total else m[row] + 1
    m[place] = bank
    if bank >= 0:
        m[at.PENDING_EX] |= 1 << bank


@compiled
def _read_rows(m: Int64, now: int) -> bool:
    """Read a row of each operand, where banks allow it; whether these were the last ones."""
    if not has_room_now(m, at.CONTROL):
        return False
    total, dim = m[at.EX_TOTAL], m[at.DIM]
    a, b, d, started = m[at.EX_A], m[at.EX_B], m[at.EX_D], m[at.EX_STARTED]
    read_a = m[at.EX_READS_A] and a < m[at.EX_A_ROWS]
    read_b = m[at.EX_READS_B] and b < m[at.EX_B_ROWS]
    read_d = m[at.EX_READS_D] and dim - 1 - d < m[at.EX_D_ROWS]
    a_bank = b_bank = d_bank = -1
    if m[at.EX_READS_A]:
        a_bank = spad_bank(m, m[at.EX_A_ROW] + a * m[at.EX_A_STRIDE])
    if m[at.EX_READS_B]:
        b_bank = spad_bank(m, m[at.EX_B_ROW] + b)
    if m[at.EX_READS_D]:
        d_bank = spad_bank(m, m[at.EX_D_ROW] + dim - 1 - d)
    a_started, b_started, d_started = started & 1, started >> 1 & 1, started >> 2 & 1
    a_fire = b_fire = d_fire = True
    if a != b or a != d:  # none may be ahead of another by more than a row
        a_fire = not (_one_ahead(a, a_started, b, total) or _one_ahead(a, a_started, d, total))
        b_fire = not (_one_ahead(b, b_started, a, total) or _one_ahead(b, b_started, d, total))
        d_fire = not (_one_ahead(d, d_started, a, total) or _one_ahead(d, d_started, b, total))
    # of those that read one bank, A goes before B before D
    if b_bank >= 0 and a_bank == b_bank and a == b and a_started == b_started:
        b_fire = False
    if d_bank >= 0 and d == a and a_bank == d_bank and a_started == d_started:
        d_fire = False
    if d_bank >= 0 and d == b and b_bank == d_bank and b_started == d_started:
        d_fire = False
    taken = taken_banks(m)
    if read_a and taken >> a_bank & 1:
        a_fire = False
    if read_b and taken >> b_bank & 1:
        b_fire = False
    if read_d and taken >> d_bank & 1:
        d_fire = False
    slot = put(m, at.CONTROL, now)
    m[slot + at.K_A], m[slot + at.K_B], m[slot + at.K_D] = a_fire, b_fire, d_fire
    m[slot + at.K_FIRST], m[slot + at.K_ROWS], m[slot + at.K_WS] = started == 0, total, m[at.EX_WS]
    m[slot + at.K_A_BANK] = m[slot + at.K_B_BANK] = m[slot + at.K_D_BANK] = -1
    m[slot + at.K_SLOT], m[slot + at.K_ADDRESS] = m[at.EX_TAG_SLOT], m[at.EX_TAG_ADDRESS]
    m[slot + at.K_TAG_ROWS] = m[at.EX_TAG_ROWS]
    ends = (a == 0 or (a == total - 1 and a_fire)) and (b == 0 or (b == total - 1 and b_fire))
    ends = ends and (d == 0 or (d == total - 1 and d_fire)) and started != 0
    if a_fire:
        _fire(m, at.EX_A, total, slot + at.K_A_BANK, a_bank if read_a else -1)
        started |= 1
    if b_fire:
        _fire(m, at.EX_B, total, slot + at.K_B_BANK, b_bank if read_b else -1)
        started |= 2
    if d_fire:
        _fire(m, at.EX_D, total, slot + at.K_D_BANK, d_bank if read_d else -1)
        started |= 4
    m[at.EX_STARTED] = 0 if ends else started
    return bool(ends)


@compiled
def _finish(m: Int64, mode: int) -> None:
    """Drop the commands that are done; those without a result are complete next."""
    head = _command(m, 0)
    slot = m[head + at.E_SLOT]
    if mode == PRELOAD:
        m[at.EX_PENDING] = slot if is_garbage(m[head + at.E_RS2]) else NO_SLOT
        _pop(m, 1)
    elif mode == PRODUCT_AND_PRELOAD:
        second = _command(m, 1)
        m[at.EX_PENDING] = slot
        m[at.EX_PENDING + 1] = m[second + at.E_SLOT] if is_garbage(m[second + at.E_RS2]) else NO_SLOT
        _pop(m, 2)
    else:
        m[at.EX_PENDING] = slot
        _pop(m, 1)


@compiled
def _note_begun(m: Int64, command: int, now: int) -> None:
    if m[command + at.E_SLOT] != NO_SLOT:
        m[at.BEGUN + at.MOST_ENTRIES + m[command + at.E_SLOT]] = now


@compiled
def step_execute(m: Int64, now: int, mesh_took: bool, mesh_ready: bool) -> None:
    """Move the execute controller one cycle on; ``EX_DONE`` becomes what completes, if the mesh completes nothing."""
    pending_first, pending_second = m[at.EX_PENDING], m[at.EX_PENDING + 1]
    if m[at.EX_DONE] == NO_SLOT:
        if pending_first != NO_SLOT:
            m[at.EX_DONE], m[at.EX_PENDING] = pending_first, NO_SLOT
        elif pending_second != NO_SLOT:
            m[at.EX_DONE], m[at.EX_PENDING + 1] = pending_second, NO_SLOT
    state = m[at.EX_STATE]
    if state == FLUSH:
        if mesh_took:
            m[at.EX_STATE] = FLUSHING
            m[at.CHANGED] = 1
    elif state == FLUSHING:
        if mesh_ready:
            m[at.EX_STATE] = WAITING
            m[at.CHANGED] = 1
    elif state == COMPUTING:
        if m[at.EX_MODE] == PRODUCT and not m[at.EX_WS]:
            _choose_operands(m, PRODUCT, False)
        if _read_rows(m, now):
            _finish(m, m[at.EX_MODE])
            m[at.EX_STATE] = WAITING
    else:
        m[at.EX_A] = m[at.EX_B] = m[at.EX_D] = 0
        count = m[at.EX_COUNT]
        if count == 0:
            if not m[at.EX_WS] and product_in_progress(m):
                m[at.EX_STATE] = FLUSH
                m[at.CHANGED] = 1
            return
        head = _command(m, 0)
        if m[head + at.E_FUNCT] == rocc.CONFIG:
            if product_in_progress(m):
                m[at.EX_STATE] = FLUSH
                m[at.CHANGED] = 1
            elif pending_first == NO_SLOT and pending_second == NO_SLOT:
                _configure(m, m[head + at.E_RS1], m[head + at.E_RS2])
                m[at.EX_DONE] = m[head + at.E_SLOT]
                _note_begun(m, head, now)
                _pop(m, 1)
            return
        mode = _begin(m, count)
        if mode >= 0:
            m[at.EX_MODE], m[at.EX_STATE] = mode, COMPUTING
            m[at.CHANGED] = 1
            _note_begun(m, head, now)
            if mode == PRODUCT_AND_PRELOAD:
                _note_begun(m, _command(m, 1), now)
            _choose_operands(m, mode, True)
            _read_rows(m, now)
        elif not m[at.EX_WS] and product_in_progress(m):
            m[at.EX_STATE] = FLUSH
            m[at.CHANGED] = 1


@compiled
def _queue_command(m: Int64, row: int, funct: int, rs1: int, rs2: int, slot: int) -> None:
    command = _command(m, m[at.EX_COUNT])
    m[command + at.E_ROW], m[command + at.E_FUNCT], m[command + at.E_SLOT] = row, funct, slot
    m[command + at.E_RS1], m[command + at.E_RS2] = rs1, rs2
    m[at.EX_COUNT] += 1
    m[at.CHANGED] = 1


@compiled
def step_unroll_preloads(m: Int64, room: bool) -> None:
    """Pass a command on; a preload of transposed weights becomes three commands (TransposePreloadUnroller.scala)."""
    count = m[at.UNROLL_COUNT]
    if count == 0 or not room:
        return
    head = at.UNROLL + m[at.UNROLL_HEAD] * at.E_WIDTH
    second = at.UNROLL + (1 - m[at.UNROLL_HEAD]) * at.E_WIDTH
    funct, rs1, rs2 = m[head + at.E_FUNCT], m[head + at.E_RS1], m[head + at.E_RS2]
    state, row, slot = m[at.UNROLL_STATE], m[head + at.E_ROW], m[head + at.E_SLOT]
    if state == 1:
        _queue_command(m, row, rocc.COMPUTE_ACCUMULATED, m[second + at.E_RS1], m[second + at.E_RS2], NO_SLOT)
        m[at.UNROLL_STATE] = 2
        return
    if state == 2:
        _queue_command(m, row, funct, rs1 & ~0xFFFFFFFF | rocc.GARBAGE, rs2, slot)
        m[at.UNROLL_STATE] = 0
    elif funct == rocc.PRELOAD and m[at.UNROLL_TRANSPOSED]:
        if count < 2:
            return
        if m[second + at.E_FUNCT] == rocc.COMPUTE_PRELOADED:
            _queue_command(m, row, funct, rs1, rs2 & ~0xFFFFFFFF | rocc.GARBAGE, NO_SLOT)
            m[at.UNROLL_STATE] = 1
            return
        _queue_command(m, row, funct, rs1, rs2, slot)
    else:
        _queue_command(m, row, funct, rs1, rs2, slot)
        if funct == rocc.CONFIG and not rs1 >> 7 & 1:
            m[at.UNROLL_TRANSPOSED] = rs1 >> 2 & 1 and rs1 >> 9 & 1
    m[at.UNROLL_HEAD] = 1 - m[at.UNROLL_HEAD]
    m[at.UNROLL_COUNT] -= 1
