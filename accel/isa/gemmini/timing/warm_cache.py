"""An L2 that holds what a stream accesses, as it does where the same stream has just run."""

from accel.isa.compiled_kernels import Signature, compiled
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.memory_hierarchy import LINE_BITS, find_line, is_in_last_level
from accel.isa.kernel_types import MATRIX, VECTOR
from accel.util.arrays import Int64

BEGIN, ROWS, STRIDE, BYTES, WRITE = range(5)  # columns of the boxes


@compiled
def _touch(m: Int64, line: int, write: int) -> None:
    found = find_line(m, line)
    if found < 0:
        found = -1 - found
        if m[found + at.LINE_DIRTY]:
            is_in_last_level(m, m[found + at.LINE_TAG])
        is_in_last_level(m, line)
        m[found + at.LINE_TAG], m[found + at.LINE_DIRTY] = line, 0
    m[found + at.LINE_DIRTY] |= write


@compiled
def warm_cache(m: Int64, boxes: Int64) -> None:
    """Put the lines of accesses (b, 5) into the L2 of a machine, in their order, without timing them.

    Args:
        m: the machine, prepared.
        boxes: first byte, rows, bytes from row to row, bytes of a row, and whether they are written.
    """
    for box in range(len(boxes)):
        for row in range(boxes[box, ROWS]):
            begin = boxes[box, BEGIN] + row * boxes[box, STRIDE]
            for line in range(begin >> LINE_BITS, (begin + boxes[box, BYTES] - 1 >> LINE_BITS) + 1):
                _touch(m, line, boxes[box, WRITE])


def warming_signature() -> Signature:
    """Returns what fills the L2."""
    return Signature(warm_cache, VECTOR, MATRIX)
