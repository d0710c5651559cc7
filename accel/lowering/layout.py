"""Packed layouts: the host functions that pack and unpack activations, and the packing of constants.

An image [N, C, H, W] packs to ``[N/b, C/c, pitch_h, pitch_w, b, c]``; a matrix [M, K] to
``[1, K/c, 1, M/b, b, c]``. What a tile has beyond the tensor is zero.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import te, tirx

from accel.lowering.geometry import Packed

Shape = tuple[int, ...]
Pads = tuple[int, int, int, int]


def packed_shape(packed: Packed, tile: tuple[int, int]) -> Shape:
    """Shape in memory of a packed activation; ``tile`` is batch and channels of one element."""
    return (packed.batch, packed.blocks, packed.pitch_h, packed.pitch_w, *tile)


def pack_function(shape: Shape, packed: Packed, tile: tuple[int, int], padding: Pads) -> tirx.PrimFunc:
    """int8 ``shape`` to packed, with ``padding`` (top, left, bottom, right) of zeros around an image."""
    source = te.placeholder(shape, "int8", name="source")
    batch, channels = tile
    top, left = padding[:2]

    def image(n: Any, c: Any, y: Any, x: Any, b: Any, i: Any) -> tirx.Expr:
        at = [n * batch + b, c * channels + i, y - top, x - left]
        return _guarded(source, at)

    def matrix(_n: Any, c: Any, _y: Any, x: Any, b: Any, i: Any) -> tirx.Expr:
        return _guarded(source, [x * batch + b, c * channels + i])

    element = image if len(shape) == 4 else matrix
    target = te.compute(packed_shape(packed, tile), element, name="packed")
    return te.create_prim_func([source, target])


def _guarded(source: te.Tensor, at: list[Any]) -> tirx.Expr:
    inside = [bound for index, extent in zip(at, source.shape, strict=True) for bound in (index >= 0, index < extent)]
    return te.if_then_else(te.all(*inside), source(*at), tirx.const(0, "int8"))


def unpack_function(shape: Shape, packed: Packed, tile: tuple[int, int], planes: int) -> tirx.PrimFunc:
    """Packed int8 (``planes`` 1), or four byte planes of int32, low byte first, to ``shape``."""
    sources = [te.placeholder(packed_shape(packed, tile), "int8", name=f"plane{i}") for i in range(planes)]
    batch, channels = tile

    def element(*at: Any) -> tirx.Expr:
        if len(at) == 4:
            n, c, y, x = at
            index = [n // batch, c // channels, y, x, n % batch, c % channels]
        else:
            m, k = at
            index = [0, k // channels, 0, m // batch, m % batch, k % channels]
        if planes == 1:
            return sources[0](*index)
        value: Any = sources[-1](*index).astype("int32")  # the top byte carries the sign
        for plane in reversed(sources[:-1]):
            low = plane(*index).astype("int32") & tirx.const(255, "int32")
            value = value << tirx.const(8, "int32") | low
        return value

    return te.create_prim_func([*sources, te.compute(shape, element, name="unpacked")])


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
