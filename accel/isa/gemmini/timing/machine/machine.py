"""The whole machine: its parts, cycle by cycle, those behind before those in front of them.

Cycles in which nothing moves are left out: the next one is that of the first answer, result or row that is due.
"""

import numpy as np

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.stream import conv_loop_shape as shapes
from accel.isa.gemmini.timing.machine import execute as unit
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.commands import EXECUTE, LOAD, STORE, pass_on, send
from accel.isa.gemmini.timing.machine.conv_unroller import step_conv_unroller
from accel.isa.gemmini.timing.machine.matmul_unroller import step_matmul_unroller
from accel.isa.gemmini.timing.machine.memory.load_data import step_loaded_data
from accel.isa.gemmini.timing.machine.memory.memory_hierarchy import empty_cache
from accel.isa.gemmini.timing.machine.memory.memory_port import (
    answer_start,
    answer_translation,
    forget_pages,
    keep_page,
    step_answers,
    step_requests,
)
from accel.isa.gemmini.timing.machine.memory.normaliser import row_is_taken_from
from accel.isa.gemmini.timing.machine.memory.read_dma import step_load_controller, step_packets, step_reader_stages
from accel.isa.gemmini.timing.machine.memory.store_controller import step_store_controller
from accel.isa.gemmini.timing.machine.memory.trackers import finished, release
from accel.isa.gemmini.timing.machine.memory.write_dma import (
    settle_banks,
    step_dispatch,
    step_rows_out,
    step_writer,
    step_writer_stages,
)
from accel.isa.gemmini.timing.machine.mesh import NO_SLOT, forget_product, step_mesh, step_outputs
from accel.isa.gemmini.timing.machine.queues import front, has_room, make, offers, take
from accel.isa.gemmini.timing.machine.station import (
    allocate,
    complete,
    controller_has_room,
    is_busy,
    issue,
    ready_slot,
)
from accel.isa.kernels.compiled_kernels import Signature, compiled
from accel.isa.kernels.kernel_types import CUBE, MATRIX, VECTOR
from accel.util.arrays import Int64

_NEVER = 1 << 60
_IDLE = 64  # cycles in which nothing moves and nothing is due: nothing ever will
_PATIENCE = 100_000  # cycles in which no instruction and no answer moves, beside what memory and processor take


@compiled
def prepare(m: Int64) -> None:
    """Set up the queues; parameters and registers that configurations leave are there."""
    for queue in (at.READ_A, at.WRITE_A, at.PORT_A):
        make(m, queue, 2, at.A_WIDTH)
    for queue in (at.READ_D, at.WRITE_D, at.PORT_D):
        make(m, queue, 2, at.D_WIDTH)
    make(m, at.ANSWERS, at.MOST_OPEN, at.N_WIDTH)
    make(m, at.LOAD_QUEUE, m[at.LOAD_COMMAND_QUEUE], at.C_WIDTH)
    make(m, at.STORE_QUEUE, m[at.STORE_COMMAND_QUEUE], at.C_WIDTH)
    make(m, at.ROW_QUEUE, m[at.SPAD_DELAY] + 1, at.Q_WIDTH)
    for bank in range(m[at.SPAD_BANKS]):
        make(m, at.DMA_PIPES + bank * at.DMA_PIPE, m[at.SPAD_DELAY], 1)
    make(m, at.DISPATCH, 2, at.W_WIDTH)
    make(m, at.NORM, m[at.SPAD_DELAY] + m[at.ROWS_AHEAD], at.W_WIDTH)
    make(m, at.SCALE, m[at.SPAD_DELAY] + m[at.ROWS_AHEAD], at.W_WIDTH)
    make(m, at.ISSUE, m[at.SPAD_DELAY] + 1, at.W_WIDTH)
    make(m, at.PASSTHROUGH, 2, 1)
    make(m, at.ACC_SCALE_PIPE, m[at.ACC_SCALE], 1)
    make(m, at.CONTROL, m[at.SPAD_DELAY] + 1, at.K_WIDTH)
    make(m, at.TAGS, at.TAGS_LENGTH, 5)
    make(m, at.ROWS_QUEUE, at.TAGS_LENGTH, 3)
    make(m, at.OUTPUTS, at.MOST_OUTPUTS, 3)
    for queue in range(3):
        make(m, at.OLDEST + queue * at.OLDEST_QUEUE, at.MOST_ENTRIES, 2)
    for queue in (at.RAW, at.CONV_QUEUE, at.MATMUL_QUEUE, at.UNROLLED):
        make(m, queue, 2, at.F_WIDTH)
    for part in range(5):
        make(m, at.CONV_PIPES + part * at.CONV_PIPE, 2, 2)
    for source in range(m[at.READS]):
        m[at.XACT_FREE + source] = source
    for place in range(at.TAGS_LENGTH):
        m[at.TAGS + at.HEADER + place * 5 + at.G_SLOT] = NO_SLOT
        m[at.TAGS + at.HEADER + place * 5 + at.G_ADDRESS] = rocc.GARBAGE
    m[at.EX_CAPACITY] = m[at.EXECUTE_COMMAND_QUEUE]
    m[at.EX_PENDING] = m[at.EX_PENDING + 1] = NO_SLOT
    forget_pages(m)
    m[at.TLB_HIT] = m[at.TLB_HIT + 1] = 1
    for place in range(at.MOST_BANKS * 16):
        m[at.ACC_WRITES + 2 * place] = -_NEVER
    m[at.ANSWER_LAST] = m[at.CLOSED_AT] = m[at.XACT_FREED] = -1
    m[at.TLB_WALK_READY] = -1
    m[at.NEXT_AT] = m[at.START_AT]
    empty_cache(m)


@compiled
def _step_data(m: Int64, now: int) -> None:
    """Everything from the banks to memory, and the mesh."""
    m[at.SPAD_WRITTEN] = m[at.ACC_ADDING] = 0
    step_outputs(m, now)
    arriving = m[at.READ_D + 1] + m[at.MERGE_VALID] + m[at.REPEATER] + m[at.ACC_IN] + m[at.SCALE_COUNT]
    if arriving + m[at.SCALE_IN] + m[at.ZERO_VALID] + m[at.ZERO_REPEATER]:
        step_loaded_data(m, now)
    if m[at.PORT_A + 1] + m[at.READ_A + 1] + m[at.WRITE_A + 1]:
        step_requests(m, now)
    reads = m[at.READ_TLB] | m[at.READ_TRANSLATE]
    writes = m[at.WRITE_TLB] | m[at.WRITE_TRANSLATE] | m[at.WRITE_SHADOW]
    reader_free = writer_stage_free = writer_free = True
    if reads | writes or m[at.TLB_WALK_READY] >= now:
        answer_translation(m, now)
        if reads:
            reader_free = step_reader_stages(m, now)
        if writes:
            writer_stage_free = step_writer_stages(m, now)
        keep_page(m)
    if m[at.WR_STATE] + m[at.WRITE_D + 1]:  # the writer takes its answers before others come
        writer_free = step_writer(m, now, writer_stage_free)
    if m[at.PORT_D + 1] + m[at.ANSWERS + 1]:
        step_answers(m, now)
    if m[at.NORM + 1] + m[at.SCALE + 1] + m[at.ISSUE + 1]:
        step_rows_out(m, now, writer_free)
    took = ready = False
    if m[at.CONTROL + 1] + m[at.MESH_VALID] or m[at.EX_STATE] >= unit.FLUSH:
        took, ready = step_mesh(m, now, m[at.EX_STATE] == unit.FLUSH)
    if m[at.PENDING_EX] | m[at.PENDING_DMA] | m[at.HELD_EX] | m[at.HELD_DMA]:
        settle_banks(m, now)
    commands = m[at.EX_COUNT]
    unit.step_execute(m, now, took, ready)
    forget_product(m)
    if m[at.DISPATCH + 1]:
        step_dispatch(m, now)
    if m[at.UNROLL_COUNT]:
        unit.step_unroll_preloads(m, commands < m[at.EX_CAPACITY])
    if m[at.ROW_ACTIVE] + m[at.ROW_QUEUE + 1]:
        step_packets(m, now, reader_free)
    if m[at.LOAD_QUEUE + 1]:
        step_load_controller(m, now)
    if m[at.STORE_QUEUE + 1]:
        step_store_controller(m, now)


@compiled
def _finish(m: Int64, now: int, rows: Int64, done: int) -> None:
    """One instruction may complete a cycle: of the execute queue, or else a load, or else a store."""
    if done != NO_SLOT:
        complete(m, EXECUTE, done, now, rows)
        return
    number = finished(m, at.LOAD_TRACKER, m[at.LOAD_COMMANDS], now) if m[at.LOAD_TRACKED] else -1
    if number >= 0:
        m[at.LOAD_TRACKED] -= 1
        complete(m, LOAD, release(m, at.LOAD_TRACKER, number, now), now, rows)
        return
    number = finished(m, at.STORE_TRACKER, m[at.STORE_COMMANDS], now) if m[at.STORE_TRACKED] else -1
    if number >= 0:
        m[at.STORE_TRACKED] -= 1
        complete(m, STORE, release(m, at.STORE_TRACKER, number, now), now, rows)


@compiled
def _step_station(m: Int64, now: int, rows: Int64, unrolling: int) -> None:
    """Hand instructions over, take one, complete one."""
    slots = (ready_slot(m, LOAD, now), ready_slot(m, EXECUTE, now), ready_slot(m, STORE, now))
    if offers(m, at.UNROLLED, now):
        command = front(m, at.UNROLLED)
        if m[command + at.F_ASKED] < 0:
            m[command + at.F_ASKED] = now
        funct = m[command + at.F_FUNCT]
        if funct == rocc.FLUSH:
            forget_pages(m)
            take(m, at.UNROLLED, now)
        elif funct == rocc.COUNTER or allocate(m, command, now, rows):
            take(m, at.UNROLLED, now)
    for queue in range(3):
        slot = slots[queue]
        if slot >= 0 and controller_has_room(m, queue, now, unrolling):
            issue(m, queue, slot, now, rows)
    _finish(m, now, rows, m[at.EX_DONE])


@compiled
def _is_busy(m: Int64) -> bool:
    queues = m[at.RAW + 1] + m[at.CONV_QUEUE + 1] + m[at.MATMUL_QUEUE + 1] + m[at.UNROLLED + 1]
    for loops in (at.CONV_LOOPS, at.MATMUL_LOOPS):
        queues += m[loops + at.L_CONFIGURED] + m[loops + at.L_WIDTH + at.L_CONFIGURED]
    rows = m[at.DISPATCH + 1] + m[at.NORM + 1] + m[at.SCALE + 1] + m[at.ISSUE + 1]
    dma = m[at.WR_BUSY] + m[at.WR_STATE] + m[at.XACTS_USED]
    return bool(queues or rows or dma or is_busy(m))


@compiled
def _offer(m: Int64, now: int, words: Int64, accepted: Int64, busy: bool, was_busy: bool) -> None:
    """Accept the next instruction of the stream, if it is offered and there is room (fences wait until all is done)."""
    sent = m[at.SENT]
    while sent < len(words) and words[sent, 0] == rocc.FENCE:
        if now < m[at.ACCEPTED_AT] + 2 or busy or was_busy or m[at.ANSWERS + 1] or m[at.OPEN]:
            return
        accepted[sent] = now
        sent += 1
        m[at.SENT] = sent
        m[at.NEXT_AT] = now + m[at.COMMAND_CYCLES + rocc.FENCE]
        m[at.CHANGED] = 1
    if sent < len(words) and now >= m[at.NEXT_AT] and has_room(m, at.RAW, now):
        send(m, now, at.RAW, sent, words[sent, 0], words[sent, 1], words[sent, 2], 0)
        accepted[sent] = now
        m[at.ACCEPTED_AT] = now
        m[at.NEXT_AT] = now + m[at.COMMAND_CYCLES + (words[sent, 0] & 0x7F)]
        m[at.SENT] = sent + 1


@compiled
def _sooner(event: int, other: int, now: int) -> int:
    """The earlier of two cycles, if the other one is still to come."""
    return min(event, other) if other > now else event


@compiled
def _next_event(m: Int64, now: int, total: int) -> int:
    """The next cycle in which something that is waited for comes."""
    event = _NEVER
    if m[at.ANSWERS + 1]:
        event = _sooner(event, answer_start(m), now)
    if m[at.OUTPUTS + 1]:
        event = _sooner(event, m[front(m, at.OUTPUTS)], now)
    if m[at.ACC_SCALE_PIPE + 1]:
        event = _sooner(event, m[front(m, at.ACC_SCALE_PIPE)] + m[at.ACC_SCALE], now)
    if m[at.NORMALISES] and m[at.NORM + 1]:
        event = _sooner(event, row_is_taken_from(m, front(m, at.NORM)), now)
    if m[at.CONTROL + 1]:
        event = _sooner(event, m[front(m, at.CONTROL)] + 1 + m[at.SPAD_DELAY], now)
    if m[at.SCALE_COUNT]:
        event = _sooner(event, m[at.SCALE_REGS + m[at.SCALE_HEAD] * at.R_WIDTH + at.R_DONE], now)
    for bank in range(m[at.SPAD_BANKS]):
        pipe = at.DMA_PIPES + bank * at.DMA_PIPE
        if m[pipe + 1]:
            event = _sooner(event, m[front(m, pipe)] + m[at.SPAD_DELAY], now)
    for part in range(5):
        pipe = at.CONV_PIPES + part * at.CONV_PIPE
        if m[pipe + 1]:
            event = _sooner(event, m[front(m, pipe)] + 2, now)
    event = _sooner(event, m[at.TLB_WALK_READY], now)
    return _sooner(event, m[at.NEXT_AT], now) if m[at.SENT] < total else event


STALLED, FULL = -1, -2  # instead of a number of cycles: the machine is stuck; the log has no room
NOW, WAS_BUSY, IDLE, QUIET, CLOCK = range(5)  # of ``clock``


def new_clock() -> Int64:
    """Returns the clock (CLOCK,) of a machine that has not begun."""
    clock = np.zeros(CLOCK, np.int64)
    clock[WAS_BUSY], clock[QUIET] = 1, -1
    return clock


@compiled
def run_machine(
    m: Int64, words: Int64, registers: Int64, sizes: Int64, commands: Int64, accepted: Int64, rows: Int64, clock: Int64
) -> int:
    """Run a stream ``words`` (n, 3) to its end, or until the log is full; called again, it goes on.

    Args:
        m: (SIZE,) the machine, prepared; LOGGED is how many rows of the log it has written.
        words: the stream.
        registers: (LOOPS,) the convolution loops' registers.
        sizes: (SIZES,) of :mod:`accel.isa.gemmini.stream.kernel_layout`.
        commands: (4, c, 3) room for the commands of two convolution loops, and of two other ones that are written out.
        accepted: (n,) gets the cycle in which each instruction was accepted.
        rows: (m, COLUMNS) gets the log of primitive instructions; the machine never reads it.
        clock: (CLOCK,) where it was when the log was full.

    Returns the cycle in which all is done, STALLED, or FULL.
    """
    shape = np.zeros(shapes.SHAPE, np.int64)
    total = len(words)
    now, was_busy, idle, quiet = clock[NOW], clock[WAS_BUSY] != 0, clock[IDLE], clock[QUIET]
    patience = _PATIENCE + 4 * (m[at.LATENCY] + m[at.SPACING])
    while True:
        if (m[at.LOGGED] & m[at.LOG_MASK]) + 1 >= len(rows):
            clock[NOW], clock[WAS_BUSY], clock[IDLE], clock[QUIET] = now, was_busy, idle, quiet
            return FULL
        m[at.CHANGED] = 0
        waits = m[at.SENT] == total or words[m[at.SENT], 0] == rocc.FENCE
        busy = not waits or _is_busy(m)
        if busy:
            quiet = -1
        elif quiet < 0:
            quiet = now
        if not busy and m[at.SENT] == total:
            return int(quiet)
        unrolling = m[at.UNROLL_COUNT]
        _step_data(m, now)
        _step_station(m, now, rows, unrolling)
        step_matmul_unroller(m, now, registers, sizes, commands)
        step_conv_unroller(m, now, registers, sizes, shape, commands)
        if m[at.FSM_ANY]:
            for place in range(7):
                m[at.FSM_DONE + place] = 0
        if offers(m, at.RAW, now) and has_room(m, at.CONV_QUEUE, now):
            pass_on(m, now, at.RAW, at.CONV_QUEUE)
        if m[at.SENT] < total:
            _offer(m, now, words, accepted, busy, was_busy)
        if busy != was_busy:
            m[at.CHANGED] = 1
        was_busy = busy
        if m[at.CHANGED]:
            idle = 0
            now += 1
            if now - m[at.PROGRESS] > patience:  # the mesh is flushed again and again
                return STALLED
            continue
        event = _next_event(m, now, total)
        idle = 0 if event < _NEVER else idle + 1
        now = event if event < _NEVER else now + 1
        if idle > _IDLE:
            return STALLED


def machine_signature() -> Signature:
    """Returns what runs streams."""
    return Signature(run_machine, VECTOR, MATRIX, VECTOR, VECTOR, CUBE, VECTOR, MATRIX, VECTOR)


def preparation_signature() -> Signature:
    """Returns what sets the machine up."""
    return Signature(prepare, VECTOR)
