"""The shapes that VTA's functional kernel is specialised to."""

from dataclasses import dataclass

from accel.accelerator.document import Accelerator
from accel.isa.vta.view import view


@dataclass(frozen=True)
class Geometry:
    """What the kernel is specialised to: element shapes, and the micro-op's fields as (lsb, bits)."""

    batch: int
    block_in: int
    block_out: int
    dst: tuple[int, int]
    src: tuple[int, int]
    wgt: tuple[int, int]

    @property
    def pairs(self) -> int:
        """Pairs of input channels in one element."""
        return (self.block_in + 1) // 2

    @property
    def acc_words(self) -> int:
        """int32 words of one accumulator element."""
        return self.batch * self.block_out

    @property
    def inp_words(self) -> int:
        """int32 words of one data element."""
        return self.batch * self.pairs

    @property
    def wgt_words(self) -> int:
        """int32 words of one weight element."""
        return self.pairs * self.block_out

    @staticmethod
    def of(accelerator: Accelerator) -> "Geometry":
        """Those of a document that :func:`accel.isa.vta.check.check_vta` takes."""
        vta = view(accelerator)
        table = vta.gemm.instruction.microops
        assert table is not None
        place = {table.operands[f.name]: (f.lsb, f.bits) for f in table.fields if f.name in table.operands}
        batch, block_in = accelerator.memory(vta.data).shape
        block_out, _ = accelerator.memory(vta.weights).shape
        places = (place[name] for name in (vta.gemm.dst, vta.gemm.data, vta.gemm.weights))
        return Geometry(batch, block_in, block_out, *places)
