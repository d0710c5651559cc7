"""VTA's function: what a launch leaves in DRAM and in the on-chip memories, bit by bit.

Instructions take effect in program order. A program whose tokens are missing runs right here and wrong on hardware:
:mod:`accel.isa.vta.vta_hazards` finds those.
"""

import numpy as np

from accel.accelerator.document import Accelerator
from accel.errors import SimulationError
from accel.isa.decode import Decoded
from accel.isa.kernels.kernel_library import load_kernel
from accel.isa.vta.document.instruction_view import instructions_of
from accel.isa.vta.function import functional_table as layout
from accel.isa.vta.function.dot_product import DotProduct
from accel.isa.vta.function.functional_table import Geometry
from accel.isa.vta.function.launch_kernel import shape_of, source_of
from accel.isa.vta.function.launch_table import checked_table
from accel.util.arrays import Array, Bytes, Int32, Int64, aligned_zeros


class VtaMachine:
    """The on-chip memories, which keep their contents from launch to launch, and the compiled kernel.

    Making one may compile; only :meth:`run` executes compiled code, so a process that will fork may make them.
    ``dot`` overrides the choice of the host's dot-product instruction.
    """

    def __init__(self, accelerator: Accelerator, *, dot: DotProduct | None = None) -> None:
        self.accelerator = accelerator
        self._view = instructions_of(accelerator)
        self._shape = shape_of(Geometry.of(accelerator), dot)
        self._fields = layout.microop_fields(accelerator)
        self._launch = load_kernel(source_of(self._shape.geometry, self._shape.dot))
        self.reset()

    def reset(self) -> None:
        """Empty the memories, as after power-on: all zero."""
        shape = self._shape
        words = (layout.UOP * 2, shape.inp_words, shape.wgt_words, shape.acc_words)
        depths = [self.accelerator.memory(name).depth for name in self._view.memories]
        uop, *others = (aligned_zeros(depth * each * 4) for depth, each in zip(depths, words, strict=True))
        self._memories: list[Array] = [uop.view(np.int64), *(memory.view(np.int32) for memory in others)]
        self._memories[1][:] = shape.dot.no_data

    def accumulators(self) -> Int32:
        """A copy of the accumulator memory, (depth, batch, block)."""
        memory = self.accelerator.memory(self._view.results)
        words = self._memories[-1][: memory.depth * memory.element_count]  # behind an odd word lies another
        return words.reshape(memory.depth, *memory.shape).copy()

    def run(self, decoded: Decoded, dram: Bytes) -> None:
        """Run a launch, reading and writing ``dram`` (bytes,), which :func:`aligned_zeros` made.

        Raises:
            SimulationError: an index out of range; instructions before it may have taken effect.
        """
        table = checked_table(decoded, len(dram))
        status = aligned_zeros(layout.STATUS * 8).view(np.int64)
        self._launch(table, self._fields, dram.view(np.int8), dram.view(np.int32), *self._memories, status)
        if status[0] != layout.FINE:
            raise self._bad_microop(decoded, status)

    def _bad_microop(self, decoded: Decoded, status: Int64) -> SimulationError:
        index, microop, value = (int(v) for v in status[1:])
        vta = self._view
        is_gemm = decoded.accelerator.instructions[decoded.kind[index]].name == vta.gemm.instruction.name
        operands = (None, vta.results, vta.data if is_gemm else vta.results, vta.weights)
        memory = decoded.accelerator.memory(str(operands[int(status[0])]))
        return decoded.error(
            index,
            "microop-range",
            f"micro-op {microop} starts at index {value} of {memory.name} and the loops step beyond its "
            f"{memory.depth} elements",
        )
