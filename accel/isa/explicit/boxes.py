"""Where copies access DRAM, and how much each instruction asks of the simulator."""

import numpy as np
import numpy.typing as npt

from accel.accelerator.instructions import Copy
from accel.isa.decode import Decoded
from accel.isa.explicit.accesses import copying, extents_of
from accel.isa.explicit.executions import Words, executions_of
from accel.isa.family import Boxes

Int64 = npt.NDArray[np.int64]
_AT_ONCE = 64  # values that the host computes in the time of one


def boxes_of(decoded: Decoded) -> Boxes:
    """One box for each copy that moves anything; all padding is on the chip."""
    parts = [np.zeros((6, 0), np.int64)]
    for executions in executions_of(decoded):
        copy = executions.sort.instruction
        if isinstance(copy, Copy):
            parts.append(_boxes(executions.words, copy))
    columns = np.concatenate(parts, axis=1)
    instruction, begin, rows, row_stride, row_bytes, write = columns[:, np.argsort(columns[0])]
    return Boxes(instruction, begin, rows, row_stride, row_bytes, write != 0)


def _boxes(words: Words, copy: Copy) -> Int64:
    """The columns (6, n) of the boxes of one sort of copy."""
    size = copy.dram_bytes(words.decoded.accelerator.memory(copy.memory))
    shape = copying(words, copy)
    write = np.full(len(words), copy.direction == "store")
    columns = np.stack([words.rows, shape.dram, shape.rows, shape.row_stride, shape.columns * size, write])
    return columns[:, shape.rows > 0]


def effort_of(decoded: Decoded) -> npt.NDArray[np.float64]:
    """Executions and elements copied (n,) by each instruction; large expressions count by what the host does."""
    effort = np.zeros(len(decoded))
    for executions in executions_of(decoded):
        words, instruction = executions.words, executions.sort.instruction
        if isinstance(instruction, Copy):
            shape = copying(words, instruction)
            times = (shape.height * shape.width).astype(np.float64)
        else:
            times = extents_of(words, instruction.loops).prod(axis=0, dtype=np.float64)
        effort[words.rows] = times * max(1.0, executions.sort.points / _AT_ONCE)
    return effort
