"""Operators that only move whole blocks of channels work on packed tensors as they lie."""

from collections.abc import Sequence

from tvm import relax

from accel.lowering.geometry import Packed

VIEWS = ("relax.expand_dims", "relax.flatten", "relax.reshape", "relax.squeeze")

_IMAGE = 4
_BLOCKS = 1  # the axis of a packed tensor along which blocks of channels lie
_CHANNELS = 1  # the axis of an image


def concatenated(tensors: Sequence[relax.Expr], layouts: Sequence[Packed]) -> tuple[relax.Expr, Packed]:
    """Packed images one behind the other, and their layout; what pitches have beyond an image goes if they differ."""
    first = layouts[0]
    pitches = {(layout.pitch_h, layout.pitch_w) for layout in layouts}
    if len(pitches) > 1:
        tensors = [_cut(tensor, layout) for tensor, layout in zip(tensors, layouts, strict=True)]
        pitches = {(first.height, first.width)}
    ((high, wide),) = pitches
    blocks = sum(layout.blocks for layout in layouts)
    packed = Packed(first.batch, blocks, first.height, first.width, high, wide)
    return relax.op.concat(list(tensors), axis=_BLOCKS), packed


def whole_blocks(shapes: Sequence[tuple[int, ...]], axis: int, channels: int) -> bool:
    """Whether images that are put together along an axis are whole blocks of so many channels, but for the last."""
    image = all(len(shape) == _IMAGE for shape in shapes)
    return image and axis == _CHANNELS and all(shape[_CHANNELS] % channels == 0 for shape in shapes[:-1])


def same_pixel(layout: Packed, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether both shapes, [N, C] or [N, C, 1, 1], have one layout: of so few rows that they fill no second tile."""
    one = (layout.batch, layout.pitch_h, layout.pitch_w) == (1, 1, 1)
    return one and before[:2] == after[:2] and all(shape[2:] in ((), (1, 1)) for shape in (before, after))


def _cut(tensor: relax.Expr, layout: Packed) -> relax.Expr:
    if (layout.pitch_h, layout.pitch_w) == (layout.height, layout.width):
        return tensor
    return relax.op.strided_slice(tensor, [2, 3], [0, 0], [layout.height, layout.width])
