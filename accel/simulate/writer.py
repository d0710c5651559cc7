"""Which instruction wrote a byte of DRAM: where to look first when an output is wrong."""

from typing import Any

import numpy as np

from accel.accelerator.document import Copy
from accel.program import Program
from accel.simulate.engine import LaunchResult, Simulation


def last_writer(program: Program, simulation: Simulation, address: int) -> int | None:
    """Index of the last instruction of the program that stored DRAM byte ``address``; None if none did."""
    for result in reversed(simulation.launches):
        writers = [_last_store(result, copy, address) for copy in program.accelerator.instructions if _stores(copy)]
        if writers and max(writers) >= 0:
            return result.launch.begin + max(writers)
    return None


def _stores(instruction: Any) -> bool:
    return isinstance(instruction, Copy) and instruction.direction == "store"


def _last_store(result: LaunchResult, copy: Any, address: int) -> int:
    """Position in the launch of the last such store over ``address``; -1 if there is none."""
    decoded, fields = result.decoded, copy.copy_fields
    rows = decoded.rows(copy)
    size = copy.dram_bytes(decoded.accelerator.memory(copy.memory))
    height, width = decoded.column(fields.rows)[rows], decoded.column(fields.columns)[rows]
    stride = decoded.column(fields.row_stride)[rows]
    offset = address // size - decoded.column(fields.dram)[rows]
    row = np.where(stride > 0, np.minimum(offset // np.maximum(stride, 1), height - 1), 0)
    within = offset - row * stride
    hits = np.flatnonzero((offset >= 0) & (height > 0) & (within >= 0) & (within < width))
    return int(rows[hits[-1]]) if len(hits) else -1
