"""Gemmini's function: what a stream leaves in DRAM and in the on-chip memories, bit by bit."""

import numpy as np
import numpy.typing as npt

from accel.errors import SimulationError
from accel.isa.gemmini import function_kernel as kernel
from accel.isa.gemmini.check import Seen, Unwritten, check_expanded
from accel.isa.gemmini.core import new_core
from accel.isa.gemmini.expand import Words, expand, loop_registers
from accel.isa.gemmini.parameters import GemminiParameters


class Machine:
    """The on-chip memories and the configuration, which persist from stream to stream."""

    def __init__(self, parameters: GemminiParameters) -> None:
        self.parameters = parameters
        self.reset()

    def reset(self) -> None:
        """As after power-on: memories zero, nothing configured."""
        self._core = new_core(self.parameters)
        self._loops = loop_registers()
        self._seen = Seen.fresh(self.parameters)

    def scratchpad(self) -> npt.NDArray[np.int8]:
        """A copy of the scratchpad, (rows, dim)."""
        return self._core.spad.copy()

    def accumulator(self) -> npt.NDArray[np.int32]:
        """A copy of the accumulator, (rows, dim)."""
        return self._core.acc.copy()

    def run(self, words: Words, dram: npt.NDArray[np.uint8]) -> Unwritten:
        """Run a stream (n, 3) that reads and writes ``dram`` (bytes,); an address is an index into it.

        Returns the reads of rows that nothing wrote since power-on.

        Raises:
            SimulationError: an instruction that is undefined or out of range; nothing has run then.
        """
        if dram.ndim != 1 or dram.dtype != np.uint8 or not dram.flags.c_contiguous or not dram.flags.writeable:
            raise SimulationError("DRAM is one writeable array of bytes", field="dram")
        loops, seen = self._loops.copy(), self._seen.copy()
        expanded = expand(words, self.parameters, loops)
        unwritten = check_expanded(expanded, self.parameters, len(dram), seen)
        self._loops, self._seen = loops, seen
        kernel.run(self._core._replace(dram=dram), expanded.words)
        return unwritten
