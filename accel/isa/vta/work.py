"""How long VTA's units must work for a program, whatever the schedule: the lower bound that a report shows."""

from accel.isa.decode import Decoded
from accel.isa.family import Work
from accel.isa.traffic import traffic
from accel.isa.vta.boxes import boxes_of
from accel.isa.vta.timing import alu_cycles, passes
from accel.isa.vta.view import view


def work_of(decoded: Decoded) -> Work:
    """The work of a launch's instructions.

    The compute unit needs a cycle a micro-op for GEMM and reset (tvm-vta TensorGemm), and for the ALU what the document
    says of a pass. Reads and writes have a channel of the bus each, so the larger of the two counts.
    """
    vta = view(decoded.accelerator)
    rows = decoded.rows(vta.gemm.instruction)
    each = passes(decoded, vta.gemm.instruction, rows)
    multiplied = int(each[decoded.column(vta.gemm.reset)[rows] == 0].sum())
    compute = int(each.sum() + alu_cycles(decoded, vta.alu, decoded.rows(vta.alu.instruction)).sum())
    bus = -(-max(traffic(boxes_of(decoded))) // decoded.accelerator.dram.bus_bytes)
    return Work(multiplied, compute, bus, max(compute, bus))
