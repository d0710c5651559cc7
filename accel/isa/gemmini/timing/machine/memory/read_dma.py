"""Loads: the controller, the reader of rows and its packets (LoadController.scala, DMA.scala StreamReader)."""

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.stream.configuration_registers import load_configuration_of
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.memory.memory_port import READER, asks_page, send_beat
from accel.isa.gemmini.timing.machine.memory.trackers import add_command
from accel.isa.gemmini.timing.machine.queues import front, has_room, has_room_now, offers, put, take
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64


@compiled
def packet(address: int, left: int, bus: int, most: int) -> tuple[int, int]:
    """Size of the next request and how many of its bytes are wanted."""
    best, useful = bus, 0
    size = bus
    while size <= most:
        wanted = min(size - (address & size - 1), left)
        if wanted > useful:
            best, useful = size, wanted
        size *= 2
    return best, useful


@compiled
def step_reader_stages(m: Int64, now: int) -> bool:
    """Send the packet that is translated, or put it behind the next one; whether the first stage is free for a new one.

    A packet that cannot be sent goes back to the first stage, so packets can change places (DMA.scala ``retry_a``).
    """
    first, second = at.READ_TLB, at.READ_TRANSLATE
    hit = not asks_page(m, READER, m[first + at.P_ADDRESS])
    asked = m[first + at.P_VALID] and not hit
    retry = False
    address = source = nbytes = beats = 0
    if m[second + at.P_VALID]:
        m[at.CHANGED] = 1
        address, source = m[second + at.P_ADDRESS], m[second + at.P_SOURCE]
        nbytes, beats = m[second + at.P_BYTES], m[second + at.P_BEATS]
        if m[at.TLB_MISS + READER] or not has_room(m, at.READ_A, now):
            retry = True
        else:
            send_beat(m, at.READ_A, now, second, 0, 1, 0, beats)
    if m[first + at.P_VALID]:
        m[at.CHANGED] = 1
        for place in range(at.P_WIDTH):
            m[second + place] = m[first + place]
    else:
        m[second + at.P_VALID] = 0
    m[first + at.P_VALID] = retry
    if retry:
        m[first + at.P_ADDRESS], m[first + at.P_SOURCE] = address, source
        m[first + at.P_BYTES], m[first + at.P_BEATS] = nbytes, beats
    m[at.TLB_HIT + READER], m[at.TLB_ASKED + READER] = hit, asked
    m[at.TLB_ASKED_PAGE + READER] = m[second + at.P_ADDRESS] >> 12
    return not retry


@compiled
def step_packets(m: Int64, now: int, free: bool) -> None:
    """Cut the current row into packets, one a cycle, and take the next row when the last one is cut."""
    done = not m[at.ROW_ACTIVE]
    if m[at.ROW_ACTIVE] and free and m[at.XACTS_USED] + (m[at.XACT_FREED] == now) < m[at.READS]:
        row, requested = at.ROW, m[at.ROW_REQUESTED]
        address = m[row + at.Q_ADDRESS] + requested
        left = m[row + at.Q_COLUMNS] * (4 if m[row + at.Q_WIDE] else 1) - requested
        size, useful = packet(address, left, m[at.BUS], m[at.MAX_BYTES])
        source = m[at.XACT_FREE + m[at.XACTS_USED]]
        m[at.XACTS_USED] += 1
        xact = at.XACTS + source * at.X_WIDTH
        for place in range(at.Q_WIDTH):
            m[xact + place] = m[row + place]
        shift = m[at.DIM_SHIFT] + (2 if m[row + at.Q_WIDE] else 0)  # of the bytes of a row
        m[xact + at.X_SHIFT], m[xact + at.X_BYTES], m[xact + at.X_LENGTH] = address & size - 1, useful, size
        m[xact + at.X_OFFSET] = requested & (1 << shift) - 1
        m[xact + at.X_LOCAL] = m[row + at.Q_LOCAL] + m[row + at.Q_BLOCK] * (requested >> shift)
        stage = at.READ_TLB
        m[stage + at.P_VALID], m[stage + at.P_ADDRESS], m[stage + at.P_SOURCE] = 1, address & -size, source
        m[stage + at.P_BYTES], m[stage + at.P_BEATS] = useful, max(size // m[at.BUS], 1)
        m[at.ROW_REQUESTED] += useful
        m[at.CHANGED] = 1
        done = useful >= left
        if done:
            m[at.ROW_ACTIVE] = 0
    if done and offers(m, at.ROW_QUEUE, now):
        slot = front(m, at.ROW_QUEUE)
        for place in range(at.Q_WIDTH):
            m[at.ROW + place] = m[slot + place]
        m[at.ROW_ACTIVE], m[at.ROW_REQUESTED] = 1, 0
        take(m, at.ROW_QUEUE, now)


WAITING, BEGINNING, SENDING = range(3)  # states of the load and store controllers


@compiled
def _configure(m: Int64, command: int) -> None:
    rs1 = m[command + at.C_RS1]
    which = min(rs1 >> 3 & 3, 2)
    m[at.LD_STRIDE + which], m[at.LD_SCALE + which] = m[command + at.C_RS2], rs1 >> 32 & 0xFFFFFFFF
    m[at.LD_SHRINK + which], m[at.LD_BLOCK + which] = rs1 >> 2 & 1, rs1 >> 16 & 0xFFFF
    m[at.LD_PIXELS + which] = max(rs1 >> 8 & 0xFF, 1)


@compiled
def _send_row(m: Int64, now: int, command: int, which: int, row: int) -> bool:
    """Hand a row to the reader, or to the zero writer; whether it was taken."""
    rs1, rs2 = m[command + at.C_RS1], m[command + at.C_RS2]
    zeros = rs1 == 0
    if zeros:
        if m[at.ZERO_VALID]:
            return False
        slot = at.ZERO
        m[at.ZERO_VALID], m[at.ZERO_COLUMN] = 1, 0
        m[at.CHANGED] = 1
    else:
        if not has_room_now(m, at.ROW_QUEUE):
            return False
        slot = put(m, at.ROW_QUEUE, now)
    accumulator = rs2 >> 31 & 1
    m[slot + at.Q_TIME], m[slot + at.Q_ADDRESS] = now, rs1 + row * m[at.LD_STRIDE + which]
    m[slot + at.Q_LOCAL], m[slot + at.Q_COLUMNS] = (rs2 & rocc.LOAD_ROW) + row, rs2 >> 32 & 0xFFFF
    repeats = m[at.LD_STRIDE + which] == 0 and not zeros
    m[slot + at.Q_REPEATS] = (rs2 >> 48 & 0xFFFF) - 1 if repeats else 0
    m[slot + at.Q_PIXELS], m[slot + at.Q_SCALE] = m[at.LD_PIXELS + which], m[at.LD_SCALE + which]
    m[slot + at.Q_ACC] = accumulator | (rs2 >> 30 & 1) << 1
    m[slot + at.Q_WIDE] = accumulator and not m[at.LD_SHRINK + which]
    m[slot + at.Q_BLOCK], m[slot + at.Q_COMMAND] = m[at.LD_BLOCK + which], m[at.LD_COMMAND]
    return True


@compiled
def step_load_controller(m: Int64, now: int) -> None:
    """Take a command, and send its rows, one a cycle (LoadController.scala)."""
    if not offers(m, at.LOAD_QUEUE, now):
        return
    command = front(m, at.LOAD_QUEUE)
    if m[command + at.C_FUNCT] == rocc.CONFIG:
        _configure(m, command)
        take(m, at.LOAD_QUEUE, now)
        return
    which = load_configuration_of(m[command + at.C_FUNCT])
    rs2 = m[command + at.C_RS2]
    rows = max(rs2 >> 48 & 0xFFFF, 1)
    columns = rs2 >> 32 & 0xFFFF
    zeros = m[command + at.C_RS1] == 0
    read = 1 if m[at.LD_STRIDE + which] == 0 and not zeros else rows
    state = m[at.LD_STATE]
    if state == WAITING:
        if m[at.LOAD_TRACKED] >= m[at.LOAD_COMMANDS]:
            return
        wide = rs2 >> 31 & 1 and (zeros or not m[at.LD_SHRINK + which])
        nbytes = columns * read * (4 if wide else 1)
        m[at.LD_COMMAND] = add_command(m, at.LOAD_TRACKER, m[at.LOAD_COMMANDS], m[command + at.C_SLOT], nbytes, now)
        m[at.LOAD_TRACKED] += 1
        m[at.BEGUN + m[command + at.C_SLOT]] = now
        state = BEGINNING
        m[at.CHANGED] = 1
    sending = m[at.LD_STATE] == SENDING
    if sending and m[at.LD_ROW] == 0:
        take(m, at.LOAD_QUEUE, now)
        m[at.LD_STATE] = WAITING
        return
    m[at.LD_STATE] = state
    if columns == 0:  # nothing is read
        m[at.LD_STATE], m[at.LD_ROW] = SENDING, 0
        return
    if _send_row(m, now, command, which, m[at.LD_ROW]):
        m[at.CHANGED] = 1
        last = m[at.LD_ROW] == read - 1
        m[at.LD_ROW] = 0 if last else m[at.LD_ROW] + 1
        if sending and last:
            take(m, at.LOAD_QUEUE, now)
            m[at.LD_STATE] = WAITING
        else:
            m[at.LD_STATE] = SENDING
