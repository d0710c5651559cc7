"""The store controller: a command's rows, blocks and windows, one a cycle (StoreController.scala)."""

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import STATISTICS
from accel.isa.gemmini.stream.configuration_registers import before_the_last
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.memory.read_dma import BEGINNING, SENDING, WAITING
from accel.isa.gemmini.timing.machine.memory.trackers import add_command
from accel.isa.gemmini.timing.machine.queues import front, has_room, offers, put, take
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64


@compiled
def _configure(m: Int64, rs1: int, rs2: int) -> None:
    if rs1 & 3 == rocc.CONFIG_NORM:
        m[at.ST_STATISTICS] = rs1 >> 8 & STATISTICS - 1
    if rs1 & 3 != rocc.CONFIG_ST:
        return
    m[at.ST_STRIDE] = rs2 & 0xFFFFFFFF
    m[at.ST_POOL_SIZE], m[at.ST_POOL_STRIDE] = rs1 >> 6 & 3, rs1 >> 4 & 3
    if m[at.ST_POOL_STRIDE]:
        m[at.ST_UPAD], m[at.ST_LPAD] = rs1 >> 8 & 3, rs1 >> 10 & 3
        m[at.ST_OUT_DIM], m[at.ST_POROWS], m[at.ST_POCOLS] = rs1 >> 24 & 0xFF, rs1 >> 32 & 0xFF, rs1 >> 40 & 0xFF
        m[at.ST_OROWS], m[at.ST_OCOLS] = rs1 >> 48 & 0xFF, rs1 >> 56 & 0xFF


@compiled
def _row_of(m: Int64, slot: int, command: int, address: int, local: int, last_block: bool) -> None:
    rs2 = m[command + at.C_RS2]
    columns, dim = rs2 >> 32 & 0xFFFF, m[at.DIM]
    length = (columns - 1 & dim - 1) + 1 if last_block else dim
    accumulator = rs2 >> 31 & 1
    full = accumulator and rs2 >> 29 & 1
    m[slot + at.W_ADDRESS], m[slot + at.W_LOCAL] = address, local
    m[slot + at.W_BYTES], m[slot + at.W_COMMAND] = length * (4 if full else 1), m[at.ST_COMMAND]
    m[slot + at.W_KIND] = at.W_ACC if accumulator else at.W_SPAD
    m[slot + at.W_NORM], m[slot + at.W_STATISTICS] = rocc.RESET, m[at.ST_STATISTICS]
    if local < 0:
        m[slot + at.W_KIND] = at.W_GARBAGE


@compiled
def _send_window(m: Int64, slot: int, command: int) -> bool:
    """Send an element of a pooling window; whether it is the command's last."""
    rs2, address = m[command + at.C_RS2], m[command + at.C_RS1]
    size, stride = m[at.ST_POOL_SIZE], m[at.ST_POOL_STRIDE]
    row = m[at.ST_POOL_ROW] * stride + m[at.ST_WINDOW_ROW] - m[at.ST_UPAD]
    column = m[at.ST_POOL_COL] * stride + m[at.ST_WINDOW_COL] - m[at.ST_LPAD]
    local = (rs2 & rocc.STORE_ROW) + row * m[at.ST_OCOLS] + column
    if row < 0 or column < 0 or row >= m[at.ST_OROWS] or column >= m[at.ST_OCOLS]:
        local = -1
    place = m[at.ST_POOL_ROW] * m[at.ST_OUT_DIM] + m[at.ST_POOL_COL]
    _row_of(m, slot, command, address + place * m[at.ST_STRIDE], local, True)
    window_ends = m[at.ST_WINDOW_ROW] == size - 1 and m[at.ST_WINDOW_COL] == size - 1
    m[slot + at.W_BLOCK], m[slot + at.W_STORE] = 0, window_ends
    last = window_ends and m[at.ST_POOL_ROW] == m[at.ST_POROWS] - 1 and m[at.ST_POOL_COL] == m[at.ST_POCOLS] - 1
    m[at.ST_WINDOW_COL] += 1
    if m[at.ST_WINDOW_COL] >= size:
        m[at.ST_WINDOW_COL] = 0
        m[at.ST_WINDOW_ROW] += 1
        if m[at.ST_WINDOW_ROW] >= size:
            m[at.ST_WINDOW_ROW] = 0
            m[at.ST_POOL_COL] += 1
            if m[at.ST_POOL_COL] >= m[at.ST_POCOLS]:
                m[at.ST_POOL_COL] = 0
                m[at.ST_POOL_ROW] += 1
    if last:
        m[at.ST_POOL_ROW] = 0
    return bool(last)


@compiled
def _send_block(m: Int64, slot: int, command: int, rows: int, blocks: int) -> bool:
    """Send a block of a row; whether it is the command's last."""
    rs2 = m[command + at.C_RS2]
    row, block = m[at.ST_ROW], m[at.ST_BLOCK_COUNT]
    local = (rs2 & rocc.STORE_ROW) + block * m[at.DIM] + row
    _row_of(m, slot, command, m[command + at.C_RS1] + row * m[at.ST_STRIDE], local, block == blocks - 1)
    m[slot + at.W_BLOCK] = block
    statistic = rs2 >> 26 & 7 if rs2 >> 31 & 1 else rocc.RESET
    m[slot + at.W_STORE] = block == blocks - 1 and statistic == rocc.RESET  # it is not written
    if m[at.NORMALISES]:
        m[slot + at.W_NORM] = statistic if block == blocks - 1 else before_the_last(statistic)
    m[at.ST_BLOCK_COUNT] += 1
    if m[at.ST_BLOCK_COUNT] == blocks:
        m[at.ST_BLOCK_COUNT] = 0
        m[at.ST_ROW] += 1
    last = m[at.ST_ROW] == rows
    if last:
        m[at.ST_ROW] = 0
    return bool(last)


@compiled
def step_store_controller(m: Int64, now: int) -> None:
    """Take a command, and send its rows to be read, one a cycle."""
    if not offers(m, at.STORE_QUEUE, now):
        return
    command = front(m, at.STORE_QUEUE)
    if m[command + at.C_FUNCT] == rocc.CONFIG:
        _configure(m, m[command + at.C_RS1], m[command + at.C_RS2])
        take(m, at.STORE_QUEUE, now)
        return
    rs2 = m[command + at.C_RS2]
    rows, columns = max(rs2 >> 48 & 0xFFFF, 1), max(rs2 >> 32 & 0xFFFF, 1)
    blocks = columns + m[at.DIM] - 1 >> m[at.DIM_SHIFT]
    pooling = m[at.ST_POOL_STRIDE] != 0
    state = m[at.ST_STATE]
    if state == WAITING:
        if m[at.STORE_TRACKED] >= m[at.STORE_COMMANDS]:
            return
        count = rows * blocks
        if pooling:
            count = max(m[at.ST_POROWS] * m[at.ST_POCOLS] * m[at.ST_POOL_SIZE] * m[at.ST_POOL_SIZE], 1)
        m[at.ST_COMMAND] = add_command(m, at.STORE_TRACKER, m[at.STORE_COMMANDS], m[command + at.C_SLOT], count, now)
        m[at.STORE_TRACKED] += 1
        m[at.BEGUN + 2 * at.MOST_ENTRIES + m[command + at.C_SLOT]] = now
        m[at.ST_STATE] = BEGINNING
        m[at.CHANGED] = 1
    sending = state == SENDING
    at_start = m[at.ST_ROW] == 0 and m[at.ST_BLOCK_COUNT] == 0
    if pooling:
        at_start = m[at.ST_POOL_ROW] == 0 and m[at.ST_POOL_COL] == 0
        at_start = at_start and m[at.ST_WINDOW_ROW] == 0 and m[at.ST_WINDOW_COL] == 0
    if sending and at_start:
        take(m, at.STORE_QUEUE, now)
        m[at.ST_STATE] = WAITING
        return
    if not has_room(m, at.DISPATCH, now):
        return
    slot = put(m, at.DISPATCH, now)
    last = _send_window(m, slot, command) if pooling else _send_block(m, slot, command, rows, blocks)
    m[at.ST_STATE] = SENDING
    if sending and last:
        take(m, at.STORE_QUEUE, now)
        m[at.ST_STATE] = WAITING
