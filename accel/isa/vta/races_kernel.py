"""Happens-before over VTA's tokens: which accesses of which units are not ordered. Compiled by numba.

A unit runs its instructions in order, one at a time; a pop comes after the push whose token it takes. The clock of an
instruction counts, for each unit, the instructions that have ended before it starts (a vector clock). Two accesses of
one element by two units, one of them a write, are ordered if the later one's clock counts the earlier one.
"""

# compiled functions take arrays, not objects that would hold them together
# ruff: noqa: PLR0913, PLR0917

import numpy as np
import numpy.typing as npt

from accel.isa.compiled import compiled
from accel.isa.vta import function_kernel as f

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

# columns of the order table: the unit, and the queues it pops and pushes (-1: none)
UNIT, POP_A, POP_B, PUSH_A, PUSH_B = range(5)
# memories, in the order of ``bases``
UOP, INP, WGT, ACC, DRAM = range(5)
# columns of a conflict: instructions, memory, first and last element
FIRST, SECOND, MEMORY, LOW, HIGH = range(5)


@compiled
def _report(conflicts: Int64, count: int, first: int, second: int, memory: int, element: int) -> int:
    """Note a conflict, joined with the last one if the instructions and the memory are the same."""
    for at in range(max(count - 8, 0), min(count, len(conflicts))):
        row = conflicts[at]
        if row[FIRST] == first and row[SECOND] == second and row[MEMORY] == memory:
            row[LOW], row[HIGH] = min(row[LOW], element), max(row[HIGH], element)
            return count
    if count < len(conflicts):
        conflicts[count, FIRST], conflicts[count, SECOND] = first, second
        conflicts[count, MEMORY], conflicts[count, LOW], conflicts[count, HIGH] = memory, element, element
    return count + 1


@compiled
def _touch(
    memory: int,
    element: int,
    write: bool,  # noqa: FBT001  numba compiles no keyword-only arguments
    who: tuple[int, int, int],
    clock: Int64,
    shadow: tuple[Int32, Int32, Int64],
    lists: Int64,
    conflicts: Int64,
    count: int,
) -> int:
    """One access of instruction ``who`` (index, unit, place in the unit); the new count of conflicts."""
    writers, readers, bases = shadow
    index, unit, place = who
    at = bases[memory] + element
    for other in range(3):
        if other != unit:
            last = writers[at, other]
            if write:
                last = max(last, readers[at, other])
            if last > clock[other]:
                count = _report(conflicts, count, lists[other, last - 1], index, memory, element)
    if write:
        writers[at, unit] = place + 1
    else:
        readers[at, unit] = place + 1
    return count


@compiled
def _compute(
    row: Int64,
    uop: Int32,
    fields: Int64,
    who: tuple[int, int, int],
    clock: Int64,
    shadow: tuple[Int32, Int32, Int64],
    lists: Int64,
    conflicts: Int64,
    count: int,
) -> int:
    """Each pass reads its sources and writes dst; ``operands`` are dst, src and, in a matrix instruction, wgt."""
    matrix = row[f.OP] == f.GEMM
    operands = 3 if matrix else 2 if row[f.OP] == f.ALU and row[f.USE_IMM] == 0 else 1
    for u in range(row[f.BEGIN], row[f.BEGIN] + row[f.COUNT]):
        count = _touch(UOP, u, False, who, clock, shadow, lists, conflicts, count)
        for i in range(row[f.OUTER]):
            for j in range(row[f.INNER]):
                for operand in range(operands):
                    memory = ACC if operand == 0 or not matrix else INP if operand == 1 else WGT
                    word = (np.int64(uop[u]) >> fields[2 * operand]) & ((1 << fields[2 * operand + 1]) - 1)
                    element = word + i * row[f.DST_OUT + 2 * operand] + j * row[f.DST_IN + 2 * operand]
                    count = _touch(memory, element, operand == 0, who, clock, shadow, lists, conflicts, count)
    return count


@compiled
def _copy(
    row: Int64,
    size: Int64,
    who: tuple[int, int, int],
    clock: Int64,
    shadow: tuple[Int32, Int32, Int64],
    lists: Int64,
    conflicts: Int64,
    count: int,
) -> int:
    """``size`` is the memory, the elements on chip a copy makes of one, and the DRAM granules of one."""
    store = row[f.OP] == f.STORE
    elements = row[f.ROWS] * row[f.COLUMNS] if store else row[f.HEIGHT] * row[f.WIDTH]
    for element in range(row[f.SRAM], row[f.SRAM] + elements):
        count = _touch(size[0], element, not store, who, clock, shadow, lists, conflicts, count)
    for y in range(row[f.ROWS]):
        begin = (row[f.DRAM] + y * row[f.STRIDE]) * size[1]
        for granule in range(begin, begin + row[f.COLUMNS] * size[1]):
            count = _touch(DRAM, granule, store, who, clock, shadow, lists, conflicts, count)
    return count


@compiled
def _load_microops(row: Int64, uop: Int32, dram: Int32) -> None:
    for y in range(row[f.HEIGHT]):
        for x in range(row[f.WIDTH]):
            sy, sx = y - row[f.TOP], x - row[f.LEFT]
            inside = 0 <= sy < row[f.ROWS] and 0 <= sx < row[f.COLUMNS]
            word = dram[row[f.DRAM] + sy * row[f.STRIDE] + sx] if inside else np.int32(0)
            uop[row[f.SRAM] + y * row[f.WIDTH] + x] = word


@compiled
def _take(index: int, order: Int64, tokens: Int64, pops: Int64, pushes: Int64, sent: Int64, clocks: Int64) -> bool:
    """Take the tokens of ``index`` and join the clocks of their senders; false, and nothing, if one is missing."""
    for column in (POP_A, POP_B):
        queue = order[index, column]
        if queue >= 0 and pops[queue] >= tokens[queue] + sent[queue]:
            return False
    for column in (POP_A, POP_B):
        queue = order[index, column]
        if queue >= 0:
            number = pops[queue] - tokens[queue]
            pops[queue] += 1
            if number >= 0:
                sender = pushes[queue, number]
                for unit in range(3):
                    clocks[index, unit] = max(clocks[index, unit], clocks[sender, unit])
                unit = order[sender, UNIT]
                clocks[index, unit] = max(clocks[index, unit], clocks[sender, 3] + 1)
    return True


@compiled
def _send(index: int, order: Int64, pushes: Int64, sent: Int64) -> None:
    for column in (PUSH_A, PUSH_B):
        queue = order[index, column]
        if queue >= 0:
            pushes[queue, sent[queue]] = index
            sent[queue] += 1


@compiled
def _lists(order: Int64) -> tuple[Int64, Int64]:
    """Each unit's instructions in order, and how many."""
    lists, lengths = np.zeros((3, len(order)), np.int64), np.zeros(3, np.int64)
    for index in range(len(order)):
        unit = order[index, UNIT]
        lists[unit, lengths[unit]] = index
        lengths[unit] += 1
    return lists, lengths


@compiled
def find(
    table: Int64,
    order: Int64,
    tokens: Int64,
    uop: Int32,
    dram: Int32,
    fields: Int64,
    sizes: Int64,
    bases: Int64,
    clocks: Int64,
    conflicts: Int64,
) -> tuple[int, int]:
    """Fill ``conflicts`` and ``clocks`` (n, 4).

    Returns the instructions that could run, and the conflicts found, which may be more than there is room for.

    ``clocks`` has, for each instruction, how many of each unit ended before it, and its own place in its unit.
    ``sizes`` (ops, 2) has the memory and the DRAM granules of an element for each kind of copy. ``tokens`` becomes
    what is left in the queues, ``uop`` what the launch leaves in the micro-op memory.
    """
    n = len(table)
    writers, readers = np.zeros((bases[5], 3), np.int32), np.zeros((bases[5], 3), np.int32)
    lists, lengths = _lists(order)
    place = np.zeros(3, np.int64)
    pushes = np.zeros((len(tokens), n), np.int64)
    sent, pops = np.zeros_like(tokens), np.zeros_like(tokens)
    ran, count, moved = 0, 0, True
    while moved:
        moved = False
        for unit in range(3):
            while place[unit] < lengths[unit]:
                index = lists[unit, place[unit]]
                if place[unit] > 0:
                    clocks[index, :3] = clocks[lists[unit, place[unit] - 1], :3]
                if not _take(index, order, tokens, pops, pushes, sent, clocks):
                    break
                clocks[index, unit] = clocks[index, 3] = place[unit]
                who, clock, op = (index, unit, place[unit]), clocks[index], table[index, f.OP]
                shadow = (writers, readers, bases)
                if op >= f.GEMM:
                    count = _compute(table[index], uop, fields, who, clock, shadow, lists, conflicts, count)
                elif op != f.NOTHING:
                    count = _copy(table[index], sizes[op], who, clock, shadow, lists, conflicts, count)
                if op == f.LOAD_UOP:
                    _load_microops(table[index], uop, dram)
                _send(index, order, pushes, sent)
                place[unit] += 1
                ran += 1
                moved = True
    tokens += sent - pops
    return ran, count
