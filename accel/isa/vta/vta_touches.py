"""What VTA's instructions touch on the chip, as ranges of elements that hold all that they access."""

from collections.abc import Iterable, Iterator

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


def touches_of(decoded: Decoded, rows: Int64, read: ReadDram) -> Touches:
    """Returns what the instructions ``rows`` of a launch touch; ``read`` tells the micro-ops that it loads."""
    table = launch_table(decoded)
    wanted = np.zeros(len(table), np.bool_)
    wanted[rows] = True
    last = int(rows.max()) + 1 if len(rows) else 0
    return _touches(
        decoded.accelerator, table, np.flatnonzero(wanted), _microops(decoded.accelerator, table[:last], read)
    )


def all_touches(decoded: Decoded, microops: Int64) -> Touches:
    """Returns what all instructions of a launch touch, which has its ``microops`` in the memory from 0 on all along."""
    table = launch_table(decoded)
    return _touches(decoded.accelerator, table, np.arange(len(table)), [(0, len(table), microops)])


def microops_at(load: Int64, read: ReadDram) -> Int64:
    """Returns the micro-ops (rows * columns,) that a load, a row of a launch's table, brings."""
    begins = (int(load[f.DRAM]) + np.arange(load[f.ROWS]) * int(load[f.STRIDE])) * _WORD
    size = int(load[f.COLUMNS]) * _WORD
    return np.frombuffer(b"".join(read(begin, size) for begin in begins.tolist()), "<u4").astype(np.int64)


def idle_words(accelerator: Accelerator) -> dict[str, Words]:
    """Returns for each unit the words (words_each,) of a copy of nothing: it waits for tokens and sends them."""
    values, found = encoding_arrays(accelerator).values, dict[str, Words]()
    for number, instruction in enumerate(accelerator.instructions):
        if isinstance(instruction, Copy) and instruction.unit not in found:
            found[instruction.unit] = values[number]
    return found


def _microops(accelerator: Accelerator, table: Int64, read: ReadDram) -> Iterator[tuple[int, int, Int64]]:
    """Yields the memory of micro-ops as instructions ``[begin, end)`` find it, for one such range after the other."""
    memory = np.zeros(accelerator.memory(instructions_of(accelerator).microops).depth, np.int64)
    begin = 0
    for load in np.flatnonzero(table[:, f.OP] == f.LOAD_UOP).tolist():
        yield begin, load, memory
        row, begin = table[load], load
        data = microops_at(row, read).reshape(row[f.ROWS], row[f.COLUMNS])
        at = row[f.SRAM] + (np.arange(row[f.ROWS]) + row[f.TOP]) * row[f.WIDTH] + row[f.LEFT]
        memory[at[:, None] + np.arange(row[f.COLUMNS])] = data
    yield begin, len(table), memory


def _touches(
    accelerator: Accelerator,
    table: Int64,
    rows: Int64,
    microops: Iterable[tuple[int, int, Int64]],
) -> Touches:
    vta, names = instructions_of(accelerator), [memory.name for memory in accelerator.memories]
    places = uop, inp, wgt, acc = [names.index(name) for name in vta.memories]
    ops = table[rows, f.OP]
    found = [_copies(table, rows[(ops > f.NOTHING) & (ops < f.GEMM)], places)]
    computing = rows[(ops >= f.GEMM) & (table[rows, f.COUNT] > 0)]
    found.append(_columns(computing, uop, table[computing, f.BEGIN], table[computing, f.COUNT], write=False))
    for begin, end, memory in microops:
        own = computing[(computing >= begin) & (computing < end)]
        lowest, highest = _bases(accelerator, table[own], memory)
        for op, memories in ((f.GEMM, (acc, inp, wgt)), (f.RESET, (acc,)), (f.ALU, (acc, acc))):
            which = table[own, f.OP] == op
            for operand, where in enumerate(memories):
                low, reach = lowest[which, operand], _reach(table[own[which]], operand)
                size = highest[which, operand] + reach + 1 - low
                found.append(_columns(own[which], where, low, size, write=operand == 0))
    columns = np.concatenate(found)
    instruction, at, begins, ends, write = columns[np.argsort(columns[:, 0], kind="stable")].T
    return Touches(instruction, at, begins, ends, write != 0)


def _columns(rows: Int64, memory: Int64 | int, begin: Int64, size: Int64, *, write: Int64 | bool) -> Int64:
    columns = np.empty((len(rows), _COLUMNS), np.int64)
    columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3], columns[:, 4] = rows, memory, begin, begin + size, write
    return columns


def _copies(table: Int64, rows: Int64, places: list[int]) -> Int64:
    uop, inp, wgt, acc = places
    ops = table[rows, f.OP]
    memory = np.full(f.ALU + 1, acc, np.int64)
    memory[[f.LOAD_UOP, f.LOAD_INP, f.LOAD_WGT]] = uop, inp, wgt
    store = ops == f.STORE
    sizes = np.where(store, table[rows, f.ROWS] * table[rows, f.COLUMNS], table[rows, f.HEIGHT] * table[rows, f.WIDTH])
    found = _columns(rows, memory[ops], table[rows, f.SRAM], sizes, write=np.asarray(~store, np.int64))
    return np.asarray(found[sizes > 0])


def _reach(table: Int64, operand: int) -> Int64:
    """How far the loops of instructions go beyond their micro-ops."""
    out, inner = table[:, f.DST_OUT + 2 * operand], table[:, f.DST_IN + 2 * operand]
    reach: Int64 = (table[:, f.OUTER] - 1) * out + (table[:, f.INNER] - 1) * inner
    return reach


def _bases(accelerator: Accelerator, table: Int64, microops: Int64) -> tuple[Int64, Int64]:
    """The least and the greatest index (n, 3) of each operand in the micro-ops that instructions walk."""
    ranges, which = np.unique(table[:, [f.BEGIN, f.COUNT]], axis=0, return_inverse=True)
    lowest, highest = np.zeros((len(ranges), f.UOP), np.int64), np.zeros((len(ranges), f.UOP), np.int64)
    for number, (begin, count) in enumerate(ranges.tolist()):
        words = microops[begin : begin + count]
        for operand, (lsb, bits) in enumerate(microop_places(accelerator)):
            bases = (words >> lsb) & ((1 << bits) - 1)
            lowest[number, operand], highest[number, operand] = bases.min(), bases.max()
    which = which.reshape(-1)
    return np.asarray(lowest[which]), np.asarray(highest[which])
