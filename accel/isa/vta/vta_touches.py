"""What VTA's instructions touch on the chip, as ranges of elements that hold all that they access."""

from collections.abc import Sequence

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy
from accel.isa.decode import Decoded, encoding_arrays
from accel.isa.family import ReadDram, Touches
from accel.isa.vta.document.instruction_view import instructions_of
from accel.isa.vta.function import functional_table as f
from accel.isa.vta.function.functional_table import microop_places
from accel.isa.vta.function.launch_table import launch_table
from accel.util.arrays import Int64, Words

_WORD = 4  # bytes of a micro-op
_COLUMNS = 5
_Range = tuple[int, int, int, int, bool]  # instruction, memory, begin, end, whether it writes


def touches_of(decoded: Decoded, rows: Int64, read: ReadDram) -> Touches:
    """Returns what the instructions ``rows`` of a launch touch; ``read`` tells the micro-ops that it loads."""
    vta, accelerator = instructions_of(decoded.accelerator), decoded.accelerator
    table, names = launch_table(decoded), [memory.name for memory in accelerator.memories]
    places = [names.index(name) for name in vta.memories]
    microops = np.zeros(accelerator.memory(vta.microops).depth, np.int64)
    loads = iter(np.flatnonzero(table[:, f.OP] == f.LOAD_UOP).tolist())
    load = next(loads, len(table))
    found: list[_Range] = []
    for row in np.sort(rows).tolist():
        while load < row:
            _load_microops(table[load].tolist(), microops, read)
            load = next(loads, len(table))
        found += _ranges(row, table[row].tolist(), microops, places, microop_places(accelerator))
    instruction, memory, begin, end, write = np.array(found, np.int64).reshape(-1, _COLUMNS).T
    return Touches(instruction, memory, begin, end, write != 0)


def idle_words(accelerator: Accelerator) -> dict[str, Words]:
    """Returns for each unit the words (words_each,) of a copy of nothing: it waits for tokens and sends them."""
    values, found = encoding_arrays(accelerator).values, dict[str, Words]()
    for number, instruction in enumerate(accelerator.instructions):
        if isinstance(instruction, Copy) and instruction.unit not in found:
            found[instruction.unit] = values[number]
    return found


def _load_microops(row: list[int], microops: Int64, read: ReadDram) -> None:
    for y in range(row[f.ROWS]):
        at = row[f.SRAM] + (y + row[f.TOP]) * row[f.WIDTH] + row[f.LEFT]
        data = read((row[f.DRAM] + y * row[f.STRIDE]) * _WORD, row[f.COLUMNS] * _WORD)
        microops[at : at + row[f.COLUMNS]] = np.frombuffer(data, "<u4")


def _ranges(
    number: int, row: list[int], microops: Int64, places: Sequence[int], fields: Sequence[tuple[int, int]]
) -> list[_Range]:
    op, (uop, inp, wgt, acc) = row[f.OP], places
    if op == f.NOTHING:
        return []
    if op < f.GEMM:
        memory = {f.LOAD_UOP: uop, f.LOAD_INP: inp, f.LOAD_WGT: wgt}.get(op, acc)
        store = op == f.STORE
        size = row[f.ROWS] * row[f.COLUMNS] if store else row[f.HEIGHT] * row[f.WIDTH]
        return [(number, memory, row[f.SRAM], row[f.SRAM] + size, not store)] if size else []
    words = microops[row[f.BEGIN] : row[f.BEGIN] + row[f.COUNT]]
    if not len(words) or not row[f.OUTER] * row[f.INNER]:
        return []
    found = [(number, uop, row[f.BEGIN], row[f.BEGIN] + row[f.COUNT], False)]
    operands = {f.GEMM: (acc, inp, wgt), f.ALU: (acc, acc)}.get(op, (acc,))
    for operand, memory in enumerate(operands):
        lsb, bits = fields[operand]
        bases = (words >> lsb) & ((1 << bits) - 1)
        out, inner = row[f.DST_OUT + 2 * operand], row[f.DST_IN + 2 * operand]
        reach = (row[f.OUTER] - 1) * out + (row[f.INNER] - 1) * inner
        found.append((number, memory, int(bases.min()), int(bases.max()) + reach + 1, operand == 0))
    return found
