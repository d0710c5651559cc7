"""How long VTA's units must work for a program, whatever the schedule: the lower bound that a report shows."""

from dataclasses import dataclass

import numpy as np

from accel.accelerator.document import Contract, Map
from accel.isa.decode import Decoded
from accel.isa.vta.timing import passes, traffic


@dataclass(frozen=True)
class Work:
    """Work of one launch.

    ``compute_cycles``: one a micro-op for GEMM, reset and ALU with an immediate, two for ALU with two operands
    (tvm-vta TensorGemm, TensorAlu). ``gemm_cycles`` is the part that multiplies. ``bus_cycles``: bytes over the bus
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
            operands = 2 - decoded.column(instruction.use_immediate)[rows]
            compute += int((operands * passes(decoded, instruction, rows)).sum())
    read, written = (int(np.sum(column)) for column in traffic(decoded))
    bus = -(-max(read, written) // accelerator.dram.bus_bytes)
    return Work(gemm, compute, bus, read, written)
