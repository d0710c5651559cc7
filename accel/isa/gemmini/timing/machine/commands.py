"""The three queues of instructions."""

from accel.isa.compiled_kernels import compiled
from accel.isa.gemmini.document import rocc_encoding as rocc

LOAD, EXECUTE, STORE = range(3)


@compiled
def queue_of(funct: int, rs1: int) -> int:
    """Which queue an instruction goes to."""
    if funct == rocc.CONFIG:
        which = rs1 & 3
        if which == rocc.CONFIG_EX:
            return EXECUTE
        return LOAD if which == rocc.CONFIG_LD else STORE
    if funct in (rocc.MVIN, rocc.MVIN2, rocc.MVIN3):
        return LOAD
    return STORE if funct == rocc.MVOUT else EXECUTE
