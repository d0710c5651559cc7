"""Gemmini's function: what a stream leaves in DRAM and in the on-chip memories, bit by bit."""

import numpy as np
import numpy.typing as npt

from accel.errors import SimulationError
from accel.isa.gemmini import function_kernel as kernel
from accel.isa.gemmini import layout as at
from accel.isa.gemmini.check import check_expanded
from accel.isa.gemmini.core import new_core
from accel.isa.gemmini.expand import Words, expand, loop_registers
from accel.isa.gemmini.parameters import GemminiParameters
from accel.isa.windows import place, window_map

Int64 = npt.NDArray[np.int64]


class Machine:
    """The on-chip memories and the configuration, which persist from stream to stream."""

    def __init__(self, parameters: GemminiParameters) -> None:
        self.parameters = parameters
        self.reset()

    def reset(self) -> None:
        """As after power-on: memories zero, nothing configured."""
        self._core = new_core(self.parameters)
        self._loops = loop_registers()

    def scratchpad(self) -> npt.NDArray[np.int8]:
        """A copy of the scratchpad, (rows, dim)."""
        return self._core.spad.copy()

    def accumulator(self) -> npt.NDArray[np.int32]:
        """A copy of the accumulator, (rows, dim)."""
        return self._core.acc.copy()

    def run(self, words: Words, dram: npt.NDArray[np.uint8], windows: Int64 | None = None) -> None:
        """Run a stream (n, 3) that reads and writes ``dram`` (bytes,).

        An address is an index into it, or lies in ``windows``, see :func:`accel.isa.windows.window_map`.

        Raises:
            SimulationError: an instruction that is undefined or out of range; nothing has run then.
        """
        if dram.ndim != 1 or dram.dtype != np.uint8 or not dram.flags.c_contiguous or not dram.flags.writeable:
            raise SimulationError("DRAM is one writeable array of bytes", field="dram")
        loops = self._loops.copy()
        expanded = expand(words, self.parameters, loops)
        table = window_map((), len(dram)) if windows is None else windows
        check_expanded(expanded, self.parameters, table, self._core.state, self._core.bits)
        self._loops = loops
        kernel.run(self._core._replace(dram=dram), _placed(expanded.words, windows))


def _placed(words: Int64, windows: Int64 | None) -> Int64:
    """The instructions (m, 3) with indices into DRAM for addresses; address 0 of a load stays, as it means zeros."""
    if windows is None:
        return words
    moves = np.isin(words[:, 0], (at.MVIN, at.MVIN2, at.MVIN3)) & (words[:, 1] != 0) | (words[:, 0] == at.MVOUT)
    out = words.copy()
    out[moves, 1] = place(windows, words[moves, 1])
    return out
