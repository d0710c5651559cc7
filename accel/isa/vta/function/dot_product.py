"""The inner product of the matrix instruction by what the host has for it, and the operands as that takes them."""

from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T  # noqa: N812  TVM's own name for it
from tvm.target import codegen

from accel.isa.vta.function.functional_table import Geometry

_PLAIN_ROWS = 2
_PLAIN_LANES = 16
_FLIP = 0x80808080 - (1 << 32)  # as int32: bit 7 of four bytes


def vector(dtype: str, lanes: int) -> str:
    """The name of the type."""
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def splat(value: Any, lanes: int) -> Any:
    """``value`` in each lane."""
    return T.Broadcast(value, lanes) if lanes > 1 else value


def lanes_at(memory: Any, base: Any, lanes: int) -> Any:
    """``lanes`` consecutive words from ``base``."""
    return memory[T.Ramp(base, 1, lanes)] if lanes > 1 else memory[base]


def wrapping_add(a: Any, b: Any, lanes: int) -> Any:
    """TVM's signed addition promises the compiler that nothing overflows; the accumulator wraps."""
    unsigned = vector("uint32", lanes)
    return T.Cast(vector("int32", lanes), T.Cast(unsigned, a) + T.Cast(unsigned, b))


def wrapping_subtract(a: Any, b: Any, lanes: int) -> Any:
    """The difference, which wraps too."""
    unsigned = vector("uint32", lanes)
    return T.Cast(vector("int32", lanes), T.Cast(unsigned, a) - T.Cast(unsigned, b))


@dataclass(frozen=True)
class DotProduct:
    """An instruction of the host that multiplies words of small integers and adds their products to int32 sums.

    ``lanes`` are the sums side by side. A word holds ``channels`` input channels, which are int16 where there are two
    and int8 where there are four. ``rows`` is half of the rows of sums that the host keeps in registers. ``flipped``
    says that the instruction takes bytes of data as unsigned: they are kept with bit 7 flipped, so that each is 128
    more. Without an instruction (``intrinsic`` None) plain arithmetic does it.
    """

    lanes: int
    intrinsic: str | None
    channels: int = 2
    rows: int = _PLAIN_ROWS
    flipped: bool = False

    @staticmethod
    def of_host(geometry: Geometry, target: Any) -> "DotProduct":
        """The best one that fits the block."""
        return DotProduct.all_of_host(geometry, target)[0]

    @staticmethod
    def all_of_host(geometry: Geometry, target: Any) -> list["DotProduct"]:
        """Returns the dot products of this host that fit the block, the best first; plain arithmetic is the last."""
        known = _X86 if str(codegen.llvm_get_system_triple()).startswith("x86_64") else ()
        return [
            *(dot for features, dot in known if geometry.block_out % dot.lanes == 0 and _has(target, features)),
            DotProduct(min(geometry.block_out, _PLAIN_LANES), None),
        ]

    @property
    def no_data(self) -> int:
        """A word of data whose channels are zero."""
        return _FLIP if self.flipped else 0

    def accumulate(self, sums: Any, x: Any, w: Any) -> Any:
        """``sums``, int32 vectors, and the products of the channels in the words ``x`` and ``w``, lane by lane."""
        if self.intrinsic is None:
            return wrapping_add(sums, self._plain(x, w), self.lanes)
        narrow = f"int{32 // self.channels}x{self.channels * self.lanes}"
        x, w = T.reinterpret(narrow, x), T.reinterpret(narrow, w)
        if self.channels == 2:
            products = T.call_llvm_pure_intrin(f"int32x{self.lanes}", self.intrinsic, x, w)
            return wrapping_add(sums, products, self.lanes)
        return T.call_llvm_pure_intrin(f"int32x{self.lanes}", self.intrinsic, sums, x, w)

    def _plain(self, x: Any, w: Any) -> Any:
        half = splat(16, self.lanes)
        low = T.shift_right(T.shift_left(x, half), half) * T.shift_right(T.shift_left(w, half), half)
        return low + T.shift_right(x, half) * T.shift_right(w, half)


def _has(target: Any, features: tuple[str, ...]) -> bool:
    return all(codegen.llvm_cpu_has_features(feature, target) for feature in features)


def _vnni(lanes: int) -> DotProduct:
    return DotProduct(lanes, f"llvm.x86.avx512.vpdpbusd.{32 * lanes}", channels=4, rows=7, flipped=True)


_X86 = (  # with AVX-512 there are 32 registers, else 16
    (("avx512vnni",), _vnni(16)),
    (("avx512vnni", "avx512vl"), _vnni(8)),
    (("avx512vnni", "avx512vl"), _vnni(4)),
    (("avx512bw",), DotProduct(16, "llvm.x86.avx512.pmaddw.d.512", rows=7)),
    (("avx2",), DotProduct(8, "llvm.x86.avx2.pmadd.wd", rows=4)),
    (("sse2",), DotProduct(4, "llvm.x86.sse2.pmadd.wd", rows=4)),
)


@dataclass(frozen=True)
class KernelShape:
    """What the kernel is made for: the shapes of elements, and how the host multiplies them."""

    geometry: Geometry
    dot: DotProduct

    @property
    def words(self) -> int:
        """int32 words that hold the input channels of a row."""
        return -(-self.geometry.block_in // self.dot.channels)

    @property
    def acc_words(self) -> int:
        """int32 words of one accumulator element."""
        return self.geometry.batch * self.geometry.block_out

    @property
    def inp_words(self) -> int:
        """int32 words of one data element."""
        return self.geometry.batch * self.words

    @property
    def wgt_words(self) -> int:
        """int32 words of one weight element."""
        return self.words * self.geometry.block_out
