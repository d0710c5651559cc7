"""Kernels of the hazard check: accesses that nothing orders, and reads of what nothing wrote, box by box.

What orders them is an order in which tokens let the launch run, and what has ended before each instruction, whatever
the times.
"""

import numpy as np

from accel.isa.explicit.hazards.accesses import BEGIN, EXTENT, HIGH, LOW, MEMORY, READS, SPAN, STEP, WRITES
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Bytes, Int32, Int64


@compiled
def order_launch(
    unit: Int64,
    pop_start: Int64,
    pops: Int64,
    push_start: Int64,
    pushes: Int64,
    tokens: Int64,
    clock: Int64,
    order: Int64,
) -> int:
    """Fill ``order`` (n,), and ``clock`` (n, units): instructions of each unit that have ended when one starts.

    Clocks count from the launch: all before it has ended. A token says that its sender has ended, and what the sender
    knew; the k-th that is taken from a queue is the k-th that was sent to it, after the ``tokens`` (queues,) that
    were there. These become what is left. Returns how many can run: fewer than n in a deadlock.
    """
    count, units = clock.shape
    sent, taken = np.zeros(len(tokens), np.int64), np.zeros(len(tokens), np.int64)
    first, sender = np.zeros(len(tokens) + 1, np.int64), np.empty(len(pushes), np.int64)
    _find_offsets(pushes, first)
    found = np.empty(len(tokens), np.int64)
    found[:] = tokens
    following, heads, last = np.full(count, count), np.full(units, count), np.full(units, -1)
    for index in range(count - 1, -1, -1):
        following[index], heads[unit[index]] = heads[unit[index]], index
    done, moved = 0, True
    while moved:
        moved = False
        for own in range(units):
            index = heads[own]
            while index < count and _has_tokens(pop_start, pops, tokens, index):
                _learn_from_unit(clock, index, own, last[own])
                for at in range(pop_start[index], pop_start[index + 1]):
                    queue = pops[at]
                    if taken[queue] >= found[queue]:
                        _learn_from_sender(clock, index, sender[first[queue] + taken[queue] - found[queue]], unit)
                    taken[queue] += 1
                    tokens[queue] -= 1
                for at in range(push_start[index], push_start[index + 1]):
                    queue = pushes[at]
                    sender[first[queue] + sent[queue]] = index
                    sent[queue] += 1
                    tokens[queue] += 1
                order[done] = index
                done += 1
                moved = True
                last[own], index = index, following[index]
            heads[own] = index
    return done


@compiled
def _find_offsets(pushes: Int64, first: Int64) -> None:
    """Where the senders of each queue begin."""
    for queue in pushes:
        first[queue + 1] += 1
    for queue in range(len(first) - 1):
        first[queue + 1] += first[queue]


@compiled
def _has_tokens(pop_start: Int64, pops: Int64, tokens: Int64, index: int) -> bool:
    """Whether there is a token in every queue that an instruction pops from."""
    found = True
    for at in range(pop_start[index], pop_start[index + 1]):
        found &= tokens[pops[at]] > 0
    return found


@compiled
def _learn_from_unit(clock: Int64, index: int, own: int, before: int) -> None:
    """An instruction knows what the one before it in its unit knew, and that this one has ended."""
    if before >= 0:
        for other in range(clock.shape[1]):
            clock[index, other] = clock[before, other] + (other == own)


@compiled
def _learn_from_sender(clock: Int64, index: int, sender: int, unit: Int64) -> None:
    """It learns what the sender of a token knew, and that the sender has ended."""
    for other in range(clock.shape[1]):
        ended = clock[sender, other] + (unit[sender] == other)
        clock[index, other] = max(clock[index, other], ended)


# columns of a finding: the place of the first instruction in its unit, and the unit; the second one; the memory, and
# the range that both touch, in cells from the memory's first
FINDING = 6
UNIT, PLACE, SECOND, WHERE, FROM, TO = range(FINDING)

# columns of a cell's history: the unit that wrote it last and which of its instructions did, each and 1, so that 0 is
# nobody; then for each unit its last read since
WRITER, WRITTEN, READ = range(3)


@compiled
def find_unwritten(
    table: Int64, start: Int64, order: Int64, bases: Int64, granule: int, known: Bytes, until: Int64, findings: Int64
) -> int:
    """Find reads of cells that are not ``known``, instruction by instruction; then its writes are known.

    ``table`` and ``start`` are :class:`~accel.isa.explicit.hazards.accesses.Accesses`. ``bases`` (memories + 1,) is
    the first cell of each memory and of DRAM; ``until`` (memories + 1,) is where each is known up to, which is brought
    forward: most boxes end before it, and are not looked at cell by cell. Returns how many accesses are found; those
    beyond ``findings`` are not kept.
    """
    found = 0
    for memory in range(len(until)):
        _bring_forward(until, memory, bases, known)
    for index in order:
        for access in range(start[index], start[index + 1]):
            if (
                table[access, READS]
                and _end(table, access, bases, granule) > until[table[access, MEMORY]]
                and _missing(table, access, bases, granule, known)
            ):
                if found < len(findings):
                    findings[found, SECOND], findings[found, WHERE] = index, table[access, MEMORY]
                    findings[found, FROM], findings[found, TO] = table[access, LOW], table[access, HIGH]
                found += 1
        for access in range(start[index], start[index + 1]):
            if table[access, WRITES] and _end(table, access, bases, granule) > until[table[access, MEMORY]]:
                for run in range(_runs(table, access)):
                    low, high = _run(table, access, run, bases, granule)
                    known[low:high] = 1
                _bring_forward(until, table[access, MEMORY], bases, known)
    return found


@compiled
def _end(table: Int64, access: int, bases: Int64, granule: int) -> int:
    """The cell after the last of a box."""
    memory = table[access, MEMORY]
    size = granule if memory == len(bases) - 1 else 1
    return int(bases[memory] - (-table[access, HIGH] // size))


@compiled
def _bring_forward(until: Int64, memory: int, bases: Int64, known: Bytes) -> None:
    """Move ``until`` of a memory to its first cell that is not known, or its end."""
    end = bases[memory + 1] if memory + 1 < len(bases) else len(known)
    cell = until[memory]
    while cell < end and known[cell]:
        cell += 1
    until[memory] = cell


@compiled
def find_races(  # noqa: PLR0913, PLR0917  arrays one by one
    table: Int64,
    start: Int64,
    order: Int64,
    unit: Int64,
    clock: Int64,
    done: Int64,
    bases: Int64,
    granule: int,
    last: Int32,
    findings: Int64,
) -> int:
    """Find accesses of a cell, one of them a write, that the clocks (n, units) do not order.

    ``last`` (cells, 2 + units) is their history, ``done`` (units,) counts the instructions before the launch, and
    then all. Returns how many runs of cells are found; those beyond ``findings`` are not kept.
    """
    found = 0
    first = np.empty(len(done), np.int64)
    first[:] = done
    for index in order:
        own = unit[index]
        for access in range(start[index], start[index + 1]):
            for run in range(_runs(table, access)):
                low, high = _run(table, access, run, bases, granule)
                for cell in range(low, high):
                    other = _unordered(last, cell, own, clock, index, first, table[access, WRITES])
                    if other >= 0:
                        place = last[cell, WRITTEN] if other == last[cell, WRITER] - 1 else last[cell, READ + other]
                        at = cell - bases[table[access, MEMORY]]
                        found = _add_finding(findings, found, other, place - 1, index, table[access, MEMORY], at)
                    _add_access(last, cell, own, done[own], table[access, READS], table[access, WRITES])
        done[own] += 1
    return found


@compiled
def _unordered(last: Int32, cell: int, own: int, clock: Int64, index: int, first: Int64, writes: int) -> int:
    """The unit whose access of a cell may still be under way, or -1."""
    writer = int(last[cell, WRITER]) - 1
    if writer >= 0 and writer != own and last[cell, WRITTEN] > first[writer] + clock[index, writer]:
        return writer
    if writes:
        for other in range(clock.shape[1]):
            if other != own and last[cell, READ + other] > first[other] + clock[index, other]:
                return other
    return -1


@compiled
def _add_access(last: Int32, cell: int, own: int, place: int, reads: int, writes: int) -> None:
    """Add an access to a cell's history; a write ends that of the reads before it."""
    if writes:
        last[cell, :] = 0
        last[cell, WRITER], last[cell, WRITTEN] = own + 1, place + 1
    if reads:
        last[cell, READ + own] = place + 1


@compiled
def _add_finding(findings: Int64, found: int, unit: int, place: int, second: int, memory: int, at: int) -> int:
    """Keep a finding, or let the last one reach to this cell. Returns how many there are."""
    if 0 < found <= len(findings):
        row = findings[found - 1]
        same = row[UNIT] == unit and row[PLACE] == place and row[SECOND] == second and row[WHERE] == memory
        if same:
            row[FROM], row[TO] = min(row[FROM], at), max(row[TO], at + 1)
            return found
    if found < len(findings):
        row = findings[found]
        row[UNIT], row[PLACE], row[SECOND], row[WHERE], row[FROM], row[TO] = unit, place, second, memory, at, at + 1
    return found + 1


@compiled
def _missing(table: Int64, access: int, bases: Int64, granule: int, known: Bytes) -> bool:
    """Whether a cell of a box is not known."""
    for run in range(_runs(table, access)):
        low, high = _run(table, access, run, bases, granule)
        for cell in range(low, high):
            if not known[cell]:
                return True
    return False


@compiled
def _runs(table: Int64, access: int) -> int:
    """How many runs of neighbouring elements a box has."""
    return int(table[access, EXTENT] * table[access, EXTENT + 1] * table[access, EXTENT + 2])


@compiled
def _run(table: Int64, access: int, run: int, bases: Int64, granule: int) -> tuple[int, int]:
    """The cells ``[low, high)`` of one of them."""
    outer, k = divmod(run, table[access, EXTENT + 2])
    i, j = divmod(outer, table[access, EXTENT + 1])
    begin = table[access, BEGIN] + i * table[access, STEP] + j * table[access, STEP + 1] + k * table[access, STEP + 2]
    base, size = bases[table[access, MEMORY]], granule if table[access, MEMORY] == len(bases) - 1 else 1
    return base + begin // size, base - (-(begin + table[access, SPAN]) // size)
