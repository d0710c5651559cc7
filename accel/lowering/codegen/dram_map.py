"""The DRAM map of a program: where its tensors lie, and what they hold before the run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy
from accel.errors import CompiledTooLarge
from accel.program.program_model import Segment

_LIMIT = 1 << 32  # bytes of DRAM that a program may map


@dataclass
class DramMap:
    """The DRAM map of a program under construction; tensors begin at multiples of ``alignment`` bytes."""

    alignment: int
    segments: dict[str, Segment] = field(default_factory=dict)
    image: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    top: int = 0

    def reserve(self, size: int) -> None:
        """Let no tensor that is placed from now on begin within ``size`` bytes."""
        self.top += -(-size // self.alignment) * self.alignment

    def place(self, name: str, shape: tuple[int, ...], dtype: str) -> Segment:
        """Returns room for a tensor, called ``name`` or, where that is taken, by it and a number.

        Raises:
            CompiledTooLarge: there is none.
        """
        unique, count = name, 0
        while unique in self.segments:
            count += 1
            unique = f"{name}.{count}"
        segment = Segment(unique, self.top, shape, dtype)
        self.segments[unique] = segment
        self.top += -(-max(segment.nbytes, 1) // self.alignment) * self.alignment
        if self.top > _LIMIT:
            raise CompiledTooLarge(f"the tensors need more than {_LIMIT} bytes of DRAM", field=name)
        return segment

    def fill(self, segments: Sequence[Segment], value: int) -> None:
        """Give them ``value`` everywhere before the run: what a launch leaves of that is the border of its result."""
        for segment in segments:
            self.image[segment.name] = np.full(segment.shape, value, segment.dtype)

    def constant(self, name: str, value: npt.NDArray[Any]) -> Segment:
        """Returns room for a tensor that holds ``value`` before the run."""
        segment = self.place(name, value.shape, str(value.dtype))
        self.image[segment.name] = value
        return segment


def dram_alignment(accelerator: Accelerator) -> int:
    """Bytes that every tensor's address is a multiple of: copies count addresses in their own elements."""
    copies = [copy for copy in accelerator.instructions if isinstance(copy, Copy)]
    units = [copy.dram_bytes(accelerator.memory(copy.memory)) for copy in copies]
    for layer in accelerator.layers:
        units += [layer.element_bytes(name, accelerator.memory(each.memory)) for name, each in layer.operands.items()]
    return math.lcm(accelerator.dram.alignment_bytes, *units)


def table_unit(table: Segment) -> int:
    """Bytes of one micro-op in DRAM."""
    return np.dtype(table.dtype).itemsize
