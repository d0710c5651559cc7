"""Packed values while ``main`` is rebuilt: what exists packed, unpacked or both, and how operands come to a region.

Operators that only move whole blocks of channels work on packed tensors as they lie.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tvm import ir, relax
from tvm_ffi import structural_map

from accel.accelerator.contraction import Contraction, Tile
from accel.lowering.analysis.composite import shape_of
from accel.lowering.analysis.image_padding import NO_PADDING, Padding, padding_of
from accel.lowering.layout import tiled_layout
from accel.lowering.layout.operand_layout import OperandLayout
from accel.lowering.layout.tiled_layout import cut_image, place_in_dram, runs_of_taps, unfold_patches
from accel.region.epilogue import INT8
from accel.region.shapes import Convolution, PackedActivation, Sides, SlidingWindow

VIEWS = ("relax.expand_dims", "relax.flatten", "relax.reshape", "relax.squeeze")

_IMAGE = 4
_BLOCKS = 1  # the axis of a packed tensor along which blocks of channels lie
_CHANNELS = 1  # the axis of an image


def concatenate_blocks(
    tensors: Sequence[relax.Expr], layouts: Sequence[PackedActivation], tile: Tile
) -> tuple[relax.Expr, PackedActivation]:
    """Packed images one behind the other, and their layout; what lies around them goes if it differs."""
    first, blocks = layouts[0], sum(layout.blocks for layout in layouts)
    packed = replace(first, blocks=blocks)
    if len({layout.around for layout in layouts}) > 1:
        tensors = [cut_image(tensor, layout, tile) for tensor, layout in zip(tensors, layouts, strict=True)]
        packed = PackedActivation.dense(first.batch, blocks, first.height, first.width)
    return relax.op.concat(list(tensors), axis=place_in_dram(_BLOCKS, tile)), packed


def are_whole_blocks(shapes: Sequence[tuple[int, ...]], axis: int, channels: int) -> bool:
    """Whether images that are put together along an axis are whole blocks of so many channels, but for the last."""
    image = all(len(shape) == _IMAGE for shape in shapes)
    return image and axis == _CHANNELS and all(shape[_CHANNELS] % channels == 0 for shape in shapes[:-1])


def have_one_layout(layout: PackedActivation, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether both shapes, [N, C] or [N, C, 1, 1], have one layout: of so few rows that they fill no second tile."""
    one = (layout.batch, layout.pitch_h, layout.pitch_w) == (1, 1, 1)
    return one and before[:2] == after[:2] and all(shape[2:] in ((), (1, 1)) for shape in (before, after))


@dataclass(frozen=True)
class PackedValue:
    """A value that exists packed: its variables (one a plane), its layout, and the shape it stands for.

    ``image`` is that of the image whose pixels are the rows of a matrix, if it is one, and ``stack`` that of the
    matrices which lie in it side by side. ``border`` is what lies around its images in DRAM; None where that is nothing
    known.
    """

    planes: tuple[relax.Var, ...]
    packed: PackedActivation
    shape: tuple[int, ...]
    image: tuple[int, ...] | None = None
    stack: tuple[int, ...] | None = None
    border: int | None = None

    def padded(self, padding: Padding) -> PackedActivation | None:
        """The layout of the value with padding around it, if it lies so in DRAM."""
        if not any(padding.sides):
            return self.packed
        return self.packed.grown(padding.sides) if self.border == padding.value else None

    @property
    def lanes(self) -> bool:
        """Whether elementwise work can load it into the accumulators as it is."""
        return len(self.planes) == 1 and self.whole and str(self.planes[0].ty.dtype) == "int8"

    @property
    def whole(self) -> bool:
        """Whether the packed tensor is the value, of other axes perhaps, and no matrix made of it."""
        return self.image is None and self.stack is None


class PackedValues:
    """The values of ``main`` by their variables there; what must be laid out anew is emitted."""

    def __init__(self, builder: relax.BlockBuilder, gemm: Contraction, *, by_programs: bool) -> None:
        """Begin with no values; ``by_programs`` says that the accelerator may move what the host would."""
        self.builder = builder
        self.gemm = gemm
        self.by_programs = by_programs
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
            tensor = tiled_layout.unpack_tensor(
                value.planes, value.shape, value.packed, self.gemm.dst, by_programs=self.by_programs
            )
            if value.image is not None:
                tensor = tiled_layout.fold_rows_to_image(tensor, value.image)
            if value.stack is not None:
                tensor = tiled_layout.matrices_apart(self.builder.normalize(tensor), value.stack)
            self.plain[var] = self.builder.emit(tensor, name_hint=f"{var.name}_unpacked")
        return self.plain[var]

    def data(self, var: relax.Var, conv: Convolution) -> tuple[relax.Var, Convolution]:
        """The operand packed, and the convolution over it: as it is if a region made it, else packed by the host."""
        known = self.packed.get(var)
        wanted, padding = conv.data, conv.host_padding
        if known and self.passes(known) and conv.unfolded is None:
            packed = known.padded(Padding(padding, 0))
            if packed is not None and packed.extents == wanted.extents:
                return known.planes[0], replace(conv, data=packed, host_padding=NO_PADDING.sides)
        source = self.rebuilt(var)
        if conv.unfolded is not None:
            source = self._unfolded(source, conv, conv.unfolded)
        tensor = tiled_layout.pack_tensor(source, wanted, self.gemm.data, padding, self._around(source, padding))
        name = getattr(var, "name", "constant")
        return self.builder.emit(tensor, name_hint=f"{name}_packed"), conv

    def _around(self, source: relax.Expr, padding: Sides) -> int:
        """What fills up the tiles of data: what is around its images, as then stores fill no more than one border.

        Weights are zero there.
        """
        known = isinstance(source, relax.Var) and self.by_programs and not any(padding)
        around = padding_of(self.builder.lookup_binding(source)) if known else None
        return 0 if around is None else around.value

    def _unfolded(self, value: relax.Expr, conv: Convolution, window: SlidingWindow) -> relax.Expr:
        source = self.builder.emit(value)
        if conv.run_axis is not None:
            channels, beyond = conv.data.blocks * self.gemm.in_channels, self._around(value, window.padding)
            return self.builder.normalize(runs_of_taps(source, window, conv.run_axis, channels, beyond))
        channels = int(source.ty.shape[1])
        if conv.groups > 1:  # the last lot may have fewer
            channels = conv.data.blocks * self.gemm.in_channels // math.prod(window.kernel)
        return self.builder.normalize(unfold_patches(source, window, conv.patches, channels, conv.groups))

    def passes(self, value: PackedValue) -> bool:
        """Whether a result can be the data of another region as it is."""
        return self.gemm.results_are_data and value.lanes

    def lanes(self, var: relax.Var, wanted: OperandLayout) -> tuple[relax.Var, PackedActivation]:
        """The operand of elementwise work, and its pitches: as a region made it, or packed by the host."""
        if isinstance(var, ir.GenericConst):
            return relax.const(wanted.of_constant(var.value.numpy(), self.gemm)), wanted.packed
        known = self.packed.get(var)
        if known and (self.passes(known) or (wanted.direct and known.lanes)):
            around = known.padded(Padding(wanted.padding, INT8[0]))
            if around is not None and around.extents == wanted.packed.extents:
                return known.planes[0], around
            passed = wanted.of_packed(known.planes[0], known.packed, self.gemm.dst)
            if passed is not None:
                tensor, packed = passed
                return (tensor if tensor is known.planes[0] else self.builder.emit(tensor)), packed
        tensor = wanted.of_plain(self.rebuilt(var), self.gemm, self.builder)
        return self.builder.emit(tensor, name_hint=f"{getattr(var, 'name', 'constant')}_packed"), wanted.packed

    def put_around(self, value: relax.Expr) -> PackedValue | None:
        """A value that an operator pads, as a window of what lies in DRAM; None where the host pads it."""
        around = padding_of(value)
        known = None if around is None else self.packed.get(value.args[0])
        if known is None or around is None or not known.lanes:
            return None
        packed = known.padded(around)
        return None if packed is None else replace(known, packed=packed, shape=shape_of(value))

    def laid_out(self, var: relax.Expr, layout: Callable[[relax.Expr], relax.Expr]) -> relax.Expr:
        """A value as the model means it, which the host lays out."""
        source = self.builder.emit(self.rebuilt(var))
        return self.builder.emit(layout(source), name_hint=f"{getattr(var, 'name', 'constant')}_packed")
