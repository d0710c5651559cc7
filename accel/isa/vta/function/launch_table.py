"""Launch as VTA's functional kernel takes it, one row an instruction, and the ranges that its fields determine."""

import functools
from dataclasses import dataclass

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import BitField, Compute, Copy, Instruction
from accel.errors import Diagnosis, InvalidAccelerator, SimulationError
from accel.isa.decode import Decoded, padding_fields
from accel.isa.kernels.compiled_kernels import Signature
from accel.isa.kernels.kernel_types import MATRIX, SCALAR, VECTOR, Array
from accel.isa.vta.document.instruction_view import Alu, Gemm, Vta, instructions_of
from accel.isa.vta.function import functional_table as layout
from accel.isa.vta.function import table_kernel as kernel
from accel.util.arrays import Int64, aligned_zeros
from accel.util.same_object import SameObject

_CODES = {
    "min": layout.MIN,
    "max": layout.MAX,
    "add": layout.ADD,
    "shift_right": layout.SHIFT_RIGHT,
    "multiply": layout.MULTIPLY,
}
_ALL = int(np.iinfo(np.int64).max)

_Use = tuple[str | None, int, int]
"""A field by its name, the column that it is added to, and how many times."""


@dataclass(frozen=True)
class TableArrays:
    """A document's instructions as :func:`accel.isa.vta.function.table_kernel.fill_table` takes them."""

    fields: Int64
    starts: Int64
    constants: Int64
    codes: Int64


def launch_table(decoded: Decoded) -> Int64:
    """The kernel's table (n, TABLE) of a launch, whose ranges :func:`check_bounds` has checked.

    Raises:
        SimulationError: an ALU operation that the document does not have.
    """
    return checked_table(decoded, _ALL)


def check_bounds(decoded: Decoded, dram_bytes: int) -> None:
    """Check on-chip and DRAM ranges of copies, and ranges of micro-ops.

    Raises:
        SimulationError: the first instruction that leaves a memory, the memory, and the index beyond its end.
    """
    _, wrong, at, number = _filled(decoded, dram_bytes)
    if wrong not in (kernel.GOOD, kernel.BAD_CODE):
        raise _error(decoded, dram_bytes, wrong, at, number)


def checked_table(decoded: Decoded, dram_bytes: int) -> Int64:
    """The kernel's table (n, TABLE).

    Raises:
        SimulationError: see :func:`check_bounds`; or an ALU operation that the document does not have.
    """
    table, wrong, at, number = _filled(decoded, dram_bytes)
    if wrong != kernel.GOOD:
        raise _error(decoded, dram_bytes, wrong, at, number)
    return table


def table_signature() -> Signature:
    """Returns what fills the table."""
    words, kind = Array("uint64", 2), Array("int16", 1)
    return Signature(kernel.fill_table, kind, words, MATRIX, VECTOR, MATRIX, VECTOR, SCALAR, MATRIX)


def _filled(decoded: Decoded, dram_bytes: int) -> tuple[Int64, int, int, int]:
    arrays = table_arrays(SameObject(decoded.accelerator))
    table = aligned_zeros(len(decoded) * layout.TABLE * 8).view(np.int64).reshape(-1, layout.TABLE)
    found = kernel.fill_table(
        decoded.kind,
        decoded.words,
        arrays.fields,
        arrays.starts,
        arrays.constants,
        arrays.codes,
        dram_bytes,
        table,
    )
    return table, *found


def _error(decoded: Decoded, dram_bytes: int, wrong: int, at: int, number: int) -> SimulationError:
    accelerator = decoded.accelerator
    instruction = accelerator.instructions[decoded.kind[at]]
    kind, message = _finding(instruction, accelerator, dram_bytes, wrong, number)
    if wrong == kernel.BAD_BEGIN:
        assert isinstance(instruction, Compute)
        assert instruction.microops is not None
        begin = int(decoded.column(instruction.microops.begin)[at])
        message = f"its micro-ops begin at {begin}, after their end {number}"
    return decoded.error(at, kind, message)


def _finding(
    instruction: Instruction, accelerator: Accelerator, dram_bytes: int, wrong: int, number: int
) -> tuple[Diagnosis, str]:
    if wrong == kernel.BAD_DRAM:
        return "dram-range", f"DRAM byte {number} is out of range; the program's DRAM has {dram_bytes}"
    if wrong == kernel.BAD_PADDING:
        assert isinstance(instruction, Copy)
        return "padding", f"a {instruction.direction} takes no padding, and its padding bits are set"
    if wrong == kernel.BAD_CODE:
        known = ", ".join(f"{name} {code}" for code, name in instructions_of(accelerator).alu.codes.items())
        return "undefined-opcode", f"operation {number} is undefined; there are {known}"
    name = instruction.memory if isinstance(instruction, Copy) else instructions_of(accelerator).microops
    message = f"index {number} of {name} is out of range; it has {accelerator.memory(name).depth}"
    return "memory-range" if wrong == kernel.BAD_MEMORY else "microop-range", message


def copy_opcode(vta: Vta, copy: Copy) -> int:
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


@functools.lru_cache(maxsize=16)
def table_arrays(same: SameObject[Accelerator]) -> TableArrays:
    """The arrays of a document.

    Raises:
        InvalidAccelerator: a copy that no kernel has.
    """
    accelerator = same.value
    vta = instructions_of(accelerator)
    fields: list[tuple[int, ...]] = []
    starts, constants = [0], []
    for instruction in accelerator.instructions:
        uses, constant = _uses(accelerator, vta, instruction), _constants(accelerator, vta, instruction)
        by_name = {field.name: field for field in instruction.fields}
        found = ((by_name[name], column, sign) for name, column, sign in uses if name in by_name)
        fields += [_place(field, column, sign) for field, column, sign in found if field.bits]
        starts.append(len(fields))
        constants.append(constant)
    codes = np.full(1 + max(vta.alu.codes), -1, np.int64)
    for code, name in vta.alu.codes.items():
        codes[code] = _CODES[name]
    table = np.array(fields, np.int64).reshape(-1, kernel.FIELD)
    return TableArrays(table, np.array(starts, np.int64), np.array(constants, np.int64), codes)


def _place(field: BitField, column: int, sign: int) -> tuple[int, ...]:
    word, lsb = divmod(field.lsb, 64)
    return column, word, 64 - lsb - field.bits, 64 - field.bits, int(field.type == "signed"), sign


def _uses(accelerator: Accelerator, vta: Vta, instruction: Instruction) -> list[_Use]:
    if isinstance(instruction, Copy):
        return _copy_uses(accelerator, instruction)
    if instruction == vta.gemm.instruction:
        gemm = vta.gemm
        steps = ((gemm.dst, layout.DST_OUT), (gemm.data, layout.SRC_OUT), (gemm.weights, layout.WGT_OUT))
        return [*_loop_uses(gemm, steps), (gemm.reset, kernel.ZEROES, 1)]
    if instruction == vta.alu.instruction:
        alu = vta.alu
        uses = [(alu.opcode, layout.CODE, 1), (alu.use_immediate, layout.USE_IMM, 1), (alu.immediate, layout.IMM, 1)]
        return [*_loop_uses(alu, ((alu.dst, layout.DST_OUT), (alu.src, layout.SRC_OUT))), *uses]
    return []


def _copy_uses(accelerator: Accelerator, copy: Copy) -> list[_Use]:
    fields = copy.copy_fields
    uses = [
        (fields.sram, layout.SRAM),
        (fields.dram, layout.DRAM),
        (fields.rows, layout.ROWS),
        (fields.columns, layout.COLUMNS),
        (fields.row_stride, layout.STRIDE),
        (fields.pad_top, layout.TOP),
        (fields.pad_left, layout.LEFT),
        *((name, layout.HEIGHT) for name in (fields.pad_top, fields.rows, fields.pad_bottom)),
        *((name, layout.WIDTH) for name in (fields.pad_left, fields.columns, fields.pad_right)),
    ]
    if fields.pad_top is None:
        names = {name for other in accelerator.instructions for name in padding_fields(other)}
        uses += [(name, kernel.PADDED) for name in names]
    return [(name, column, 1) for name, column in uses]


def _loop_uses(role: Gemm | Alu, steps: tuple[tuple[str, int], ...]) -> list[_Use]:
    """Micro-ops and loops of a computing instruction; ``steps`` are its operands, and where their steps begin."""
    instruction = role.instruction
    microops, (outer, inner) = instruction.microops, instruction.loops
    assert microops is not None
    uses: list[_Use] = [
        (microops.begin, layout.BEGIN, 1),
        (microops.end, layout.COUNT, 1),
        (microops.begin, layout.COUNT, -1),
    ]
    uses += [(outer.extent, layout.OUTER, 1), (inner.extent, layout.INNER, 1)]
    return uses + [(loop.factors[n], at + side, 1) for n, at in steps for side, loop in enumerate((outer, inner))]


def _constants(accelerator: Accelerator, vta: Vta, instruction: Instruction) -> list[int]:
    constants = [0] * kernel.CONSTANT
    if isinstance(instruction, Copy):
        memory = accelerator.memory(instruction.memory)
        constants[kernel.OPERATION] = copy_opcode(vta, instruction)
        constants[kernel.DEPTH], constants[kernel.BYTES] = memory.depth, instruction.dram_bytes(memory)
        return constants
    depths = [accelerator.memory(name).depth for name in vta.memories]
    constants[kernel.DEPTH] = depths[0]
    if instruction == vta.gemm.instruction:
        constants[kernel.OPERATION] = layout.GEMM
        constants[kernel.SRC_DEPTH], constants[kernel.WGT_DEPTH], constants[kernel.DST_DEPTH] = depths[1:]
    elif instruction == vta.alu.instruction:
        constants[kernel.OPERATION] = layout.ALU
        constants[kernel.SRC_DEPTH] = constants[kernel.DST_DEPTH] = depths[-1]
        constants[kernel.IMMEDIATE] = layout.WITH_SRC if vta.alu.immediate_with == "src" else layout.WITH_DST
    return constants
