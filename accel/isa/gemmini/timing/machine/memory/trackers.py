"""Commands that a DMA has not finished (DMACommandTracker.scala)."""

from accel.isa.gemmini.timing.machine import places as at
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64


@compiled
def add_command(m: Int64, tracker: int, most: int, slot: int, left: int, now: int) -> int:
    """Track a command with ``left`` bytes or rows; its number."""
    for number in range(most):
        entry = tracker + number * at.T_WIDTH
        if not m[entry + at.T_VALID]:
            m[entry + at.T_VALID], m[entry + at.T_LEFT], m[entry + at.T_SLOT] = 1, left, slot
            m[entry + at.T_ZERO] = now
            if left == 0:
                m[tracker + at.T_ENDED] += 1
            return number
    return 0


@compiled
def returned(m: Int64, tracker: int, number: int, count: int, now: int) -> None:
    """Note that ``count`` bytes or rows of a command are done."""
    entry = tracker + number * at.T_WIDTH
    m[entry + at.T_LEFT] -= count
    if m[entry + at.T_LEFT] == 0:
        m[entry + at.T_ZERO] = now
        m[tracker + at.T_ENDED] += 1
    m[at.CHANGED] = 1


@compiled
def finished(m: Int64, tracker: int, most: int, now: int) -> int:
    """The first command with nothing left, or -1."""
    if m[tracker + at.T_ENDED] == 0:
        return -1
    for number in range(most):
        entry = tracker + number * at.T_WIDTH
        if m[entry + at.T_VALID] and m[entry + at.T_LEFT] == 0 and m[entry + at.T_ZERO] < now:
            return number
    return -1


@compiled
def release(m: Int64, tracker: int, number: int, now: int) -> int:
    """Drop a command; its slot in the reservation station."""
    entry = tracker + number * at.T_WIDTH
    m[entry + at.T_VALID], m[entry + at.T_ZERO] = 0, now
    m[tracker + at.T_ENDED] -= 1
    m[at.CHANGED] = 1
    return int(m[entry + at.T_SLOT])
