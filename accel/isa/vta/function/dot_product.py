"""The matrix instruction's inner product, as the host's multiply-pairs instructions do it."""

from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T  # noqa: N812  TVM's own name for it
from tvm.target import codegen

from accel.isa.vta.function.functional_table import Geometry

_MULTIPLY_PAIRS = (  # lanes, CPU feature, intrinsic: int16 pairs to int32 sums
    (16, "avx512bw", "llvm.x86.avx512.pmaddw.d.512"),
    (8, "avx2", "llvm.x86.avx2.pmadd.wd"),
    (4, "sse2", "llvm.x86.sse2.pmadd.wd"),
)


def vector(dtype: str, lanes: int) -> str:
    """The name of the type."""
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


@dataclass(frozen=True)
class DotProduct:
    """The host's multiply-pairs instruction; without one (None) the same in plain arithmetic."""

    lanes: int
    intrinsic: str | None

    @staticmethod
    def of_host(geometry: Geometry, target: Any) -> "DotProduct":
        """The widest one that fits the block."""
        if str(codegen.llvm_get_system_triple()).startswith("x86_64"):
            for lanes, feature, intrinsic in _MULTIPLY_PAIRS:
                if geometry.block_out % lanes == 0 and codegen.llvm_cpu_has_features(feature, target):
                    return DotProduct(lanes, intrinsic)
        return DotProduct(geometry.block_out, None)

    def multiply(self, x: Any, w: Any) -> Any:
        """int32 vectors of int16 pairs to the sums of the two products, lane by lane."""
        if self.intrinsic is None:
            half = T.Broadcast(16, self.lanes) if self.lanes > 1 else 16
            low = T.shift_right(T.shift_left(x, half), half) * T.shift_right(T.shift_left(w, half), half)
            return low + T.shift_right(x, half) * T.shift_right(w, half)
        wide = f"int16x{2 * self.lanes}"
        x, w = T.reinterpret(wide, x), T.reinterpret(wide, w)
        return T.call_llvm_pure_intrin(f"int32x{self.lanes}", self.intrinsic, x, w)
