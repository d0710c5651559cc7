"""A launch as VTA's functional kernel takes it: one row an instruction."""

import numpy as np
import numpy.typing as npt

from accel.accelerator.instructions import Compute, Copy
from accel.errors import InvalidAccelerator
from accel.isa.arrays import aligned_zeros
from accel.isa.decode import Decoded
from accel.isa.vta import function_layout as layout
from accel.isa.vta.view import Alu, Gemm, Vta, view

Int64 = npt.NDArray[np.int64]

_CODES = {
    "min": layout.MIN,
    "max": layout.MAX,
    "add": layout.ADD,
    "shift_right": layout.SHIFT_RIGHT,
    "multiply": layout.MULTIPLY,
}
_NO_LIMIT = np.iinfo(np.int64).max


def launch_table(decoded: Decoded) -> Int64:
    """The kernel's table (n, 17) of the launch.

    Raises:
        SimulationError: an ALU operation that the document does not have.
    """
    table = aligned_zeros(len(decoded) * layout.TABLE * 8).view(np.int64).reshape(-1, layout.TABLE)
    vta = view(decoded.accelerator)
    for copy in decoded.accelerator.instructions:
        if isinstance(copy, Copy):
            rows = decoded.rows(copy)
            table[rows] = _copy_rows(decoded, vta, copy, rows)
    rows = decoded.rows(vta.gemm.instruction)
    table[rows] = _gemm_rows(decoded, vta.gemm, rows)
    rows = decoded.rows(vta.alu.instruction)
    table[rows] = _alu_rows(decoded, vta.alu, rows)
    return table


def copy_operation(vta: Vta, copy: Copy) -> int:
    """The kernel's operation that does ``copy``.

    Raises:
        InvalidAccelerator: there is none.
    """
    ops = {
        ("load", vta.microops, "uint32"): layout.LOAD_UOP,
        ("load", vta.data, "int8"): layout.LOAD_INP,
        ("load", vta.weights, "int8"): layout.LOAD_WGT,
        ("load", vta.results, "int32"): layout.LOAD_ACC,
        ("load", vta.results, "int8"): layout.LOAD_ACC8,
        ("store", vta.results, "int8"): layout.STORE,
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

    table = np.zeros((len(rows), layout.TABLE), np.int64)
    table[:, layout.OP] = copy_operation(vta, copy)
    table[:, layout.SRAM] = column(fields.sram)
    table[:, layout.DRAM] = column(fields.dram)
    table[:, layout.ROWS] = column(fields.rows)
    table[:, layout.COLUMNS] = column(fields.columns)
    table[:, layout.STRIDE] = column(fields.row_stride)
    table[:, layout.TOP] = column(fields.pad_top)
    table[:, layout.LEFT] = column(fields.pad_left)
    table[:, layout.HEIGHT] = column(fields.pad_top) + column(fields.rows) + column(fields.pad_bottom)
    table[:, layout.WIDTH] = column(fields.pad_left) + column(fields.columns) + column(fields.pad_right)
    table[column(fields.rows) * column(fields.columns) == 0] = 0
    return table


def _gemm_rows(decoded: Decoded, gemm: Gemm, rows: Int64) -> Int64:
    table = _loop_rows(decoded, gemm.instruction, rows)
    reset = decoded.column(gemm.reset)[rows] != 0
    table[:, layout.OP] = np.where(reset, layout.RESET, layout.GEMM)
    _operand(decoded, gemm.instruction, gemm.dst, rows, table, (layout.DST_OUT, layout.DST_LIMIT))
    _operand(decoded, gemm.instruction, gemm.data, rows, table, (layout.SRC_OUT, layout.SRC_LIMIT))
    _operand(decoded, gemm.instruction, gemm.weights, rows, table, (layout.WGT_OUT, layout.WGT_LIMIT))
    table[np.ix_(reset, [layout.SRC_LIMIT, layout.WGT_LIMIT])] = _NO_LIMIT
    return table


def _alu_rows(decoded: Decoded, alu: Alu, rows: Int64) -> Int64:
    table = _loop_rows(decoded, alu.instruction, rows)
    table[:, layout.OP] = layout.ALU
    table[:, layout.CODE] = _operation_codes(decoded, alu, rows)
    immediate = layout.WITH_SRC if alu.immediate_with == "src" else layout.WITH_DST
    table[:, layout.USE_IMM] = np.where(decoded.column(alu.use_immediate)[rows] != 0, immediate, layout.BOTH)
    table[:, layout.IMM] = decoded.column(alu.immediate)[rows]
    _operand(decoded, alu.instruction, alu.dst, rows, table, (layout.DST_OUT, layout.DST_LIMIT))
    _operand(decoded, alu.instruction, alu.src, rows, table, (layout.SRC_OUT, layout.SRC_LIMIT))
    table[table[:, layout.USE_IMM] == layout.WITH_DST, layout.SRC_LIMIT] = _NO_LIMIT
    table[:, layout.WGT_LIMIT] = _NO_LIMIT
    return table


def _loop_rows(decoded: Decoded, instruction: Compute, rows: Int64) -> Int64:
    """Micro-ops and loops of both computing instructions."""
    table = np.zeros((len(rows), layout.TABLE), np.int64)
    microops, (outer, inner) = instruction.microops, instruction.loops
    assert microops is not None
    begin, end = decoded.column(microops.begin)[rows], decoded.column(microops.end)[rows]
    table[:, layout.BEGIN] = begin
    table[:, layout.OUTER], table[:, layout.INNER] = (decoded.column(loop.extent)[rows] for loop in (outer, inner))
    table[:, layout.COUNT] = np.where(table[:, layout.OUTER] * table[:, layout.INNER] == 0, 0, end - begin)
    return table


def _operand(
    decoded: Decoded, instruction: Compute, name: str, rows: Int64, table: Int64, columns: tuple[int, int]
) -> None:
    """The steps of an operand in both loops, and the largest index of a micro-op that the loops do not step beyond."""
    steps, limit = columns
    for side, loop in enumerate(instruction.loops):
        table[:, steps + side] = decoded.column(loop.factors[name])[rows]
    reach = (table[:, layout.OUTER] - 1) * table[:, steps] + (table[:, layout.INNER] - 1) * table[:, steps + 1]
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
