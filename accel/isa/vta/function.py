"""VTA's function: what a launch leaves in DRAM and in the on-chip memories, bit by bit.

Instructions take effect in program order. A program whose tokens are missing runs right here and wrong on hardware:
:mod:`accel.simulate.races` finds those.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator, BitField, Contract, Copy, Map
from accel.errors import InvalidAccelerator, SimulationError
from accel.isa.arrays import aligned_zeros
from accel.isa.decode import Decoded
from accel.isa.vta import function_kernel as kernel
from accel.isa.vta import function_layout as layout
from accel.isa.vta.bounds import check_bounds
from accel.isa.vta.dot_product import DotProduct, Geometry

Int64 = npt.NDArray[np.int64]

_CODES = {
    "min": layout.MIN,
    "max": layout.MAX,
    "add": layout.ADD,
    "shift_right": layout.SHIFT_RIGHT,
    "multiply": layout.MULTIPLY,
}


def geometry(accelerator: Accelerator) -> Geometry:
    """The shapes that the kernel is specialised to."""
    contraction = accelerator.contraction
    table = contraction.microops
    place = {table.operands[field.name]: _place(field) for field in table.fields if field.name in table.operands}
    batch, block_in = accelerator.memory(contraction.data.memory).shape
    block_out, _ = accelerator.memory(contraction.weights.memory).shape
    return Geometry(batch, block_in, block_out, place["dst"], place["data"], place["weights"])


def _place(field: BitField) -> tuple[int, int]:
    return field.lsb, field.bits


class Machine:
    """The on-chip memories, which keep their contents from launch to launch, and the compiled kernel.

    Making one compiles; only :meth:`run` executes compiled code, so a process that will fork may make them.
    ``dot`` overrides the choice of the host's dot-product instruction.
    """

    def __init__(self, accelerator: Accelerator, *, dot: DotProduct | None = None) -> None:
        self.accelerator = accelerator
        self._geometry = geometry(accelerator)
        self._launch = kernel.build(self._geometry, dot)
        self.reset()

    def reset(self) -> None:
        """Empty the memories, as after power-on: all zero."""
        contraction = self.accelerator.contraction
        sizes = {
            contraction.microops.memory: 1,
            contraction.data.memory: self._geometry.inp_words,
            contraction.weights.memory: self._geometry.wgt_words,
            contraction.dst.memory: self._geometry.acc_words,
        }
        self._memories = {
            name: aligned_zeros(self.accelerator.memory(name).depth * words * 4).view(np.int32)
            for name, words in sizes.items()
        }

    def accumulators(self) -> npt.NDArray[np.int32]:
        """A copy of the accumulator memory, (depth, batch, block)."""
        memory = self.accelerator.memory(self.accelerator.contraction.dst.memory)
        words = self._memories[memory.name][: memory.depth * memory.element_count]  # behind an odd word lies another
        return words.reshape(memory.depth, *memory.shape).copy()

    def run(self, decoded: Decoded, dram: npt.NDArray[np.uint8]) -> None:
        """Run a launch, reading and writing ``dram`` (bytes,), which :func:`aligned_zeros` made.

        Raises:
            SimulationError: an index out of range; instructions before it may have taken effect.
        """
        check_bounds(decoded, len(dram))
        table = launch_table(decoded)
        status = aligned_zeros(layout.STATUS * 8).view(np.int64)
        contraction = self.accelerator.contraction
        names = (contraction.microops, contraction.data, contraction.weights, contraction.dst)
        memories = [self._memories[operand.memory] for operand in names]
        self._launch(table, dram.view(np.int8), dram.view(np.int32), *memories, status)
        if status[0] != layout.FINE:
            raise _bad_microop(decoded, status)


def _bad_microop(decoded: Decoded, status: Int64) -> SimulationError:
    index, microop, value = (int(v) for v in status[1:])
    instruction: Any = decoded.accelerator.instructions[decoded.kind[index]]
    operand = (None, "dst", "src", "wgt")[int(status[0])]
    operands = {"dst": instruction.dst}
    operands |= (
        {"src": instruction.data, "wgt": instruction.weights}
        if isinstance(instruction, Contract)
        else {"src": instruction.src}
    )
    memory = decoded.accelerator.memory(operands[str(operand)].memory)
    return decoded.error(
        index,
        "microop-range",
        f"micro-op {microop} starts at index {value} of {memory.name} and the loops step beyond its {memory.depth} "
        "elements",
    )


def launch_table(decoded: Decoded) -> Int64:
    """The kernel's table (n, 17) of the launch."""
    table = aligned_zeros(len(decoded) * layout.TABLE * 8).view(np.int64).reshape(-1, layout.TABLE)
    for instruction in decoded.accelerator.instructions:
        rows = decoded.rows(instruction)
        if isinstance(instruction, Copy):
            table[rows] = _copy_rows(decoded, instruction, rows)
        elif isinstance(instruction, Contract | Map):
            table[rows] = _compute_rows(decoded, instruction, rows)
    return table


def copy_operation(accelerator: Accelerator, copy: Copy) -> int:
    """The kernel's operation that does ``copy``.

    Raises:
        InvalidAccelerator: there is none.
    """
    contraction = accelerator.contraction
    if copy.direction == "store" and copy.memory == contraction.dst.memory and copy.dram_dtype == "int8":
        return layout.STORE
    ops = {
        (contraction.microops.memory, "uint32"): layout.LOAD_UOP,
        (contraction.data.memory, "int8"): layout.LOAD_INP,
        (contraction.weights.memory, "int8"): layout.LOAD_WGT,
        (contraction.dst.memory, "int32"): layout.LOAD_ACC,
        (contraction.dst.memory, "int8"): layout.LOAD_ACC8,
    }
    if copy.direction == "store" or (copy.memory, copy.dram_dtype) not in ops:
        raise InvalidAccelerator(
            f"no kernel has a {copy.direction} of {copy.memory} as {copy.dram_dtype}", field=f"instructions.{copy.name}"
        )
    return ops[copy.memory, copy.dram_dtype]


def _copy_rows(decoded: Decoded, copy: Copy, rows: Int64) -> Int64:
    fields = copy.copy_fields

    def column(name: str | None) -> Int64:
        return decoded.column(name)[rows]

    table = np.zeros((len(rows), layout.TABLE), np.int64)
    table[:, layout.OP] = copy_operation(decoded.accelerator, copy)
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


def _compute_rows(decoded: Decoded, instruction: Contract | Map, rows: Int64) -> Int64:
    def column(name: str) -> Int64:
        return decoded.column(name)[rows]

    table = np.zeros((len(rows), layout.TABLE), np.int64)
    outer, inner = instruction.loops
    table[:, layout.BEGIN] = column(instruction.microops.begin)
    table[:, layout.COUNT] = column(instruction.microops.end) - column(instruction.microops.begin)
    table[:, layout.OUTER], table[:, layout.INNER] = column(outer.extent), column(inner.extent)
    operands = [("dst", instruction.dst, layout.DST_OUT, layout.DST_LIMIT)]
    if isinstance(instruction, Contract):
        reset = column(instruction.reset) != 0
        table[:, layout.OP] = np.where(reset, layout.RESET, layout.GEMM)
        operands.append(("data", instruction.data, layout.SRC_OUT, layout.SRC_LIMIT))
        operands.append(("weights", instruction.weights, layout.WGT_OUT, layout.WGT_LIMIT))
        unused = reset
    else:
        table[:, layout.OP] = layout.ALU
        table[:, layout.CODE] = _operation_codes(decoded, instruction, column(instruction.opcode), rows)
        immediate = layout.WITH_SRC if instruction.immediate_with == "src" else layout.WITH_DST
        table[:, layout.USE_IMM] = np.where(column(instruction.use_immediate) != 0, immediate, layout.BOTH)
        table[:, layout.IMM] = column(instruction.immediate)
        operands.append(("src", instruction.src, layout.SRC_OUT, layout.SRC_LIMIT))
        unused = table[:, layout.USE_IMM] == layout.WITH_DST
    table[:, [layout.SRC_LIMIT, layout.WGT_LIMIT]] = np.iinfo(np.int64).max
    for name, operand, steps, limit in operands:
        table[:, steps], table[:, steps + 1] = column(outer.factors[name]), column(inner.factors[name])
        reach = (table[:, layout.OUTER] - 1) * table[:, steps] + (table[:, layout.INNER] - 1) * table[:, steps + 1]
        table[:, limit] = decoded.accelerator.memory(operand.memory).depth - 1 - reach
        if name != "dst":
            table[unused, limit] = np.iinfo(np.int64).max
    table[table[:, layout.OUTER] * table[:, layout.INNER] == 0, layout.COUNT] = 0
    return table


def _operation_codes(decoded: Decoded, instruction: Map, values: Int64, rows: Int64) -> Int64:
    codes = np.full(int(values.max(initial=0)) + 1, -1, np.int64)
    for op in instruction.ops:
        if op.code < len(codes):
            codes[op.code] = _CODES[op.name]
    wrong = np.flatnonzero(codes[values] < 0)
    if len(wrong):
        known = ", ".join(f"{op.name} {op.code}" for op in instruction.ops)
        raise decoded.error(
            rows[wrong[0]],
            "undefined-opcode",
            f"operation {int(values[wrong[0]])} is undefined; there are {known}",
        )
    return codes[values]
