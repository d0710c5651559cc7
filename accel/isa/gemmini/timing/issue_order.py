"""The order in which the instructions of a launch are sent, so that its three controllers work at the same time.

A processor sends them one after the other, and the station holds few: behind the loads of a whole tile no product is
sent, and behind its products no load. Each queue keeps its own order here, and instructions of different queues that
share rows keep theirs; the others are merged in the order in which they would start if the station had no end.

Cycles are about those of the recorded design, and not the document's: the words of a program do not depend on its
timing.
"""

import numpy as np

from accel.isa.compiled_kernels import Signature, compiled
from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.stream.loop_expansion import as_signed, has_no_loops
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.build import new_machine
from accel.isa.gemmini.timing.machine.commands import EXECUTE, LOAD, STORE, queue_of
from accel.isa.gemmini.timing.machine.station import entry_at, fill_entry, note_configuration
from accel.isa.kernel_types import MATRIX, VECTOR
from accel.util.arrays import Int64, Words

_LOADED, _MADE, _READ = range(3)  # until when the last load, the last product, the last reader has a row
_ROW_THIRDS = 7  # thirds of a cycle from one row that is moved to the next: 16 requests under way, an answer after 37
_LINE, _BEAT = 64, 16  # bytes of the longest request, and of a beat of its answer
_WIDE_THIRDS = 15  # of whole accumulators that are stored: four beats of the bus
_ANSWER = 60  # cycles until the last row of a load is there
_FEWEST_ROWS = 7  # cycles from one product of few rows to the next, where the weights stay
_DRAIN = 10  # cycles, beside twice the mesh's rows, until a product is in the accumulator


@compiled
def _since(m: Int64, place: int, spad: Int64, acc: Int64, kind: int) -> int:
    """From when on the rows of the range at ``place`` are free of a kind of access.

    With a stride of 0 the range is empty, and its first row is meant.
    """
    latest = 0
    if m[place] < 0:
        return latest
    table = acc if m[place] == 1 else spad
    for row in range(m[place + 1], min(max(m[place + 2], m[place + 1] + 1), len(table))):
        latest = max(latest, table[row, kind])
    return latest


@compiled
def _until(m: Int64, place: int, spad: Int64, acc: Int64, kind: int, time: int) -> None:
    """Note until when a kind of access has the rows of the range at ``place``, as :func:`_since` takes them."""
    if m[place] < 0:
        return
    table = acc if m[place] == 1 else spad
    for row in range(m[place + 1], min(max(m[place + 2], m[place + 1] + 1), len(table))):
        table[row, kind] = max(table[row, kind], time)


@compiled
def _moved(queue: int, rs1: int, rs2: int) -> int:
    """Cycles from one move to the next."""
    rows, columns = rs2 >> 48 & 0xFFFF, rs2 >> 32 & 0xFFFF
    if queue == STORE:
        wide = rs2 & rocc.FULL and rs2 & rocc.ACCUMULATOR
        return rows * (_WIDE_THIRDS if wide else _ROW_THIRDS) // 3 + 1
    requests = ((rs1 & _LINE - 1) + columns + _LINE - 1) // _LINE  # of a row, which may begin within a line
    thirds = max(_ROW_THIRDS * requests, 3 * ((columns + _BEAT - 1) // _BEAT + requests - 1))
    return rows * thirds // 3 + 1


@compiled
def _starts(m: Int64, words: Int64, spad: Int64, acc: Int64, starts: Int64) -> None:
    """When each instruction (n,) would start, a preload with its compute; rows are (rows, 3) of times."""
    free = np.zeros(3, np.int64)
    over, preload = 0, -1
    held = entry_at(EXECUTE, 1)
    for index in range(len(words)):
        funct, rs1, rs2 = words[index, 0], words[index, 1], words[index, 2]
        if funct == rocc.FENCE:
            free[LOAD] = free[EXECUTE] = free[STORE] = over = max(over, free[LOAD], free[EXECUTE], free[STORE])
            starts[index] = over
            continue
        queue = queue_of(funct, rs1)
        entry = held if funct == rocc.PRELOAD else entry_at(queue, 0)
        fill_entry(m, entry, queue, funct, rs1, rs2)
        one, other = entry + at.S_A, entry + at.S_B
        start = free[queue]
        if funct == rocc.CONFIG:
            pass
        elif queue == LOAD:
            start = max(start, _since(m, one, spad, acc, _MADE), _since(m, one, spad, acc, _READ))
            free[queue] = start + _moved(queue, rs1, rs2)
            over = max(over, free[queue] + _ANSWER)
            _until(m, one, spad, acc, _LOADED, free[queue] + _ANSWER)
        elif queue == STORE:
            start = max(start, _since(m, one, spad, acc, _MADE), _since(m, one, spad, acc, _LOADED))
            free[queue] = start + _moved(queue, rs1, rs2)
            over = max(over, free[queue])
            _until(m, one, spad, acc, _READ, free[queue])
        elif funct == rocc.PRELOAD:
            start = max(start, _since(m, one, spad, acc, _LOADED), _since(m, one, spad, acc, _READ))
            start = max(start, _since(m, other, spad, acc, _LOADED))
            free[queue], preload = start, index
            _until(m, one, spad, acc, _MADE, start)
        else:
            start = max(start, _since(m, one, spad, acc, _LOADED), _since(m, other, spad, acc, _LOADED))
            fewest = _FEWEST_ROWS if m[held + at.S_B] < 0 else m[at.DIM]  # weights that stay are not read
            free[queue] = start + max(fewest, rs1 >> 48 & 0xFFFF)
            over = max(over, free[queue] + 2 * m[at.DIM] + _DRAIN)
            _until(m, one, spad, acc, _READ, free[queue])
            _until(m, other, spad, acc, _READ, free[queue])
            if preload >= 0:
                _until(m, held + at.S_A, spad, acc, _MADE, free[queue] + 2 * m[at.DIM] + _DRAIN)
                _until(m, held + at.S_B, spad, acc, _READ, free[queue])
                if preload == index - 1:
                    starts[preload] = start
        starts[index] = start
        note_configuration(m, queue, funct, rs1, rs2)


def _touches_others(words: Int64) -> bool:
    """Whether a configuration makes instructions touch rows that are not the ones they name.

    Stores that pool, loads that repeat pixels, products that transpose or keep their results in the mesh.
    """
    configurations = words[words[:, 0] == rocc.CONFIG, 1]
    kind = configurations & 3
    execute = configurations[(kind == rocc.CONFIG_EX) & (configurations >> 7 & 1 == 0)]
    load, store = configurations[kind == rocc.CONFIG_LD], configurations[kind == rocc.CONFIG_ST]
    products = (execute >> 2 & 1 == 0) | (execute >> 8 & 3 != 0)
    return bool(products.any() or (load >> 8 & 0xFF > 1).any() or (store >> 4 & 3 != 0).any())


def order_signature() -> Signature:
    """Returns what finds when instructions would start."""
    return Signature(_starts, VECTOR, MATRIX, MATRIX, MATRIX, VECTOR)


def issue_order(words: Words, parameters: GemminiParameters) -> Int64:
    """Returns the places (n,) of a launch's instructions ``words`` (n, 3) in the order in which to send them.

    A launch of loops is sent as it stands, and one that touches other rows than the station knows of.
    """
    signed = as_signed(words)
    if not has_no_loops(signed[:, 0]) or _touches_others(signed):
        return np.arange(len(words))
    spad, acc = (np.zeros((rows, 3), np.int64) for rows in (parameters.scratchpad_rows, parameters.accumulator_rows))
    starts, bare = np.zeros(len(words), np.int64), parameters.model_copy(update={"core": None, "memory": None})
    _starts(new_machine(bare, LaunchContext.fresh(bare)), signed, spad, acc, starts)
    return np.argsort(starts, kind="stable")
