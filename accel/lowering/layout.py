"""Packed layouts: how the host packs and unpacks activations, in Relax operators, and the packing of constants.

An image [N, C, H, W] packs to ``[N/b, C/c, pitch_h, pitch_w, b, c]``; a matrix [M, K] to
``[1, K/c, 1, M/b, b, c]``. What a tile has beyond the tensor is zero.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tvm import relax

from accel.lowering.geometry import Packed

Shape = tuple[int, ...]
Pads = tuple[int, int, int, int]


def packed_shape(packed: Packed, tile: tuple[int, int]) -> Shape:
    """Shape in memory of a packed activation; ``tile`` is batch and channels of one element."""
    return (packed.batch, packed.blocks, packed.pitch_h, packed.pitch_w, *tile)


def pack_tensor(source: relax.Expr, packed: Packed, tile: tuple[int, int], padding: Pads) -> relax.Expr:
    """int8 [N, C, H, W] or [M, K] to packed, with ``padding`` (top, left, bottom, right) of zeros around an image."""
    shape = [int(extent) for extent in source.ty.shape]
    batch, channels = tile
    top, left = padding[:2]
    before: tuple[int, ...]
    if len(shape) == 4:
        wanted = [packed.batch * batch, packed.blocks * channels, packed.pitch_h, packed.pitch_w]
        split = (packed.batch, batch, packed.blocks, channels, packed.pitch_h, packed.pitch_w)
        before, order = (0, 0, top, left), (0, 2, 4, 5, 1, 3)
    else:
        wanted = [packed.pitch_w * batch, packed.blocks * channels]
        split = (1, 1, packed.pitch_w, batch, packed.blocks, channels)
        before, order = (0, 0), (0, 4, 1, 2, 3, 5)
    after = [want - first - extent for want, first, extent in zip(wanted, before, shape, strict=True)]
    value = source
    if shape != wanted:
        value = relax.op.nn.pad(value, [width for pair in zip(before, after, strict=True) for width in pair])
    return relax.op.permute_dims(relax.op.reshape(value, split), order)


def unpack_tensor(planes: Sequence[relax.Expr], shape: Shape, packed: Packed, tile: tuple[int, int]) -> relax.Expr:
    """Packed int8 (one plane), or four byte planes of int32, low byte first, to ``shape``."""
    plain = [_unpack_plane(plane, shape, packed, tile) for plane in planes]
    if len(plain) == 1:
        return plain[0]
    value = relax.op.astype(plain[-1], "int32")  # the top byte carries the sign
    for plane in reversed(plain[:-1]):
        low = relax.op.bitwise_and(relax.op.astype(plane, "int32"), relax.const(255, "int32"))
        value = relax.op.bitwise_or(relax.op.left_shift(value, relax.const(8, "int32")), low)
    return value


def _unpack_plane(plane: relax.Expr, shape: Shape, packed: Packed, tile: tuple[int, int]) -> relax.Expr:
    batch, channels = tile
    whole: Shape
    if len(shape) == 4:
        order = (0, 4, 1, 5, 2, 3)
        whole = (packed.batch * batch, packed.blocks * channels, packed.pitch_h, packed.pitch_w)
    else:
        order = (0, 2, 3, 4, 1, 5)
        whole = (packed.pitch_w * batch, packed.blocks * channels)
    value = relax.op.reshape(relax.op.permute_dims(plane, order), whole)
    if whole == shape:
        return value
    axes = list(range(len(shape)))
    return relax.op.strided_slice(value, axes, [0] * len(axes), list(shape))


def pack_weights(weights: npt.NDArray[np.int8], tile: tuple[int, int]) -> npt.NDArray[np.int8]:
    """[O, C, KH, KW] to ``[O/o, C/i, KH, KW, o, i]``; ``tile`` is (o, i)."""
    o, i = tile
    out, channels, kh, kw = weights.shape
    blocks = -(-out // o), -(-channels // i)
    padded = np.zeros((blocks[0] * o, blocks[1] * i, kh, kw), dtype=np.int8)
    padded[:out, :channels] = weights
    return np.ascontiguousarray(padded.reshape(blocks[0], o, blocks[1], i, kh, kw).transpose(0, 2, 4, 5, 1, 3))


def pack_bias(bias: npt.NDArray[np.int32], blocks: int, tile: tuple[int, int]) -> npt.NDArray[np.int32]:
    """A bias a channel to ``[blocks, b, o]``, the same for every row of a tile; ``tile`` is (b, o)."""
    b, o = tile
    padded = np.zeros(blocks * o, dtype=np.int32)
    padded[: bias.size] = bias.ravel()
    return np.ascontiguousarray(np.broadcast_to(padded.reshape(blocks, 1, o), (blocks, b, o)))


def identities(shifts: tuple[int, int], tile: tuple[int, int]) -> npt.NDArray[np.int8]:
    """``diag(1 << shift)`` for each operand of an addition, ``[2, o, i]``."""
    eye = np.eye(tile[0], tile[1], dtype=np.int8)
    return np.stack([eye << shift for shift in shifts]).astype(np.int8)
