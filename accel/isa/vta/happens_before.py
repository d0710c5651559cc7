"""Happens-before over VTA's tokens: which accesses of which units are not ordered.

A unit runs its instructions in order, one at a time; a pop comes after the push whose token it takes; a launch comes
after the FINISH before it. The clock of an instruction counts, for each unit, the instructions that have ended before
it starts (a vector clock). Two accesses of one element by two units, one of them a write, are ordered if the later
one's clock counts the earlier one. Instructions are counted by unit over the whole program, so that clocks of one
launch mean something in the next.
"""

# compiled functions take arrays, not objects that would hold them together
# ruff: noqa: PLR0913, PLR0917

import numpy as np

from accel.isa.kernels.compiled_kernels import compiled
from accel.isa.vta.function import functional_table as f
from accel.util.arrays import Bytes, Int32, Int64

# columns of the order table: the unit, and the queues it pops and pushes (-1: none)
UNIT, POP_A, POP_B, PUSH_A, PUSH_B = range(5)
# memories, in the order of ``bases``
UOP, INP, WGT, ACC, DRAM = range(5)
# columns of a finding: the earlier instruction as unit and place, or one of the units below; the later one, memory,
# first and last element
FINDING = 6
FIRST_UNIT, FIRST_PLACE, SECOND, MEMORY, LOW, HIGH = range(FINDING)
# columns of a clock: instructions of each unit that ended before, and the instruction's own place in its unit
CLOCK = 4
PLACE = 3
# what an access does
_READ, _WRITE = 1, 2
# units of a finding: nobody ever wrote what is read; a load or a reset wrote it, and the out memory has what was there
# before; a pass of the same instruction has not written it yet
NOBODY, LOADED, UNFINISHED = -1, -2, -3
# the ALU's clockwork: cycles in which what a pass writes is not read; of a pass with an immediate, with two operands
STALE, IMMEDIATE, TWO_OPERANDS = range(3)

_LOOK_BACK = 8  # findings of one instruction that may alternate, as its operands and units do


@compiled
def _report(findings: Int64, count: int, unit: int, place: int, second: int, memory: int, element: int) -> int:
    """Note a finding, joined with a recent one of the same instructions and memory."""
    for at in range(max(count - _LOOK_BACK, 0), min(count, len(findings))):
        row = findings[at]
        same = row[FIRST_UNIT] == unit and row[FIRST_PLACE] == place
        if same and row[SECOND] == second and row[MEMORY] == memory:
            row[LOW], row[HIGH] = min(row[LOW], element), max(row[HIGH], element)
            return count
    if count < len(findings):
        findings[count, FIRST_UNIT], findings[count, FIRST_PLACE] = unit, place
        findings[count, SECOND], findings[count, MEMORY] = second, memory
        findings[count, LOW], findings[count, HIGH] = element, element
    return count + 1


@compiled
def _touch(
    grid: Int64, who: Int64, clock: Int64, known: Bytes, last: Int32, base: int, findings: Int64, count: int
) -> int:
    """The accesses of one instruction to a grid of elements; the new count of findings.

    ``grid``: memory, first element, outer extent and step, inner extent and step, what it does. ``last`` (elements, 6)
    has the place, from 1, of the last writer in each unit, then of the last reader.
    """
    index, unit, place = who
    memory, write = grid[0], grid[6] & _WRITE
    for i in range(grid[2]):
        for j in range(grid[4]):
            element = grid[1] + i * grid[3] + j * grid[5]
            at = base + element
            for other in range(3):
                if other != unit:
                    earlier = last[at, other]
                    if write:
                        earlier = max(earlier, last[at, 3 + other])
                    if earlier > clock[other]:
                        count = _report(findings, count, other, earlier - 1, index, memory, element)
            if grid[6] & _READ:
                if known[at] == 0:
                    count = _report(findings, count, NOBODY, 0, index, memory, element)
                last[at, 3 + unit] = place + 1
            if write:
                known[at] = 1
                last[at, unit] = place + 1
    return count


@compiled
def _grids(row: Int64) -> int:
    """How many grids an instruction touches: a copy its memory and each row of DRAM, others micro-ops and operands."""
    if row[f.OP] == f.NOTHING:
        return 0
    if row[f.OP] < f.GEMM:
        return int(1 + row[f.ROWS])
    return int(1 + _operands(row) * row[f.COUNT]) if row[f.COUNT] > 0 else 0


@compiled
def _operands(row: Int64) -> int:
    if row[f.OP] == f.GEMM:
        return 3
    return 2 if row[f.OP] == f.ALU and row[f.USE_IMM] != f.WITH_DST else 1


@compiled
def _copy_grid(row: Int64, number: int, size: Int64, granule: int, grid: Int64) -> None:
    """``size``: the memory that a copy moves, and the bytes of an element in DRAM."""
    store = row[f.OP] == f.STORE
    grid[2], grid[3], grid[5] = 1, 0, 1
    if number == 0:
        grid[0], grid[1], grid[6] = size[0], row[f.SRAM], _READ if store else _WRITE
        grid[4] = row[f.ROWS] * row[f.COLUMNS] if store else row[f.HEIGHT] * row[f.WIDTH]
        return
    begin = (row[f.DRAM] + (number - 1) * row[f.STRIDE]) * size[1]
    grid[0], grid[1], grid[6] = DRAM, begin // granule, _WRITE if store else _READ
    grid[4] = (begin + row[f.COLUMNS] * size[1] - 1) // granule - grid[1] + 1


@compiled
def _compute_grid(row: Int64, number: int, uop: Int32, fields: Int64, grid: Int64) -> None:
    """An operand's steps are those of the loops that move it; the others repeat the same elements."""
    if number == 0:
        grid[0], grid[1], grid[2], grid[3], grid[4], grid[5], grid[6] = UOP, row[f.BEGIN], 1, 0, row[f.COUNT], 1, _READ
        return
    u, operand = divmod(number - 1, _operands(row))
    word = np.int64(uop[row[f.BEGIN] + u])
    out, inner = row[f.DST_OUT + 2 * operand], row[f.DST_IN + 2 * operand]
    grid[0] = ACC if operand == 0 or row[f.OP] != f.GEMM else INP if operand == 1 else WGT
    grid[1] = (word >> fields[2 * operand]) & ((1 << fields[2 * operand + 1]) - 1)
    grid[2], grid[3] = row[f.OUTER] if out else 1, out
    grid[4], grid[5] = row[f.INNER] if inner else 1, inner
    grid[6] = _READ
    if operand == 0:
        fresh = row[f.OP] == f.RESET or (row[f.OP] == f.ALU and row[f.USE_IMM] == f.WITH_SRC)
        grid[6] = _WRITE if fresh else _READ | _WRITE


@compiled
def _grid(row: Int64, number: int, uop: Int32, fields: Int64, sizes: Int64, granule: int, grid: Int64) -> None:
    if row[f.OP] < f.GEMM:
        _copy_grid(row, number, sizes[row[f.OP]], granule, grid)
    else:
        _compute_grid(row, number, uop, fields, grid)


@compiled
def _out_memory(row: Int64, grid: Int64, who: Int64, loaded: Int32, findings: Int64, count: int) -> int:
    """Note which elements of the accumulator a load or a reset wrote last, and stores of such; the count of findings.

    ``loaded`` (elements,) has the place of that instruction, from 1, and 0 where a product or the ALU wrote it.
    """
    if grid[0] != ACC or len(loaded) == 0 or not (grid[6] & _WRITE or row[f.OP] == f.STORE):
        return count
    for i in range(grid[2]):
        for j in range(grid[4]):
            element = grid[1] + i * grid[3] + j * grid[5]
            if row[f.OP] == f.STORE:
                if loaded[element] > 0:
                    count = _report(findings, count, LOADED, loaded[element] - 1, who[0], ACC, element)
            else:
                loaded[element] = who[2] + 1 if row[f.OP] < f.GEMM or row[f.OP] == f.RESET else 0
    return count


@compiled
def _unfinished(
    row: Int64, index: int, uop: Int32, fields: Int64, clockwork: Int64, findings: Int64, count: int
) -> int:
    """Note what passes of an ALU instruction read before a pass ahead of them has written it; the count of findings.

    A pass reads src in its first cycle and dst in its last, in which it also gives its result on its way.
    """
    if row[f.OP] != f.ALU or clockwork[STALE] == 0 or row[f.COUNT] <= 0:
        return count
    cycles = clockwork[TWO_OPERANDS] if row[f.USE_IMM] == f.BOTH else clockwork[IMMEDIATE]
    far = (clockwork[STALE] + cycles - 1) // cycles
    recent, number = np.zeros(far, np.int64), 0
    for i in range(row[f.OUTER]):
        for j in range(row[f.INNER]):
            for u in range(row[f.COUNT]):
                word = np.int64(uop[row[f.BEGIN] + u])
                dst = ((word >> fields[0]) & ((1 << fields[1]) - 1)) + i * row[f.DST_OUT] + j * row[f.DST_IN]
                src = ((word >> fields[2]) & ((1 << fields[3]) - 1)) + i * row[f.SRC_OUT] + j * row[f.SRC_IN]
                for back in range(1, min(far, number) + 1):
                    before = recent[(number - back) % far]
                    if row[f.USE_IMM] != f.WITH_DST and src == before:
                        count = _report(findings, count, UNFINISHED, 0, index, ACC, src)
                    if row[f.USE_IMM] != f.WITH_SRC and dst == before and back * cycles <= clockwork[STALE]:
                        count = _report(findings, count, UNFINISHED, 0, index, ACC, dst)
                recent[number % far] = dst
                number += 1
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
def _take(row: Int64, clock: Int64, tokens: Int64, pops: Int64, sent: Int64, carried: Int64, sender: Int64) -> bool:
    """Take the tokens that ``row`` waits for and join their senders' clocks; false, and nothing, if one is missing.

    ``carried`` (queues, tokens, 3) has the clocks that came with the tokens that were there before the launch,
    ``sender`` (queues, n, 3) those of this launch.
    """
    for column in (POP_A, POP_B):
        queue = row[column]
        if queue >= 0 and pops[queue] >= tokens[queue] + sent[queue]:
            return False
    for column in (POP_A, POP_B):
        queue = row[column]
        if queue >= 0:
            number = pops[queue]
            pops[queue] += 1
            for unit in range(3):
                if number < tokens[queue]:
                    clock[unit] = max(clock[unit], carried[queue, number, unit])
                else:
                    clock[unit] = max(clock[unit], sender[queue, number - tokens[queue], unit])
    return True


@compiled
def _send(row: Int64, clock: Int64, sent: Int64, sender: Int64) -> None:
    """Send the tokens of ``row``, which has ended: with the clock of whoever comes after it."""
    for column in (PUSH_A, PUSH_B):
        queue = row[column]
        if queue >= 0:
            for unit in range(3):
                sender[queue, sent[queue], unit] = clock[unit]
            sender[queue, sent[queue], row[UNIT]] = clock[PLACE] + 1
            sent[queue] += 1


@compiled
def _list(order: Int64, lists: Int64, lengths: Int64) -> None:
    """Each unit's instructions in order, and how many."""
    for index in range(len(order)):
        unit = order[index, UNIT]
        lists[unit, lengths[unit]] = index
        lengths[unit] += 1


@compiled
def find_hazards(
    table: Int64,
    order: Int64,
    before: Int64,
    done: Int64,
    tokens: Int64,
    carried: Int64,
    sender: Int64,
    sent: Int64,
    pops: Int64,
    uop: Int32,
    dram: Int32,
    fields: Int64,
    sizes: Int64,
    granule: int,
    bases: Int64,
    known: Bytes,
    last: Int32,
    loaded: Int32,
    clockwork: Int64,
    clocks: Int64,
    findings: Int64,
) -> tuple[int, int]:
    """Run a launch in any order that its tokens allow, and note what they leave open.

    Returns the instructions that could run, and the findings, which may be more than there is room for.

    Args:
        table: the function kernel's (n, 17).
        order: units and queues (n, 5).
        before: for each unit the clock (3, 3) that its first instruction starts from.
        done: instructions (3,) that each unit ran in earlier launches; becomes what it has run now.
        tokens: in the queues (queues,) when the launch begins.
        carried: the clocks (queues, tokens, 3) of those tokens.
        sender: room (queues, n, 3) for the clocks of tokens sent.
        sent: tokens sent and
        pops: tokens taken (queues,), both zero.
        uop: the micro-op memory, which becomes what the launch leaves in it.
        dram: as the launch finds it.
        fields: (lsb, bits) of the micro-op's dst, src and wgt.
        sizes: (ops, 2), for each kind of copy its memory and the bytes of an element in DRAM.
        granule: bytes of DRAM that are kept apart.
        bases: first row of each memory in ``known`` and ``last``.
        known: (elements,) whether anybody wrote it.
        last: (elements, 6) places of the last writers and readers by unit.
        loaded: (elements of the accumulator,), see ``_out_memory``; empty where a store reads the accumulator.
        clockwork: the ALU's (3,).
        clocks: room (n, 4).
        findings: room (any, 6).
    """
    lists, lengths = np.zeros((3, len(order)), np.int64), np.zeros(3, np.int64)
    _list(order, lists, lengths)
    place = np.zeros(3, np.int64)
    grid, who = np.zeros(7, np.int64), np.zeros(3, np.int64)
    ran, count, moved = 0, 0, True
    while moved:
        moved = False
        for unit in range(3):
            while place[unit] < lengths[unit]:
                index = lists[unit, place[unit]]
                clock, row = clocks[index], table[index]
                known_before = clocks[lists[unit, place[unit] - 1]] if place[unit] > 0 else before[unit]
                clock[:3] = known_before[:3]
                if not _take(order[index], clock, tokens, pops, sent, carried, sender):
                    break
                clock[unit] = clock[PLACE] = done[unit]
                who[0], who[1], who[2] = index, unit, done[unit]
                for number in range(_grids(row)):
                    _grid(row, number, uop, fields, sizes, granule, grid)
                    reach = grid[1] + (grid[2] - 1) * grid[3] + (grid[4] - 1) * grid[5]
                    base = bases[grid[0]]
                    if base + reach < bases[grid[0] + 1]:  # what is out of range the function engine diagnoses
                        count = _touch(grid, who, clock, known, last, base, findings, count)
                        count = _out_memory(row, grid, who, loaded, findings, count)
                count = _unfinished(row, index, uop, fields, clockwork, findings, count)
                if row[f.OP] == f.LOAD_UOP:
                    _load_microops(row, uop, dram)
                _send(order[index], clock, sent, sender)
                place[unit] += 1
                done[unit] += 1
                ran += 1
                moved = True
    return ran, count
