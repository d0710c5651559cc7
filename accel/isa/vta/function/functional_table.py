"""What VTA's functional kernel takes: a launch as a table, one row an instruction, micro-ops, and shapes."""

from dataclasses import dataclass

import numpy as np

from accel.accelerator.document import Accelerator
from accel.isa.vta.document.instruction_view import instructions_of
from accel.util.arrays import Int64, aligned_zeros


@dataclass(frozen=True)
class Geometry:
    """What the kernel is specialised to: the shapes of elements. Documents that differ in sizes share a kernel."""

    batch: int
    block_in: int
    block_out: int

    @staticmethod
    def of(accelerator: Accelerator) -> "Geometry":
        """Returns the geometry of a document that ``check_vta`` accepts."""
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
NO_LIMIT = (1 << 63) - 1
# the status: which index was out of range, at which instruction and micro-op, its value
STATUS = 4
FINE, BAD_DST, BAD_SRC, BAD_WGT = range(4)
