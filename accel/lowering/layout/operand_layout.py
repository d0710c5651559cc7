"""Operands of lane-wise regions: how they shall lie, and how each sort of value comes to lie so."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tvm import relax

from accel.accelerator.contraction import Contraction, Tile
from accel.lowering.layout.tiled_layout import Pads, axes_in_dram, cut_image, pack_constant, pack_tensor
from accel.region.epilogue import INT8
from accel.region.kinds import lane_tile
from accel.region.shapes import Convolution, PackedActivation


@dataclass(frozen=True)
class OperandLayout:
    """An operand as a region wants it: its layout, and what of that is ``padding`` (top, left, bottom, right).

    The padding is of the least int8. ``direct``: the tiles are those of the accumulators.
    """

    packed: PackedActivation
    padding: Pads = (0, 0, 0, 0)
    direct: bool = False

    def of_packed(
        self, tensor: relax.Expr, known: PackedActivation, tile: Tile
    ) -> tuple[relax.Expr, PackedActivation] | None:
        """Another region's result as the operand, with its layout; None if it is of another size."""
        if any(self.padding):
            return _padded(tensor, known, self.padding, tile), self.packed
        return (tensor, known) if known.extents == self.packed.extents else None

    def of_constant(self, value: npt.NDArray[np.int8], gemm: Contraction) -> npt.NDArray[np.int8]:
        """A constant as the operand, which is not padded."""
        return pack_constant(value, self.packed, lane_tile(gemm, direct=self.direct))

    def of_plain(self, source: relax.Expr, gemm: Contraction, builder: relax.BlockBuilder) -> relax.Expr:
        """A tensor of the graph as the operand."""
        if any(self.padding):
            top, left, bottom, right = self.padding
            widths = [0, 0, 0, 0, top, bottom, left, right]
            source = builder.emit(relax.op.nn.pad(source, widths, pad_value=float(INT8[0])))
        tile = lane_tile(gemm, direct=self.direct)
        return pack_tensor(builder.normalize(source), self.packed, tile, (0, 0, 0, 0))


def _padded(source: relax.Expr, packed: PackedActivation, padding: Pads, tile: Tile) -> relax.Expr:
    """A packed image without what lies around it, and the padding there, tile by tile."""
    top, left, bottom, right = padding
    source = cut_image(source, packed, tile)
    widths = {2: (top, bottom), 3: (left, right)}
    sides = [width for axis in axes_in_dram(tile) for width in widths.get(axis, (0, 0))]
    return relax.op.nn.pad(source, sides, pad_value=float(INT8[0]))


def layout_as_read(packed: PackedActivation) -> Convolution:
    """Data that are read as they are."""
    return Convolution(packed, 1, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0), packed.height, packed.width)
