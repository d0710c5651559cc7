"""Whether memories hold what one execution of the contraction works on."""

import math

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Operand
from accel.accelerator.memories import Memory
from accel.accelerator.require import require
from accel.accelerator.roles import contraction


def check_capacity(accelerator: Accelerator) -> None:
    """Refuse memories too small for one tile: operands that lie in one memory are in it at the same time.

    Raises:
        InvalidAccelerator: ``field`` is the path of the depth.
    """
    gemm = contraction(accelerator)
    for index, memory in enumerate(accelerator.memories):
        spans = {
            tile.name: span(gemm.instruction.operands[tile.name], memory)
            for tile in (gemm.data, gemm.weights, gemm.dst)
            if tile.memory.name == memory.name
        }
        needed = sum(spans.values())
        each = ", ".join(f"{elements} of {name}" for name, elements in spans.items())
        small = (
            f"{memory.depth} elements; {gemm.instruction.name} works on {needed} of {memory.name} at once ({each}): "
            f"at least {needed}"
        )
        require(needed <= memory.depth, f"memories.{index}.depth", small)


def span(operand: Operand, memory: Memory) -> int:
    """Elements of its memory that an operand covers."""
    return 1 if operand.shape is None else math.prod(operand.shape) // memory.element_count
