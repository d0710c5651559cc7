"""The function of a document: what a launch leaves in DRAM and in the on-chip memories, bit by bit.

Instructions take effect in program order. Within one execution the tensors of an instruction are taken to be apart,
or the same elements where an expression works in place; what it does to a tensor that its target overlaps in part is
fixed, but is no part of the document.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.isa.arrays import aligned_zeros
from accel.isa.decode import Decoded
from accel.isa.explicit import function_kernel
from accel.isa.explicit.bounds import check_bounds
from accel.isa.explicit.function_table import launch_table


class ExplicitMachine:
    """The on-chip memories, which keep their contents from launch to launch, and the compiled kernel.

    Making one compiles; only :meth:`run` executes compiled code, so a process that will fork may make them.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self._kernel = function_kernel.build(accelerator)
        self._memories = [
            aligned_zeros(memory.depth * memory.element_bytes).view(memory.dtype) for memory in accelerator.memories
        ]

    def contents(self, name: str) -> npt.NDArray[Any]:
        """A copy of the memory called ``name``, (depth, *shape of an element)."""
        names = [memory.name for memory in self.accelerator.memories]
        memory = self.accelerator.memory(name)
        scalars = self._memories[names.index(name)][: memory.depth * memory.element_count]
        return scalars.reshape(memory.depth, *memory.shape).copy()

    def run(self, decoded: Decoded, dram: npt.NDArray[np.uint8]) -> None:
        """Run a launch, reading and writing ``dram`` (bytes,), which :func:`aligned_zeros` made.

        Raises:
            SimulationError: see :func:`check_bounds`; nothing has run then.
        """
        check_bounds(decoded, len(dram))
        if not len(decoded):
            return
        drams = [dram.view(dtype) for dtype in self._kernel.drams]
        self._kernel.run(launch_table(decoded), *drams, *self._memories)
