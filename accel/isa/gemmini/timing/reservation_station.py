"""Gemmini's clock: the processor, the loop unrollers, the reservation station and its three queues.

The station compares the rows that instructions read and write (ReservationStation.scala).
"""

import numpy as np

from accel.isa.compiled_kernels import Signature, compiled
from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.stream import kernel_layout as isa
from accel.isa.gemmini.stream.configuration_registers import apply_config, load_configuration_of
from accel.isa.gemmini.stream.configuration_registers import apply_preload as configure_preload
from accel.isa.gemmini.timing import controllers as unit
from accel.isa.gemmini.timing import timing_columns as at
from accel.isa.gemmini.timing.controllers import CHANNEL
from accel.isa.kernel_types import MATRIX, VECTOR, WORDS
from accel.util.arrays import Int32, Int64


@compiled
def _put(row: Int64, which: int, memory: int, first: int, rows: int) -> None:
    row[which], row[which + 1], row[which + 2] = (memory, first, first + rows) if rows > 0 else (-1, 0, 0)


@compiled
def _operand(row: Int64, which: int, word: int, rows: int, stride: int) -> None:
    address = word & rocc.GARBAGE
    if address != rocc.GARBAGE:
        memory = 1 if address & rocc.ACCUMULATOR else 0
        _put(row, which, memory, address & rocc.LOAD_ROW, (rows - 1) * stride + 1 if rows > 0 else 0)


@compiled
def _move(row: Int64, state: Int64, funct: int, rs2: int, dim: int) -> None:
    columns, rows = rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF
    blocks = (columns + dim - 1) // dim
    memory = 1 if rs2 & rocc.ACCUMULATOR else 0
    if funct == rocc.MVOUT:
        row[at.KIND] = at.MOVES_OUT
        rows = (blocks - 1) * dim + rows
        if state[isa.POOL_STRIDE]:
            rows = state[isa.OROWS] * state[isa.OCOLS]
        _put(row, at.SRC, memory, rs2 & rocc.STORE_ROW, rows)
    else:
        row[at.KIND] = at.MOVES_IN
        rows += (blocks - 1) * state[isa.LD_BLOCK + load_configuration_of(funct)]
        _put(row, at.DST, memory, rs2 & rocc.LOAD_ROW, rows)


@compiled
def ranges(row: Int64, state: Int64, words: Int64, dim: int) -> None:
    """Fill ``row`` (RANGES,) for the instruction ``words`` (3,): funct, rs1, rs2."""
    funct, rs1, rs2 = words[0], words[1], words[2]
    row[at.DST] = row[at.SRC] = row[at.SRC2] = -1
    row[at.KIND], row[at.WIDTH] = at.IGNORED, 0
    if funct == rocc.CONFIG:
        row[at.KIND] = at.CONFIGURES
    elif funct == rocc.PRELOAD:
        row[at.KIND], row[at.WIDTH] = at.PRELOADS, dim if rs1 & rocc.GARBAGE != rocc.GARBAGE else 0
        transposed = state[isa.WS] and state[isa.B_TRANSPOSE]
        _operand(row, at.SRC, rs1, rs1 >> (32 if transposed else 48) & 0xFFFF, 1)
        _operand(row, at.DST, rs2, rs2 >> 48 & 0xFFFF, state[isa.C_STRIDE])
    elif funct in (rocc.COMPUTE_PRELOADED, rocc.COMPUTE_ACCUMULATED):
        row[at.KIND] = at.COMPUTES
        transposed = state[isa.A_TRANSPOSE]
        row[at.WIDTH] = dim if transposed or not state[isa.WS] else max(rs1 >> 48 & 0xFFFF, 4)
        _operand(row, at.SRC, rs1, rs1 >> (32 if transposed else 48) & 0xFFFF, state[isa.A_STRIDE])
        _operand(row, at.SRC2, rs2, rs2 >> 48 & 0xFFFF, 1)
    elif funct in (rocc.MVIN, rocc.MVIN2, rocc.MVIN3, rocc.MVOUT):
        _move(row, state, funct, rs2, dim)


@compiled
def _meet(a: Int64, i: int, b: Int64, j: int) -> bool:
    return bool(a[i] >= 0 and a[i] == b[j] and a[i + 1] < b[j + 2] and b[j + 1] < a[i + 2])


@compiled
def conflict(new: Int64, old: Int64) -> bool:
    """Whether ``new`` reads what ``old`` writes, or writes what ``old`` reads or writes."""
    if _meet(new, at.SRC, old, at.DST) or _meet(new, at.SRC2, old, at.DST) or _meet(new, at.DST, old, at.DST):
        return True
    return _meet(new, at.DST, old, at.SRC) or _meet(new, at.DST, old, at.SRC2)


_QUIET = 32  # completed instructions in a row, behind which nobody looks for one that is not


@compiled
def _queue(row: Int64, rs1: int) -> int:
    """Which controller takes an instruction; normalisations are the store's (ReservationStation.scala)."""
    kind = row[at.KIND]
    if kind == at.CONFIGURES:
        which = rs1 & 3
        if which == rocc.CONFIG_EX:
            return at.EXECUTE
        return at.LOAD if which == rocc.CONFIG_LD else at.STORE
    if kind == at.MOVES_IN:
        return at.LOAD
    if kind == at.MOVES_OUT:
        return at.STORE
    return at.EXECUTE if kind in (at.PRELOADS, at.COMPUTES) else at.NO_QUEUE


@compiled
def _hazard(index: int, table: Int64, done: Int64, members: Int64, count: int, begin: int) -> int:
    """When the instructions of another queue that ``index`` must wait for have completed, or ``begin``."""
    quiet, position = 0, count - 1
    until = begin
    while position >= 0 and quiet < _QUIET:
        old = members[position]
        if done[old] <= until:
            quiet += 1
        else:
            quiet = 0
            if conflict(table[index], table[old]):
                until = done[old]
        position -= 1
    return until


@compiled
def _entry_free(count: int, members: Int64, done: Int64, entries: int) -> int:
    """When a queue with ``count`` instructions so far has room for one more of its ``entries``.

    An entry is free when its instruction has completed. They complete nearly in order: the one that is ``entries``
    back, or the earliest since.
    """
    if count < entries:
        return 0
    free = int(done[members[count - 1]])
    for position in range(count - entries, count):
        free = min(free, int(done[members[position]]))
    return free


@compiled
def run_clock(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917  one loop: its variables are the hardware's state
    words: Int64,
    first: Int64,
    functs: Int64,
    parameters: Int64,
    state: Int64,
    bits: Int32,
    times: Int64,
    arrivals: Int64,
    waits: Int64,
    busy: Int64,
) -> int:
    """Time the primitive instructions ``words`` (m, 3), of which ``first`` (n + 1,) divides those of each instruction.

    ``functs`` (n,) are the instructions'. Fills ``times`` (TIMES, m), ``arrivals`` (n,), ``waits`` (CAUSES, m) and
    ``busy`` (3,). Returns the cycle in which all is done.
    """
    total, dim = len(words), parameters[at.DIM]
    table = np.empty((total, at.RANGES), np.int64)
    done = np.zeros(total, np.int64)
    members = np.empty((3, total), np.int64)
    counts, issued, dispatched = np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros(3, np.int64)
    entries = parameters[at.LOAD_ENTRIES : at.STORE_ENTRIES + 1]
    reads = np.zeros(CHANNEL + parameters[at.IN_FLIGHT], np.int64)
    writes = np.zeros(CHANNEL + parameters[at.IN_FLIGHT], np.int64)
    reads[0] = writes[0] = -1
    mesh = np.zeros(unit.EXECUTE_STATE, np.int64)
    loop_done = np.zeros(2, np.int64)
    entered_at = times[at.ENTERED]
    ledger = np.full((parameters[at.BANKS], unit.SLOTS, 2), -1, np.int64)
    now, finish, wrote, pending = 0, 0, 0, -1
    for k in range(len(first) - 1):
        loop = functs[k] == rocc.LOOP_WS or functs[k] == rocc.LOOP_CONV
        asked = now + parameters[at.ISSUE]
        now = asked
        if loop:
            now = max(now, loop_done[0])
        elif first[k + 1] > first[k]:
            now = max(now, loop_done[1])
        if functs[k] == rocc.FENCE:
            now = max(now, finish)
        arrivals[k] = now
        latest, sent = now, dispatched[at.LOAD]
        # a loop's loads run ahead of its products, whose reads they disturb: they come first
        for position in range((first[k + 1] - first[k]) * (2 if loop else 1)):
            index = first[k] + position % (first[k + 1] - first[k])
            row = table[index]
            if position < first[k + 1] - first[k]:
                row[at.KIND] = -1
            elif row[at.KIND] >= 0:
                sent = max(sent, entered_at[index])
                continue
            ranges(row, state, words[index], dim)
            queue = _queue(row, words[index, 1])
            if loop and position < first[k + 1] - first[k] and queue != at.LOAD:
                row[at.KIND] = -1
                continue
            kind = row[at.KIND]
            if kind == at.CONFIGURES:
                apply_config(state, bits, words[index, 1], words[index, 2])
            elif kind == at.PRELOADS:
                configure_preload(state, words[index, 1], words[index, 2])
            times[at.QUEUE, index] = queue
            if queue == at.NO_QUEUE:
                times[at.START, index] = times[at.END, index] = done[index] = now
                continue
            waits[at.PROCESSOR, index] = now - asked if index == first[k] else 0
            # into the reservation station, in the order of the queue, and behind what an execute or store needs
            ready = max(now, dispatched[queue] + 1)
            if queue != at.LOAD:
                ready = max(ready, sent)
            if queue == at.STORE:
                ready = max(ready, dispatched[at.EXECUTE])
            count = counts[queue]
            entered = max(ready, _entry_free(count, members[queue], done, entries[queue]))
            waits[at.STATION_FULL, index] = entered - ready
            dispatched[queue] = entered_at[index] = entered
            if queue == at.LOAD and not loop:
                sent = entered
            latest = max(latest, entered)
            begin = max(entered + parameters[at.STATION], issued[queue])
            base = begin
            for other in range(3):
                if other != queue:
                    until = _hazard(index, table, done, members[other], counts[other], base)
                    waits[at.ON_LOAD + other, index] = max(until - begin, 0)
                    begin = max(begin, until)
            start, free, end, alone, result = begin, begin + 1, begin + 1, begin + 1, 0
            used = mesh[unit.SLOT_END]
            if kind == at.MOVES_IN:
                if count >= parameters[at.COMMANDS]:
                    start = max(start, done[members[at.LOAD, count - parameters[at.COMMANDS]]])
                free, end = unit.load(
                    words[index], state, load_configuration_of(words[index, 0]), parameters, reads, ledger, start
                )
                alone = free
            elif kind == at.MOVES_OUT:
                if count > 0:  # ReservationStation.scala: a store waits for all older ones
                    start = max(start, done[members[at.STORE, count - 1]])
                free, end = unit.store(words[index], state, parameters, writes, start)
                alone, wrote = free, end + parameters[at.LATENCY]
            elif kind == at.PRELOADS:
                start, end = unit.preload(words[index], row[at.WIDTH], parameters, mesh, ledger, begin)
                free, alone, pending = begin + 1, end, index
                end = max(end, start + 1)
            elif kind == at.COMPUTES:
                start, end, result = unit.compute(words[index], row[at.WIDTH], parameters, mesh, ledger, begin)
                free, alone = start, end
                if pending >= 0:  # the preload names the result, and completes with it
                    done[pending] = result
                    times[at.END, pending] = result
                    finish, pending = max(finish, result), -1
            elif queue == at.EXECUTE:  # a config waits until the mesh is idle (ExecuteController.scala)
                start = max(begin, mesh[unit.LAST_DONE])
                free = end = start + 1
            if queue == at.EXECUTE:  # a preload shares the slot of a compute, or has one of its own
                alone = start + mesh[unit.SLOT_END] - max(used, mesh[unit.SLOT_START])
            waits[at.UNIT_BUSY, index] = start - begin
            times[at.WORKED, index] = max(end, result)
            issued[queue] = free
            times[at.START, index], times[at.END, index], done[index] = start, end, end
            busy[queue] += max(alone - start, 0)
            members[queue, count] = index
            counts[queue] = count + 1
            finish = max(finish, end)
        if loop:
            loop_done[0], loop_done[1] = loop_done[1], max(latest, loop_done[1])
        else:
            now = max(now, latest)
    return max(finish, wrote, now)


def clock_signature() -> Signature:
    """Returns what times a stream."""
    return Signature(run_clock, MATRIX, VECTOR, VECTOR, VECTOR, VECTOR, WORDS, MATRIX, VECTOR, MATRIX, VECTOR)
