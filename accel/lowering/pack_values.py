"""What exists packed, unpacked, or both, while ``main`` is rebuilt; and how a region's operand comes to it."""

import math
from dataclasses import dataclass, replace

from tvm import ir, relax
from tvm_ffi import structural_map

from accel.accelerator.roles import Contraction
from accel.lowering import layout
from accel.lowering.geometry import Convolution, Packed, Window
from accel.lowering.pack_lanes import Lanes
from accel.lowering.patches import unfold


@dataclass(frozen=True)
class PackedValue:
    """A value that exists packed: its variables (one a plane), its layout, and the shape it stands for.

    ``image`` is that of the image whose pixels are the rows of a matrix, if it is one.
    """

    planes: tuple[relax.Var, ...]
    packed: Packed
    shape: tuple[int, ...]
    image: tuple[int, ...] | None = None

    @property
    def lanes(self) -> bool:
        """Whether elementwise work can load it into the accumulators as it is."""
        return len(self.planes) == 1 and self.image is None and str(self.planes[0].ty.dtype) == "int8"


class Values:
    """The values of ``main`` by their variables there; what must be laid out anew is emitted."""

    def __init__(self, builder: relax.BlockBuilder, gemm: Contraction) -> None:
        self.builder = builder
        self.gemm = gemm
        self.plain: dict[relax.Var, relax.Expr] = {}
        self.packed: dict[relax.Var, PackedValue] = {}

    def rebuilt(self, value: relax.Expr) -> relax.Expr:
        """The value with its variables replaced by unpacked ones."""
        used = {leaf for leaf in relax.analysis.free_vars(value) if leaf in self.packed}
        for leaf in used:
            self.unpacked(leaf)
        return structural_map(
            value,
            [
                (relax.Var, lambda leaf: self.plain.get(leaf, leaf)),
                (ir.GlobalVar, lambda leaf: self.plain.get(leaf, leaf)),
            ],
        )

    def unpacked(self, var: relax.Var) -> relax.Expr:
        """A result as the model means it, laid out by the host."""
        if var not in self.plain:
            value = self.packed[var]
            tensor = layout.unpack_tensor(value.planes, value.shape, value.packed, self.gemm.dst)
            if value.image is not None:
                tensor = layout.fold(tensor, value.image)
            self.plain[var] = self.builder.emit(tensor, name_hint=f"{var.name}_unpacked")
        return self.plain[var]

    def data(self, var: relax.Var, conv: Convolution) -> tuple[relax.Var, Packed]:
        """The operand packed, and its pitches: as it is if a region made it, else packed by the host."""
        known = self.packed.get(var)
        wanted, padding = conv.data, conv.host_padding
        if known and self._passes(known) and not any(padding) and conv.unfolded is None:
            pitches = replace(wanted, pitch_h=known.packed.pitch_h, pitch_w=known.packed.pitch_w)
            if pitches == known.packed:
                return known.planes[0], pitches
        source = self.rebuilt(var)
        if conv.unfolded is not None:
            source = self._unfolded(self.builder.emit(source), conv, conv.unfolded)
        tensor = layout.pack_tensor(source, wanted, self.gemm.data, padding)
        name = getattr(var, "name", "constant")
        return self.builder.emit(tensor, name_hint=f"{name}_packed"), wanted

    def _unfolded(self, source: relax.Var, conv: Convolution, window: Window) -> relax.Expr:
        channels = int(source.ty.shape[1])
        if conv.groups > 1:  # the last lot may have fewer
            channels = conv.data.blocks * self.gemm.in_channels // math.prod(window.kernel)
        return self.builder.normalize(unfold(source, window, conv.patches, channels, conv.groups))

    def _passes(self, value: PackedValue) -> bool:
        """Whether a result can be the data of another region as it is."""
        data, dst = self.gemm.data, self.gemm.dst
        rows = {"m": "m", "n": "k"}  # a result's channels are summed by its reader
        alike = tuple(rows[axis] for axis in dst.axes) == data.axes and dst.shape == data.shape
        dtype = str(value.planes[0].ty.dtype)
        return len(value.planes) == 1 and alike and value.image is None and dtype == data.memory.dtype

    def lanes(self, var: relax.Var, wanted: Lanes) -> tuple[relax.Var, Packed]:
        """The operand of elementwise work, and its pitches: as a region made it, or packed by the host."""
        if isinstance(var, ir.GenericConst):
            return relax.const(wanted.of_constant(var.value.numpy(), self.gemm)), wanted.packed
        known = self.packed.get(var)
        if known and (self._passes(known) or (wanted.direct and known.lanes)):
            passed = wanted.of_packed(known.planes[0], known.packed)
            if passed is not None:
                tensor, packed = passed
                return (tensor if tensor is known.planes[0] else self.builder.emit(tensor)), packed
        tensor = wanted.of_plain(self.rebuilt(var), self.gemm, self.builder)
        return self.builder.emit(tensor, name_hint=f"{getattr(var, 'name', 'constant')}_packed"), wanted.packed


def as_read(packed: Packed) -> Convolution:
    """Data that are read as they are."""
    return Convolution(packed, 1, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0), packed.height, packed.width)
