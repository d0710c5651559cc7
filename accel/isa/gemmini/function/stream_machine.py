"""Machine that runs a stream: the memories and registers, which persist, and the primitive instructions one by one."""

import numpy as np

from accel.errors import SimulationError
from accel.isa.dram_windows import place, window_map
from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.function.core_state import CORE, Core, new_core
from accel.isa.gemmini.function.mesh import fetch_data, fetch_weights, in_place, multiply, multiply_in_place
from accel.isa.gemmini.function.mvin import mvin
from accel.isa.gemmini.function.mvout import mvout
from accel.isa.gemmini.stream import kernel_layout as at
from accel.isa.gemmini.stream.configuration_registers import apply_config, apply_preload, load_configuration_of
from accel.isa.gemmini.stream.loop_expansion import expand_loops, loop_registers
from accel.isa.gemmini.stream.stream_check import check_expanded
from accel.isa.kernels.compiled_kernels import Signature, compiled
from accel.isa.kernels.kernel_types import MATRIX
from accel.util.arrays import Bytes, Int8, Int32, Int64, Words


@compiled
def run_primitives(core: Core, words: Int64) -> None:
    """Run the primitive instructions ``words`` (n, 3)."""
    # a call with all of the core costs as much as a product of tiles, so that the usual one gets what it needs alone
    state, spad, acc, mesh, left = core.state, core.spad, core.acc, core.mesh, core.left
    dim = len(mesh)
    for index in range(len(words)):
        funct, rs1, rs2 = words[index, 0], words[index, 1], words[index, 2]
        if funct == rocc.PRELOAD:
            apply_preload(state, rs1, rs2)
        elif funct in (rocc.COMPUTE_PRELOADED, rocc.COMPUTE_ACCUMULATED):
            depth = min(rs1 >> 32 & 0xFFFF, dim)
            if funct == rocc.COMPUTE_PRELOADED:
                fetch_weights(state, spad, mesh)
            straight = in_place(state, rs2, dim)
            if straight and not state[at.A_TRANSPOSE]:  # rows of the scratchpad as they lie there
                a = rs1 & rocc.GARBAGE
                rows = 0 if a == rocc.GARBAGE else rs1 >> 48 & 0xFFFF
                multiply_in_place(state, acc, mesh, spad, a, state[at.A_STRIDE], rows, depth)
                continue
            fetch_data(state, spad, left, rs1)
            if straight:
                multiply_in_place(state, acc, mesh, left, 0, 1, dim, depth)
            else:
                multiply(core, rs2, depth)
        elif funct in (rocc.MVIN, rocc.MVIN2, rocc.MVIN3):
            mvin(core, load_configuration_of(funct), rs1, rs2)
        elif funct == rocc.MVOUT:
            mvout(core, rs1, rs2)
        elif funct == rocc.CONFIG:
            apply_config(state, core.bits, rs1, rs2)


class StreamMachine:
    """The on-chip memories and the configuration, which persist from stream to stream."""

    def __init__(self, parameters: GemminiParameters) -> None:
        self.parameters = parameters
        self.reset()

    def reset(self) -> None:
        """As after power-on: memories zero, nothing configured."""
        self._core = new_core(self.parameters)
        self._loops = loop_registers()

    def scratchpad(self) -> Int8:
        """A copy of the scratchpad, (rows, dim)."""
        return self._core.spad.copy()

    def accumulator(self) -> Int32:
        """A copy of the accumulator, (rows, dim)."""
        return self._core.acc.copy()

    def run(self, words: Words, dram: Bytes, windows: Int64 | None = None) -> None:
        """Run a stream (n, 3) that reads and writes ``dram`` (bytes,).

        An address is an index into it, or lies in ``windows``, see :func:`accel.isa.dram_windows.window_map`.

        Raises:
            SimulationError: an instruction that is undefined or out of range; nothing has run then.
        """
        if dram.ndim != 1 or dram.dtype != np.uint8 or not dram.flags.c_contiguous or not dram.flags.writeable:
            raise SimulationError("DRAM is one writeable array of bytes", field="dram")
        loops = self._loops.copy()
        expanded = expand_loops(words, self.parameters, loops)
        table = window_map((), len(dram)) if windows is None else windows
        check_expanded(expanded, self.parameters, table, self._core.state, self._core.bits)
        self._loops = loops
        run_primitives(self._core._replace(dram=dram), _placed(expanded.words, windows))


def _placed(words: Int64, windows: Int64 | None) -> Int64:
    """The instructions (m, 3) with indices into DRAM for addresses; address 0 of a load stays, as it means zeros."""
    if windows is None:
        return words
    moves = np.isin(words[:, 0], (rocc.MVIN, rocc.MVIN2, rocc.MVIN3)) & (words[:, 1] != 0) | (words[:, 0] == rocc.MVOUT)
    out = words.copy()
    out[moves, 1] = place(windows, words[moves, 1])
    return out


def function_signature() -> Signature:
    """Returns what runs a stream."""
    return Signature(run_primitives, CORE, MATRIX)
