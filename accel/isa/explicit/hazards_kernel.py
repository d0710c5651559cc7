"""Finding accesses that nothing orders, and reads of what nobody wrote, box by box and cell by cell.

Cells are elements of all memories, one after the other, and then granules of DRAM.
"""

import numpy as np
import numpy.typing as npt

from accel.isa.compiled import compiled
from accel.isa.explicit.accesses import BEGIN, EXTENT, HIGH, LOW, MEMORY, READS, SPAN, STEP, WRITES

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]

# columns of a finding: the place of the first instruction in its unit, and the unit; the second one; the memory, and
# the range that both touch, in cells from the memory's first
FINDING = 6
UNIT, PLACE, SECOND, WHERE, FROM, TO = range(FINDING)

# columns of a cell's history: the unit that wrote it last and which of its instructions did, each and 1, so that 0 is
# nobody; then for each unit its last read since
WRITER, WRITTEN, READ = range(3)


@compiled
def unwritten(
    table: Int64, start: Int64, order: Int64, bases: Int64, granule: int, known: Bytes, findings: Int64
) -> int:
    """Find reads of cells that are not ``known``, instruction by instruction; then its writes are known.

    ``table`` and ``start`` are :class:`accel.isa.explicit.accesses.Accesses`. ``bases`` (memories + 1,) is the first
    cell of each memory and of DRAM. Returns how many accesses are found; those beyond ``findings`` are not kept.
    """
    found = 0
    for index in order:
        for access in range(start[index], start[index + 1]):
            if table[access, READS] and _missing(table, access, bases, granule, known):
                if found < len(findings):
                    findings[found, SECOND], findings[found, WHERE] = index, table[access, MEMORY]
                    findings[found, FROM], findings[found, TO] = table[access, LOW], table[access, HIGH]
                found += 1
        for access in range(start[index], start[index + 1]):
            if table[access, WRITES]:
                for run in range(_runs(table, access)):
                    low, high = _run(table, access, run, bases, granule)
                    known[low:high] = 1
    return found


@compiled
def races(  # noqa: PLR0913, PLR0917  arrays one by one, as numba takes them
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
    first = done.copy()
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
                        found = _note(findings, found, other, place - 1, index, table[access, MEMORY], at)
                    _touch(last, cell, own, done[own], table[access, READS], table[access, WRITES])
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
def _touch(last: Int32, cell: int, own: int, place: int, reads: int, writes: int) -> None:
    """Add an access to a cell's history; a write ends that of the reads before it."""
    if writes:
        last[cell, :] = 0
        last[cell, WRITER], last[cell, WRITTEN] = own + 1, place + 1
    if reads:
        last[cell, READ + own] = place + 1


@compiled
def _note(findings: Int64, found: int, unit: int, place: int, second: int, memory: int, at: int) -> int:
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
