"""Which instruction wrote a byte of DRAM: where to look first when an output is wrong."""

import numpy as np

from accel.isa.family import Boxes
from accel.isa.family_registry import family_of
from accel.program import Program
from accel.simulate.engine import Simulation


def last_writer(program: Program, simulation: Simulation, address: int) -> int | None:
    """Index of the last instruction of the program that stored DRAM byte ``address``; None if none did."""
    family = family_of(program.accelerator)
    for result in reversed(simulation.launches):
        index = _last_store(family.boxes(result.decoded), address)
        if index >= 0:
            return result.launch.begin + index
    return None


def _last_store(boxes: Boxes, address: int) -> int:
    """Position in the launch of the last store over ``address``; -1 if there is none."""
    offset, stride = address - boxes.begin, boxes.row_stride
    row = np.where(stride > 0, np.minimum(offset // np.maximum(stride, 1), boxes.rows - 1), 0)
    within = offset - row * stride
    hits = np.flatnonzero(boxes.write & (offset >= 0) & (boxes.rows > 0) & (within >= 0) & (within < boxes.row_bytes))
    return int(boxes.instruction[hits].max(initial=-1))
