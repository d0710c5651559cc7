"""How long VTA's units must work for a program, whatever the schedule: the lower bound that a report shows."""

from dataclasses import dataclass

import numpy as np

from accel.accelerator.document import Contract, Map
from accel.isa.decode import Decoded
from accel.isa.vta.timing import map_cycles, passes, traffic


@dataclass(frozen=True)
class Work:
    """Work of one launch.

    ``compute_cycles``: one a micro-op for GEMM and reset (tvm-vta TensorGemm), for the ALU what the document says of
    a pass. ``gemm_cycles`` is the part that multiplies. ``bus_cycles``: bytes over the bus
    at its width; reads and writes have a channel each, so the larger of the two.
    """

    gemm_cycles: int
    compute_cycles: int
    bus_cycles: int
    bytes_read: int
    bytes_written: int

    @property
    def lower_bound(self) -> int:
        """Cycles that no order of these instructions goes below."""
        return max(self.compute_cycles, self.bus_cycles)


def work_of(decoded: Decoded) -> Work:
    """The work of a launch's instructions."""
    accelerator = decoded.accelerator
    gemm = compute = 0
    for instruction in accelerator.instructions:
        rows = decoded.rows(instruction)
        if isinstance(instruction, Contract):
            each = passes(decoded, instruction, rows)
            compute += int(each.sum())
            gemm += int(each[decoded.column(instruction.reset)[rows] == 0].sum())
        elif isinstance(instruction, Map):
            compute += int(map_cycles(decoded, instruction, rows).sum())
    read, written = (int(np.sum(column)) for column in traffic(decoded))
    bus = -(-max(read, written) // accelerator.dram.bus_bytes)
    return Work(gemm, compute, bus, read, written)
