"""Static bounds of VTA instructions: every range that the decoded fields alone determine, checked at once."""

import numpy as np

from accel.accelerator.instructions import Compute, Copy, MicroOps
from accel.errors import Diagnosis
from accel.isa.decode import Decoded, padding_fields
from accel.util.arrays import Bools, Int64

_Found = tuple[int, Diagnosis, str]


def check_bounds(decoded: Decoded, dram_bytes: int) -> None:
    """Check on-chip and DRAM ranges of copies, and ranges of micro-ops.

    Raises:
        SimulationError: the first instruction that leaves a memory, the memory, and the index beyond its end.
    """
    found: list[_Found] = []
    for instruction in decoded.accelerator.instructions:
        if isinstance(instruction, Copy):
            found += _copy(decoded, instruction, dram_bytes)
        elif isinstance(instruction, Compute) and instruction.microops is not None:
            found += _microops(decoded, decoded.rows(instruction), instruction.microops)
    if found:
        raise decoded.error(*min(found))


def _first(wrong: Bools) -> int | None:
    """Position of the first wrong one."""
    positions = np.flatnonzero(wrong)
    return int(positions[0]) if len(positions) else None


def _copy(decoded: Decoded, copy: Copy, dram_bytes: int) -> list[_Found]:
    accelerator, fields = decoded.accelerator, copy.copy_fields
    memory = accelerator.memory(copy.memory)
    rows = decoded.rows(copy)
    rows = rows[decoded.column(fields.rows)[rows] * decoded.column(fields.columns)[rows] > 0]

    def column(name: str | None) -> Int64:
        return decoded.column(name)[rows]

    found: list[_Found] = []
    if (at := _first(_padded(decoded, copy, rows))) is not None:
        found.append((int(rows[at]), "padding", f"a {copy.direction} takes no padding, and its padding bits are set"))
    height = column(fields.pad_top) + column(fields.rows) + column(fields.pad_bottom)
    width = column(fields.pad_left) + column(fields.columns) + column(fields.pad_right)
    last = column(fields.sram) + height * width - 1
    element = copy.dram_bytes(memory)
    end = column(fields.dram) + (column(fields.rows) - 1) * column(fields.row_stride) + column(fields.columns)
    if (at := _first(last >= memory.depth)) is not None:
        message = f"index {last[at]} of {memory.name} is out of range; it has {memory.depth}"
        found.append((int(rows[at]), "memory-range", message))
    if (at := _first(end * element > dram_bytes)) is not None:
        message = f"DRAM byte {end[at] * element - 1} is out of range; the program's DRAM has {dram_bytes}"
        found.append((int(rows[at]), "dram-range", message))
    return found


def _padded(decoded: Decoded, copy: Copy, rows: Int64) -> Bools:
    """Whether an instruction that takes no padding has set a field that is the padding of another copy."""
    padded = np.zeros(len(rows), np.bool_)
    if copy.copy_fields.pad_top is None:
        others = {name for other in decoded.accelerator.instructions for name in padding_fields(other)}
        for field in copy.fields:
            if field.name in others:
                padded |= decoded.column(field.name)[rows] != 0
    return padded


def _microops(decoded: Decoded, rows: Int64, table: MicroOps) -> list[_Found]:
    memory = decoded.accelerator.memory(table.memory)
    begin, end = decoded.column(table.begin)[rows], decoded.column(table.end)[rows]
    found: list[_Found] = []
    if (at := _first(end > memory.depth)) is not None:
        message = f"index {end[at] - 1} of {memory.name} is out of range; it has {memory.depth}"
        found.append((int(rows[at]), "microop-range", message))
    if (at := _first(begin > end)) is not None:
        message = f"its micro-ops begin at {begin[at]}, after their end {end[at]}"
        found.append((int(rows[at]), "microop-range", message))
    return found
