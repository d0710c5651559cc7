"""Launch as VTA's functional kernel takes it, one row an instruction; and the shapes the kernel is made for."""

from dataclasses import dataclass

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy
from accel.errors import InvalidAccelerator
from accel.isa.decode import Decoded
from accel.isa.vta.document.instruction_view import Alu, Gemm, Vta, instructions_of
from accel.util.arrays import Int64, aligned_zeros


@dataclass(frozen=True)
class Geometry:
    """What the kernel is specialised to: the shapes of elements. Documents that differ in sizes share a kernel."""

    batch: int
    block_in: int
    block_out: int

    @staticmethod
    def of(accelerator: Accelerator) -> "Geometry":
        """Those of a document that :func:`accel.isa.vta.document.vta_document_check.check_vta` takes."""
        vta = instructions_of(accelerator)
        batch, block_in = accelerator.memory(vta.data).shape
        block_out, _ = accelerator.memory(vta.weights).shape
        return Geometry(batch, block_in, block_out)


# a micro-op as the kernel keeps it: its indices
UOP = 3
DST_INDEX, SRC_INDEX, WGT_INDEX = range(UOP)


def microop_places(accelerator: Accelerator) -> tuple[tuple[int, int], ...]:
    """Returns where the indices of results, data and weights stand in a micro-op, as (lsb, bits)."""
    vta = instructions_of(accelerator)
    table = vta.gemm.instruction.microops
    assert table is not None
    place = {table.operands[f.name]: (f.lsb, f.bits) for f in table.fields if f.name in table.operands}
    return tuple(place[name] for name in (vta.gemm.dst, vta.gemm.data, vta.gemm.weights))


def microop_fields(accelerator: Accelerator) -> Int64:
    """Returns how far a micro-op is shifted for each index, and what masks it then, (2 * UOP,)."""
    fields = aligned_zeros(2 * UOP * 8).view(np.int64)
    fields[:] = [part for lsb, bits in microop_places(accelerator) for part in (lsb, (1 << bits) - 1)]
    return fields


# columns of the instruction table
TABLE = 17
OP = 0
SRAM, DRAM, ROWS, COLUMNS, STRIDE, TOP, LEFT, HEIGHT, WIDTH = range(1, 10)
BEGIN, COUNT, OUTER, INNER, DST_OUT, DST_IN, SRC_OUT, SRC_IN, WGT_OUT, WGT_IN = range(1, 11)
DST_LIMIT, SRC_LIMIT, WGT_LIMIT, CODE, USE_IMM, IMM = range(11, TABLE)
# values of OP
NOTHING, LOAD_UOP, LOAD_INP, LOAD_WGT, LOAD_ACC, LOAD_ACC8, STORE, GEMM, RESET, ALU = range(10)
# values of USE_IMM: the second operand is src; it is IMM and the first is dst; it is IMM and the first is src
BOTH, WITH_DST, WITH_SRC = range(3)
# values of CODE
MIN, MAX, ADD, SHIFT_RIGHT, MULTIPLY = range(5)
# the status: which index was out of range, at which instruction and micro-op, its value
STATUS = 4
FINE, BAD_DST, BAD_SRC, BAD_WGT = range(4)


_CODES = {
    "min": MIN,
    "max": MAX,
    "add": ADD,
    "shift_right": SHIFT_RIGHT,
    "multiply": MULTIPLY,
}
_NO_LIMIT = np.iinfo(np.int64).max


def launch_table(decoded: Decoded) -> Int64:
    """The kernel's table (n, 17) of the launch.

    Raises:
        SimulationError: an ALU operation that the document does not have.
    """
    table = aligned_zeros(len(decoded) * TABLE * 8).view(np.int64).reshape(-1, TABLE)
    vta = instructions_of(decoded.accelerator)
    for copy in decoded.accelerator.instructions:
        if isinstance(copy, Copy):
            rows = decoded.rows(copy)
            table[rows] = _copy_rows(decoded, vta, copy, rows)
    rows = decoded.rows(vta.gemm.instruction)
    table[rows] = _gemm_rows(decoded, vta.gemm, rows)
    rows = decoded.rows(vta.alu.instruction)
    table[rows] = _alu_rows(decoded, vta.alu, rows)
    return table


def copy_opcode(vta: Vta, copy: Copy) -> int:
    """The kernel's operation that does ``copy``.

    Raises:
        InvalidAccelerator: there is none.
    """
    ops = {
        ("load", vta.microops, "uint32"): LOAD_UOP,
        ("load", vta.data, "int8"): LOAD_INP,
        ("load", vta.weights, "int8"): LOAD_WGT,
        ("load", vta.results, "int32"): LOAD_ACC,
        ("load", vta.results, "int8"): LOAD_ACC8,
        ("store", vta.results, "int8"): STORE,
    }
    found = ops.get((copy.direction, copy.memory, copy.dram_dtype))
    if found is None:
        raise InvalidAccelerator(
            f"no kernel has a {copy.direction} of {copy.memory} as {copy.dram_dtype}", field=f"instructions.{copy.name}"
        )
    return found


def _copy_rows(decoded: Decoded, vta: Vta, copy: Copy, rows: Int64) -> Int64:
    fields = copy.copy_fields

    def column(name: str | None) -> Int64:
        return decoded.column(name)[rows]

    table = np.zeros((len(rows), TABLE), np.int64)
    table[:, OP] = copy_opcode(vta, copy)
    table[:, SRAM] = column(fields.sram)
    table[:, DRAM] = column(fields.dram)
    table[:, ROWS] = column(fields.rows)
    table[:, COLUMNS] = column(fields.columns)
    table[:, STRIDE] = column(fields.row_stride)
    table[:, TOP] = column(fields.pad_top)
    table[:, LEFT] = column(fields.pad_left)
    table[:, HEIGHT] = column(fields.pad_top) + column(fields.rows) + column(fields.pad_bottom)
    table[:, WIDTH] = column(fields.pad_left) + column(fields.columns) + column(fields.pad_right)
    table[column(fields.rows) * column(fields.columns) == 0] = 0
    return table


def _gemm_rows(decoded: Decoded, gemm: Gemm, rows: Int64) -> Int64:
    table = _loop_rows(decoded, gemm.instruction, rows)
    reset = decoded.column(gemm.reset)[rows] != 0
    table[:, OP] = np.where(reset, RESET, GEMM)
    _operand(decoded, gemm.instruction, gemm.dst, rows, table, (DST_OUT, DST_LIMIT))
    _operand(decoded, gemm.instruction, gemm.data, rows, table, (SRC_OUT, SRC_LIMIT))
    _operand(decoded, gemm.instruction, gemm.weights, rows, table, (WGT_OUT, WGT_LIMIT))
    table[np.ix_(reset, [SRC_LIMIT, WGT_LIMIT])] = _NO_LIMIT
    return table


def _alu_rows(decoded: Decoded, alu: Alu, rows: Int64) -> Int64:
    table = _loop_rows(decoded, alu.instruction, rows)
    table[:, OP] = ALU
    table[:, CODE] = _operation_codes(decoded, alu, rows)
    immediate = WITH_SRC if alu.immediate_with == "src" else WITH_DST
    table[:, USE_IMM] = np.where(decoded.column(alu.use_immediate)[rows] != 0, immediate, BOTH)
    table[:, IMM] = decoded.column(alu.immediate)[rows]
    _operand(decoded, alu.instruction, alu.dst, rows, table, (DST_OUT, DST_LIMIT))
    _operand(decoded, alu.instruction, alu.src, rows, table, (SRC_OUT, SRC_LIMIT))
    table[table[:, USE_IMM] == WITH_DST, SRC_LIMIT] = _NO_LIMIT
    table[:, WGT_LIMIT] = _NO_LIMIT
    return table


def _loop_rows(decoded: Decoded, instruction: Compute, rows: Int64) -> Int64:
    """Micro-ops and loops of both computing instructions."""
    table = np.zeros((len(rows), TABLE), np.int64)
    microops, (outer, inner) = instruction.microops, instruction.loops
    assert microops is not None
    begin, end = decoded.column(microops.begin)[rows], decoded.column(microops.end)[rows]
    table[:, BEGIN] = begin
    table[:, OUTER], table[:, INNER] = (decoded.column(loop.extent)[rows] for loop in (outer, inner))
    table[:, COUNT] = np.where(table[:, OUTER] * table[:, INNER] == 0, 0, end - begin)
    return table


def _operand(
    decoded: Decoded, instruction: Compute, name: str, rows: Int64, table: Int64, columns: tuple[int, int]
) -> None:
    """The steps of an operand in both loops, and the largest index of a micro-op that the loops do not step beyond."""
    steps, limit = columns
    for side, loop in enumerate(instruction.loops):
        table[:, steps + side] = decoded.column(loop.factors[name])[rows]
    reach = (table[:, OUTER] - 1) * table[:, steps] + (table[:, INNER] - 1) * table[:, steps + 1]
    table[:, limit] = decoded.accelerator.memory(instruction.operands[name].memory).depth - 1 - reach


def _operation_codes(decoded: Decoded, alu: Alu, rows: Int64) -> Int64:
    values = decoded.column(alu.opcode)[rows]
    codes = np.full(1 + int(max(values.max(initial=0), *alu.codes)), -1, np.int64)
    for code, name in alu.codes.items():
        codes[code] = _CODES[name]
    wrong = np.flatnonzero(codes[values] < 0)
    if len(wrong):
        known = ", ".join(f"{name} {code}" for code, name in alu.codes.items())
        raise decoded.error(
            rows[wrong[0]],
            "undefined-opcode",
            f"operation {int(values[wrong[0]])} is undefined; there are {known}",
        )
    return codes[values]
