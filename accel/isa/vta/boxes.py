"""Where VTA's copies access DRAM, and how many elements they move."""

import numpy as np
import numpy.typing as npt

from accel.accelerator.instructions import Copy
from accel.isa.decode import Decoded
from accel.isa.family import Boxes
from accel.isa.vta.timing import passes
from accel.isa.vta.view import view

Int64 = npt.NDArray[np.int64]


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


def effort_of(decoded: Decoded) -> npt.NDArray[np.float64]:
    """Micro-ops executed and elements copied (n,) by each instruction."""
    effort = np.zeros(len(decoded))
    for copy in decoded.accelerator.instructions:
        if isinstance(copy, Copy):
            rows, fields = decoded.rows(copy), copy.copy_fields
            effort[rows] = decoded.column(fields.rows)[rows] * decoded.column(fields.columns)[rows]
    vta = view(decoded.accelerator)
    for instruction in (vta.gemm.instruction, vta.alu.instruction):
        rows = decoded.rows(instruction)
        effort[rows] = passes(decoded, instruction, rows)
    return effort
