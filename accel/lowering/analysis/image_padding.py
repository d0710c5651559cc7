"""Padding of images: what operators and regions want around a tensor, and which int8 that is."""

from dataclasses import dataclass

from tvm import ir, relax

from accel.region.shapes import Sides

_IMAGE_AXES = 2  # in front of rows and columns


@dataclass(frozen=True)
class Padding:
    """Rows and columns around each image of a tensor, and the int8 that they hold."""

    sides: Sides
    value: int


NO_PADDING = Padding((0, 0, 0, 0), 0)


def padding_of(value: relax.Expr | None) -> Padding | None:
    """What an operator puts around each image of an int8 tensor [N, C, H, W]; None if it does anything else."""
    if not isinstance(value, ir.Call) or value.op != ir.Op.get("relax.nn.pad"):
        return None
    widths = [int(width) for width in value.attrs.pad_width]
    rank, outer = len(value.ty.shape), 2 * _IMAGE_AXES
    plain = str(value.attrs.pad_mode) == "constant" and str(value.ty.dtype) == "int8"
    if not plain or rank != _IMAGE_AXES + 2 or any(widths[:outer]) or min(widths) < 0:
        return None
    top, bottom, left, right = widths[outer:]
    return Padding((top, left, bottom, right), int(value.attrs.pad_value))
