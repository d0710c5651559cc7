"""What loads bring: beats merged into rows, scaled, repeated, written into the banks.

BeatMerger.scala, VectorScalarMultiplier.scala, PixelRepeater.scala, ZeroWriter.scala, and the writes of
Scratchpad.scala: the mesh's results go first, then scaled rows, then unscaled ones of the accumulator, then zeros.
"""

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.memory.trackers import returned
from accel.isa.gemmini.timing.machine.queues import front, offers, take
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64

SPAD, ACCUMULATOR = 1, 2  # what the mesh writes
_NEVER = 1 << 60


@compiled
def note_accumulator_write(m: Int64, bank: int, row: int, now: int) -> None:
    """Note a write into a bank of the accumulator, which takes some cycles (AccumulatorMem.scala)."""
    place = at.ACC_WRITES + (bank * 16 + (now & 15)) * 2
    m[place], m[place + 1] = now, row


@compiled
def is_being_written(m: Int64, bank: int, row: int, now: int) -> bool:
    """Whether a row of the accumulator was written in one of the last cycles."""
    for back in range(1, m[at.ACC_LATENCY] + 1):
        place = at.ACC_WRITES + (bank * 16 + (now - back & 15)) * 2
        if m[place + 1] == row and m[place] == now - back:
            return True
    return False


@compiled
def spad_bank(m: Int64, row: int) -> int:
    """The bank of a row of the scratchpad."""
    if not 0 <= row < m[at.SPAD_ROWS]:  # addresses wrap
        row %= m[at.SPAD_ROWS]
    shift = m[at.SPAD_BANK_SHIFT]
    return int(row >> shift if shift >= 0 else row // m[at.SPAD_BANK_ROWS])


@compiled
def acc_bank(m: Int64, row: int) -> int:
    """The bank of a row of the accumulator."""
    shift = m[at.ACC_BANK_SHIFT]
    return int(row >> shift if shift >= 0 else row // m[at.ACC_BANK_ROWS])


@compiled
def acc_row(m: Int64, row: int) -> int:
    """A row of the accumulator, whose addresses wrap."""
    return int(row if 0 <= row < m[at.ACC_ROWS] else row % m[at.ACC_ROWS])


@compiled
def _repeated_row(m: Int64, row: int) -> int:
    """The row that a pixel repeater writes now, or -1: repeats before a half's first row are left out."""
    place, less = m[row + at.R_LOCAL], m[row + at.R_PIXELS]
    if m[row + at.R_ACC] or less == 0:
        return int(place)
    floor = 0 if place < m[at.SPAD_ROWS] // 2 else m[at.SPAD_ROWS] // 2
    return int(place - less) if place - less >= floor else -1


@compiled
def _write_accumulator(m: Int64, row: int, adds: int, now: int) -> bool:
    """Write a row of a load, unless the mesh writes this bank, or the row it adds to is being written."""
    row = acc_row(m, row)
    bank = acc_bank(m, row)
    if m[at.EX_WRITES] == ACCUMULATOR and m[at.EX_WRITE_BANK] == bank:
        return False
    if adds:
        m[at.ACC_ADDING] |= 1 << bank
        if is_being_written(m, bank, row, now):
            return False
    note_accumulator_write(m, bank, row, now)
    return True


@compiled
def _write_spad(m: Int64, row: int) -> bool:
    """Write a row into the scratchpad, unless the mesh or another load writes this bank."""
    bank = spad_bank(m, row)
    taken = m[at.SPAD_WRITTEN] >> bank & 1
    m[at.SPAD_WRITTEN] |= 1 << bank
    return not taken


@compiled
def _note_written(m: Int64, row: int, left: int, now: int) -> bool:
    """Count a write of a row that is written ``left`` times more; whether it was the last."""
    m[at.CHANGED] = 1
    if m[row + left] > 0:
        m[row + left] -= 1
        return False
    if m[row + at.R_LAST]:
        returned(m, at.LOAD_TRACKER, m[row + at.R_COMMAND], m[row + at.R_BYTES], now)
    m[row + at.R_VALID] = 0
    return True


@compiled
def _step_repeater(m: Int64, now: int) -> bool:
    """Write what the scaled rows' repeater holds; whether it takes another row in this cycle."""
    row = at.REPEATER
    if not m[row + at.R_VALID]:
        return True
    place = _repeated_row(m, row)
    if place < 0:
        m[row + at.R_PIXELS] -= 1
        m[at.CHANGED] = 1
        return False
    if m[row + at.R_ACC]:
        written = _write_accumulator(m, place, m[row + at.R_ACCUMULATE], now)
    else:
        written = _write_spad(m, place)
    if not written:
        return False
    return _note_written(m, row, at.R_PIXELS, now)


@compiled
def _step_accumulator_rows(m: Int64, now: int, scaled: bool, spad_last: bool) -> bool:
    """Write an unscaled row of the accumulator; whether the next can follow.

    ``scaled``: a scaled row goes to the accumulator in this cycle, ``spad_last``: or one ends a request.
    """
    row = at.ACC_IN
    if not m[row + at.R_VALID]:
        return True
    place = m[row + at.R_LOCAL] + m[row + at.R_REPEATS]
    if scaled or spad_last or not _write_accumulator(m, place, m[row + at.R_ACCUMULATE], now):
        return False
    return _note_written(m, row, at.R_REPEATS, now)


@compiled
def _step_zero_repeater(m: Int64, now: int, others_last: bool, accumulating: bool) -> bool:
    """Write what the zeros' repeater holds, behind all others; whether it takes another row."""
    row = at.ZERO_REPEATER
    if not m[row + at.R_VALID]:
        return True
    place = _repeated_row(m, row)
    if place < 0:
        m[row + at.R_PIXELS] -= 1
        m[at.CHANGED] = 1
        return False
    if others_last:
        return False
    if m[row + at.R_ACC]:
        written = not accumulating and _write_accumulator(m, place, m[row + at.R_ACCUMULATE], now)
    else:
        written = _write_spad(m, place)
    if not written:
        return False
    return _note_written(m, row, at.R_PIXELS, now)


@compiled
def _step_zero_writer(m: Int64, repeater_free: bool) -> None:
    """Hand a block of zeros to the repeater (ZeroWriter.scala)."""
    if not m[at.ZERO_VALID] or not repeater_free:
        return
    row, zero = at.ZERO_REPEATER, at.ZERO
    columns, dim = m[zero + at.Q_COLUMNS], m[at.DIM]
    last = m[at.ZERO_COLUMN] + dim >= columns
    m[row + at.R_VALID], m[row + at.R_PIXELS] = 1, m[zero + at.Q_PIXELS] - 1
    m[row + at.R_LAST], m[row + at.R_COMMAND] = last, m[zero + at.Q_COMMAND]
    m[row + at.R_LOCAL] = m[zero + at.Q_LOCAL] + m[zero + at.Q_BLOCK] * (m[at.ZERO_COLUMN] >> m[at.DIM_SHIFT])
    m[row + at.R_ACC], m[row + at.R_ACCUMULATE] = m[zero + at.Q_ACC] & 1, m[zero + at.Q_ACC] >> 1
    if m[row + at.R_ACC]:
        m[row + at.R_PIXELS] = 0
    m[row + at.R_BYTES] = columns * (4 if m[zero + at.Q_ACC] & 1 else 1)
    m[at.ZERO_COLUMN] += dim
    if last:
        m[at.ZERO_VALID] = 0
    m[at.CHANGED] = 1


@compiled
def _grant_lane(m: Int64, now: int) -> None:
    """Each scale unit takes an element of a row in turn (VectorScalarMultiplier.scala, Chisel's RRArbiter).

    All units have as many elements of a row, and do the same; one stands for all.
    """
    lanes = m[at.DIM] // m[at.SCALE_UNITS]
    total = at.SCALE_STAGES * lanes
    for step in range(total):
        lane = m[at.SCALE_GRANT] + 1 + step
        if lane >= total:
            lane -= total
        entry = at.SCALE_REGS + lane // lanes * at.R_WIDTH
        bit = 1 << lane % lanes
        if m[entry + at.R_VALID] and not m[entry + at.R_FIRED] & bit:
            m[entry + at.R_FIRED] |= bit
            m[at.SCALE_GRANT] = lane
            if m[entry + at.R_FIRED] == (1 << lanes) - 1:
                m[entry + at.R_DONE] = now + m[at.MVIN_SCALE] + 2
                m[at.SCALE_BUSY] -= 1
            m[at.CHANGED] = 1
            return


@compiled
def _step_scale(m: Int64, now: int, repeater_free: bool) -> bool:
    """Move rows through the scale units; whether they take a row in this cycle."""
    freed = False
    if m[at.SCALE_COUNT] or m[at.SCALE_IN + at.R_VALID]:
        occupied = m[at.SCALE_COUNT]
        if m[at.SCALE_BUSY]:
            _grant_lane(m, now)
        head = at.SCALE_REGS + m[at.SCALE_HEAD] * at.R_WIDTH
        if m[at.SCALE_COUNT] and repeater_free and m[head + at.R_DONE] <= now:
            for place in range(at.R_WIDTH):
                m[at.REPEATER + place] = m[head + place]
            row = at.REPEATER
            m[row + at.R_LOCAL] += m[row + at.R_REPEATS]
            m[row + at.R_PIXELS] = 0 if m[row + at.R_ACC] else m[row + at.R_PIXELS] - 1
            m[row + at.R_LAST] = m[row + at.R_LAST] and m[row + at.R_REPEATS] == 0
            m[head + at.R_VALID] = 0
            m[at.SCALE_HEAD] = 0 if m[at.SCALE_HEAD] == at.SCALE_STAGES - 1 else m[at.SCALE_HEAD] + 1
            m[at.SCALE_COUNT] -= 1
            m[at.CHANGED] = 1
        source = at.SCALE_IN
        if m[source + at.R_VALID] and occupied < at.SCALE_STAGES:
            tail = at.SCALE_REGS + m[at.SCALE_TAIL] * at.R_WIDTH
            for place in range(at.R_WIDTH):
                m[tail + place] = m[source + place]
            m[tail + at.R_FIRED], m[tail + at.R_DONE] = 0, _NEVER
            if m[source + at.R_SCALED] and m[at.SCALE_UNITS] > 0:
                m[at.SCALE_BUSY] += 1
            else:
                m[tail + at.R_FIRED], m[tail + at.R_DONE] = -1, now + 1
            m[at.SCALE_TAIL] = 0 if m[at.SCALE_TAIL] == at.SCALE_STAGES - 1 else m[at.SCALE_TAIL] + 1
            m[at.SCALE_COUNT] += 1
            m[at.CHANGED] = 1
            freed = m[source + at.R_REPEATS] == 0
            m[source + at.R_REPEATS] -= 1
            if freed:
                m[source + at.R_VALID] = 0
    return freed or not m[at.SCALE_IN + at.R_VALID]


@compiled
def _step_merger(m: Int64, now: int, scale_free: bool, accumulator_free: bool) -> None:
    """Make rows of beats (BeatMerger.scala)."""
    x = at.MERGE
    valid, read, sent = m[at.MERGE_VALID], m[at.MERGE_READ], m[at.MERGE_SENT]
    last, fired, closed = False, False, False
    length = m[x + at.X_LENGTH]
    if valid:
        wanted = m[x + at.X_BYTES]
        row_bytes = m[at.DIM] * (4 if m[x + at.Q_WIDE] else 1)
        useful = min(max(read - m[x + at.X_SHIFT], 0), wanted)
        free = accumulator_free if m[x + at.Q_WIDE] else scale_free
        if useful > sent and (useful - sent >= row_bytes or useful == wanted) and free:
            offset = m[x + at.X_OFFSET]
            next_sent = min(sent + row_bytes - (offset if sent == 0 else 0), wanted)
            last, fired = next_sent == wanted, True
            row = at.ACC_IN if m[x + at.Q_WIDE] else at.SCALE_IN
            m[row + at.R_VALID], m[row + at.R_REPEATS] = 1, m[x + at.Q_REPEATS]
            m[row + at.R_PIXELS], m[row + at.R_LAST] = m[x + at.Q_PIXELS], last
            block = offset + sent >> m[at.DIM_SHIFT] + (2 if m[x + at.Q_WIDE] else 0)
            m[row + at.R_LOCAL] = m[x + at.X_LOCAL] + m[x + at.Q_BLOCK] * block
            m[row + at.R_ACC], m[row + at.R_ACCUMULATE] = m[x + at.Q_ACC] & 1, m[x + at.Q_ACC] >> 1
            m[row + at.R_COMMAND], m[row + at.R_BYTES] = m[x + at.Q_COMMAND], wanted
            m[row + at.R_SCALED] = m[x + at.Q_SCALE] != rocc.ONE
            m[at.MERGE_SENT] = next_sent
            m[at.CHANGED] = 1
        closed = read == length and (sent == wanted or (fired and last))
    taken = fired and last and read == length  # another request can come in the same cycle
    if offers(m, at.READ_D, now) and (not valid or taken or read != length):
        beat = front(m, at.READ_D)
        begins = not valid or taken
        if begins:
            xact = at.XACTS + m[beat + at.D_SOURCE] * at.X_WIDTH
            for place in range(at.X_WIDTH):
                m[x + place] = m[xact + place]
            m[at.MERGE_VALID], m[at.MERGE_READ], m[at.MERGE_SENT] = 1, m[at.BUS], 0
            m[at.MERGE_READ] = min(m[at.BUS], m[x + at.X_LENGTH])
            closed = False
        else:
            closed = sent == m[x + at.X_BYTES] and length - read <= m[at.BUS]
            m[at.MERGE_READ] = min(read + m[at.BUS], length)
        if m[beat + at.D_LAST]:
            m[at.XACTS_USED] -= 1
            m[at.XACT_FREE + m[at.XACTS_USED]] = m[beat + at.D_SOURCE]
            m[at.XACT_FREED] = now
        take(m, at.READ_D, now)
    if closed:
        m[at.MERGE_VALID] = 0
        m[at.CHANGED] = 1


@compiled
def step_loaded_data(m: Int64, now: int) -> None:
    """Move what loads have brought one cycle on, from the banks back to the reader's buffer."""
    row = at.REPEATER
    here = m[row + at.R_VALID] and _repeated_row(m, row) >= 0
    scaled = here and m[row + at.R_ACC] == 1
    ends = here and m[row + at.R_LAST] == 1 and m[row + at.R_PIXELS] == 0
    spad_last = ends and not m[row + at.R_ACC]
    unscaled = m[at.ACC_IN + at.R_VALID] == 1
    unscaled_ends = unscaled and m[at.ACC_IN + at.R_LAST] == 1 and m[at.ACC_IN + at.R_REPEATS] == 0
    repeater_free = _step_repeater(m, now)
    accumulator_free = _step_accumulator_rows(m, now, scaled, spad_last)
    zero_free = _step_zero_repeater(m, now, ends or unscaled_ends, scaled or unscaled)
    if m[at.ZERO_VALID]:
        _step_zero_writer(m, zero_free)
    scale_free = _step_scale(m, now, repeater_free)
    if m[at.MERGE_VALID] or m[at.READ_D + 1]:
        _step_merger(m, now, scale_free, accumulator_free)
