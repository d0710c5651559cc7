"""Bytes that memories share: a view sees those of another memory as elements of another type or shape."""

import math
from dataclasses import dataclass

from accel.accelerator.document import Accelerator


@dataclass(frozen=True)
class Cells:
    """How the elements of a memory lie in the bytes of the memory that holds them.

    Attributes:
        holder: the number of the memory that has the bytes: its own, but of a view.
        each: cells of an element. A cell is the greatest part of which the elements of all views are made, and without
            views it is an element.
    """

    holder: int
    each: int


def cells_of(accelerator: Accelerator) -> tuple[Cells, ...]:
    """Returns the cells of each memory, in the order of the document."""
    names = [memory.name for memory in accelerator.memories]
    sizes: dict[str, int] = {}
    for memory in accelerator.memories:
        sizes[memory.holder] = math.gcd(sizes.get(memory.holder, 0), memory.element_bytes)
    return tuple(
        Cells(names.index(memory.holder), memory.element_bytes // sizes[memory.holder])
        for memory in accelerator.memories
    )
