"""Commands on their way to the reservation station, and its three queues."""

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.queues import front, put, take
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64

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


@compiled
def send(m: Int64, now: int, queue: int, origin: int, funct: int, rs1: int, rs2: int, sender: int) -> None:
    """Put a command into a queue."""
    slot = put(m, queue, now)
    m[slot + at.F_ORIGIN], m[slot + at.F_FUNCT], m[slot + at.F_RS1], m[slot + at.F_RS2] = origin, funct, rs1, rs2
    m[slot + at.F_FROM], m[slot + at.F_ASKED] = sender, -1


@compiled
def pass_on(m: Int64, now: int, source: int, target: int) -> None:
    """Hand the front command of a queue, which offers it, to another, which has room."""
    command = front(m, source)
    send(
        m, now, target, m[command + at.F_ORIGIN], m[command + at.F_FUNCT],
        m[command + at.F_RS1], m[command + at.F_RS2], m[command + at.F_FROM],
    )  # fmt: skip
    take(m, source, now)
