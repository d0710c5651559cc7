"""Work of a launch, whatever the schedule: DRAM accesses of VTA's copies, passes, and the lower bound of its cycles."""

import numpy as np

from accel.accelerator.instructions import Copy
from accel.isa.decode import Decoded
from accel.isa.family import Boxes, Work, dram_traffic
from accel.isa.vta.document.instruction_view import instructions_of
from accel.isa.vta.timing.vta_timing import alu_cycles, passes
from accel.util.arrays import Float64, Int64


def boxes_of(decoded: Decoded) -> Boxes:
    """One box for each copy that moves anything; all padding is on the chip."""
    parts = [
        _boxes(decoded, copy, decoded.rows(copy)) for copy in decoded.accelerator.instructions if isinstance(copy, Copy)
    ]
    columns = np.concatenate(parts, axis=1)
    instruction, begin, rows, row_stride, row_bytes, write = columns[:, np.argsort(columns[0])]
    return Boxes(instruction, begin, rows, row_stride, row_bytes, write != 0)


def _boxes(decoded: Decoded, copy: Copy, rows: Int64) -> Int64:
    """The columns (6, n) of the boxes of one sort of copy."""
    fields = copy.copy_fields
    size = copy.dram_bytes(decoded.accelerator.memory(copy.memory))
    height, width = decoded.column(fields.rows)[rows], decoded.column(fields.columns)[rows]
    some = height * width > 0
    rows, height, width = rows[some], height[some], width[some]
    begin, stride = decoded.column(fields.dram)[rows], decoded.column(fields.row_stride)[rows]
    write = np.full(len(rows), copy.direction == "store")
    return np.stack([rows, begin * size, height, stride * size, width * size, write])


def effort_of(decoded: Decoded) -> Float64:
    """Micro-ops executed and elements copied (n,) by each instruction."""
    effort = np.zeros(len(decoded))
    for copy in decoded.accelerator.instructions:
        if isinstance(copy, Copy):
            rows, fields = decoded.rows(copy), copy.copy_fields
            effort[rows] = decoded.column(fields.rows)[rows] * decoded.column(fields.columns)[rows]
    vta = instructions_of(decoded.accelerator)
    for instruction in (vta.gemm.instruction, vta.alu.instruction):
        rows = decoded.rows(instruction)
        effort[rows] = passes(decoded, instruction, rows)
    return effort


def work_of(decoded: Decoded) -> Work:
    """The work of a launch's instructions.

    The compute unit needs a cycle a micro-op for GEMM and reset (tvm-vta TensorGemm), and for the ALU what the document
    says of a pass. Reads and writes have a channel of the bus each, so the larger of the two counts.
    """
    vta = instructions_of(decoded.accelerator)
    rows = decoded.rows(vta.gemm.instruction)
    each = passes(decoded, vta.gemm.instruction, rows)
    multiplied = int(each[decoded.column(vta.gemm.reset)[rows] == 0].sum())
    compute = int(each.sum() + alu_cycles(decoded, vta.alu, decoded.rows(vta.alu.instruction)).sum())
    bus = -(-max(dram_traffic(boxes_of(decoded))) // decoded.accelerator.dram.bus_bytes)
    return Work(multiplied, compute, bus, max(compute, bus))
