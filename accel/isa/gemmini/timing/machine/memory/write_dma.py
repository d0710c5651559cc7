"""Stores: the writer and its packets, and the rows on their way to it (DMA.scala StreamWriter, Scratchpad.scala)."""

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.memory.load_data import acc_bank, acc_row, is_being_written, spad_bank
from accel.isa.gemmini.timing.machine.memory.memory_port import PAGE_BITS, WRITER, asks_page, send_beat
from accel.isa.gemmini.timing.machine.memory.normaliser import give_row, take_row, takes_row
from accel.isa.gemmini.timing.machine.memory.read_dma import packet
from accel.isa.gemmini.timing.machine.memory.trackers import returned
from accel.isa.gemmini.timing.machine.queues import front, has_room, has_room_now, offers, put, take
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64

IDLE, NEW_PACKET, BEATS = range(3)  # states of the writer


@compiled
def _move_stage(m: Int64, source: int, target: int) -> None:
    for place in range(at.P_WIDTH):
        m[target + place] = m[source + place]
    m[target + at.P_VALID] = 1


@compiled
def step_writer_stages(m: Int64, now: int) -> bool:
    """Send the beat that is translated; whether the first stage takes a new one.

    A beat whose page is refused goes back to the first stage, and the one there aside (DMA.scala ``shadow_retry_a``).
    """
    first, second, aside = at.WRITE_TLB, at.WRITE_TRANSLATE, at.WRITE_SHADOW
    hit = not asks_page(m, WRITER, m[first + at.P_ADDRESS])
    page = m[first + at.P_ADDRESS] >> PAGE_BITS
    set_aside = m[aside + at.P_VALID]
    miss, retry, left = m[at.TLB_MISS + WRITER], False, True
    address = source = nbytes = beat = beats = 0
    if m[second + at.P_VALID]:
        address, source, nbytes = m[second + at.P_ADDRESS], m[second + at.P_SOURCE], m[second + at.P_BYTES]
        beat, beats = m[second + at.P_BEAT], m[second + at.P_BEATS]
        if miss:
            retry = True
            m[at.CHANGED] = 1
        elif has_room(m, at.WRITE_A, now):
            send_beat(m, at.WRITE_A, now, second, 1, beats, beat, 1)
        else:
            left = False
    moves = m[first + at.P_VALID] and left
    if moves:
        _move_stage(m, first, aside if retry else second)
        m[at.CHANGED] = 1
    if left and not (moves and not retry):
        m[second + at.P_VALID] = 0
    free = left or not m[first + at.P_VALID]
    if moves:
        m[first + at.P_VALID] = 0
    if retry:
        m[first + at.P_VALID], m[first + at.P_ADDRESS], m[first + at.P_SOURCE] = 1, address, source
        m[first + at.P_BYTES], m[first + at.P_BEAT], m[first + at.P_BEATS] = nbytes, beat, beats
    elif set_aside and free:
        _move_stage(m, aside, first)
        m[aside + at.P_VALID] = 0
        m[at.CHANGED] = 1
    m[at.TLB_HIT + WRITER], m[at.TLB_ASKED + WRITER] = hit, moves and not hit
    m[at.TLB_ASKED_PAGE + WRITER] = page
    return bool(free and not retry and not set_aside)


@compiled
def step_writer(m: Int64, now: int, free: bool) -> bool:
    """Send a beat of the row that is written, and take an acknowledgement; whether the writer takes another row."""
    full = m[at.WR_BUSY] >= m[at.WRITES]
    if offers(m, at.WRITE_D, now):
        take(m, at.WRITE_D, now)
        m[at.WR_BUSY] -= 1
    if m[at.WR_STATE] == IDLE:
        return True
    if full or not free:
        return False
    stage = at.WRITE_TLB
    m[at.CHANGED] = 1
    if m[at.WR_STATE] == NEW_PACKET:
        size, useful = packet(m[at.WR_ADDRESS], m[at.WR_LEFT], m[at.BUS], m[at.MAX_BYTES])
        m[at.WR_PACKET_ADDRESS], m[at.WR_BEATS] = m[at.WR_ADDRESS] & -size, max(size // m[at.BUS], 1)
        m[at.WR_BEATS_LEFT] = m[at.WR_BEATS]
        m[at.WR_PACKET_BYTES] = useful
        m[at.WR_ADDRESS] += useful
        m[at.WR_LEFT] -= useful
        m[at.WR_BUSY] += 1
        m[at.WR_STATE] = BEATS
    m[stage + at.P_VALID], m[stage + at.P_ADDRESS] = 1, m[at.WR_PACKET_ADDRESS]
    m[stage + at.P_BYTES] = m[at.WR_PACKET_BYTES]
    m[stage + at.P_BEAT], m[stage + at.P_BEATS] = m[at.WR_BEATS] - m[at.WR_BEATS_LEFT], m[at.WR_BEATS]
    m[at.WR_BEATS_LEFT] -= 1
    if m[at.WR_BEATS_LEFT]:
        return False
    m[at.WR_STATE] = NEW_PACKET if m[at.WR_LEFT] > 0 else IDLE
    return bool(m[at.WR_LEFT] <= 0)


@compiled
def _data_ready(m: Int64, row: int, now: int) -> int:
    """The queue whose data belong to the next row, if they are there; 0 where no data are needed; -1 if not there."""
    kind = m[row + at.W_KIND]
    if kind == at.W_GARBAGE:
        return 0
    pipe, delay = at.ACC_SCALE_PIPE, m[at.ACC_SCALE]
    if kind == at.W_SPAD:
        pipe, delay = at.DMA_PIPES + spad_bank(m, m[row + at.W_LOCAL]) * at.DMA_PIPE, m[at.SPAD_DELAY]
    return int(pipe) if m[pipe + 1] and m[front(m, pipe)] + delay <= now else -1


@compiled
def step_rows_out(m: Int64, now: int, writer_free: bool) -> None:
    """Move rows that were read towards the writer."""
    if writer_free and offers(m, at.ISSUE, now):
        row = front(m, at.ISSUE)
        pipe = _data_ready(m, row, now)
        if pipe >= 0:
            if pipe:
                take(m, pipe, now)
            m[at.WR_ADDRESS] = m[row + at.W_ADDRESS]
            m[at.WR_LEFT] = m[row + at.W_BLOCK] * m[at.DIM] + m[row + at.W_BYTES]
            m[at.WR_STATE] = NEW_PACKET if m[row + at.W_STORE] else IDLE
            take(m, at.ISSUE, now)
    if offers(m, at.SCALE, now) and has_room_now(m, at.ISSUE):
        row = front(m, at.SCALE)
        moves = m[row + at.W_KIND] != at.W_ACC
        if not moves and has_room_now(m, at.ACC_SCALE_PIPE) and give_row(m, now):
            put(m, at.ACC_SCALE_PIPE, now)
            moves = True
        if moves:
            _copy_row(m, row, put(m, at.ISSUE, now))
            take(m, at.SCALE, now)
    arrived = m[at.ACC_PENDING] | m[at.ACC_HELD]
    if offers(m, at.NORM, now) and has_room(m, at.SCALE, now):
        row = front(m, at.NORM)
        moves = m[row + at.W_KIND] != at.W_ACC
        if not moves:
            bit = 1 << acc_bank(m, acc_row(m, m[row + at.W_LOCAL]))
            if arrived & bit and takes_row(m, row, now):
                take_row(m, row, now)
                arrived &= ~bit
                moves = True
        if moves:
            if m[row + at.W_NORM] == rocc.RESET:
                _copy_row(m, row, put(m, at.SCALE, now))
            take(m, at.NORM, now)
    m[at.ACC_HELD], m[at.ACC_PENDING] = arrived, 0


@compiled
def _copy_row(m: Int64, source: int, target: int) -> None:
    for place in range(1, at.W_WIDTH):
        m[target + place] = m[source + place]


@compiled
def settle_banks(m: Int64, now: int) -> None:
    """Move what banks of the scratchpad have read into the pipelines behind them, or keep it where these are full."""
    kept_dma, kept_ex = m[at.HELD_DMA] | m[at.PENDING_DMA], m[at.HELD_EX] | m[at.PENDING_EX]
    m[at.PENDING_DMA] = m[at.PENDING_EX] = 0
    left, bank = kept_dma | kept_ex, 0
    while left:
        if left & 1:
            pipe, bit = at.DMA_PIPES + bank * at.DMA_PIPE, 1 << bank
            if kept_dma & bit and has_room_now(m, pipe):
                put(m, pipe, now)
                kept_dma &= ~bit
            if kept_ex & bit and m[at.EX_PIPE + bank] < m[at.SPAD_DELAY]:
                m[at.EX_PIPE + bank] += 1
                kept_ex &= ~bit
                m[at.CHANGED] = 1
        left >>= 1
        bank += 1
    m[at.HELD_DMA], m[at.HELD_EX] = kept_dma, kept_ex


@compiled
def taken_banks(m: Int64) -> int:
    """The banks of the scratchpad that cannot be read, as bits: they are written, or something is kept behind them."""
    return int(m[at.HELD_DMA] | m[at.HELD_EX] | m[at.SPAD_WRITTEN] | m[at.PENDING_EX] | m[at.PENDING_DMA])


@compiled
def step_dispatch(m: Int64, now: int) -> None:
    """Read the next row that is stored from its bank; the mesh, and what is written there, go first."""
    if not offers(m, at.DISPATCH, now) or not has_room(m, at.NORM, now):
        return
    row = front(m, at.DISPATCH)
    kind, local = m[row + at.W_KIND], m[row + at.W_LOCAL]
    if kind == at.W_SPAD:
        bank = spad_bank(m, local)
        if taken_banks(m) >> bank & 1:
            return
        m[at.PENDING_DMA] |= 1 << bank
    elif kind == at.W_ACC:
        local = acc_row(m, local)
        bank = acc_bank(m, local)
        if (m[at.ACC_HELD] | m[at.ACC_ADDING]) >> bank & 1:
            return
        if is_being_written(m, bank, local, now):
            return
        m[at.ACC_PENDING] |= 1 << bank
    _copy_row(m, row, put(m, at.NORM, now))
    returned(m, at.STORE_TRACKER, m[row + at.W_COMMAND], 1, now)
    take(m, at.DISPATCH, now)
