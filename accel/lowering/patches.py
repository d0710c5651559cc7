"""The patches of an image, which the host lays out so that a convolution becomes a product.

They are the rows of a matrix, one for each pixel of the result, or the channels of that pixel in an image.
"""

import math

import numpy as np
import numpy.typing as npt
from tvm import relax

from accel.lowering.geometry import Patches, Window


def unfold(source: relax.Expr, window: Window, patches: Patches, channels: int, groups: int) -> relax.Expr:
    """The patches of an image int8 [N, C, H, W], whose channels zeros make ``channels``.

    A patch has its taps in row-major order, with the channels of each, group after group: [N * OH * OW, groups * KH *
    KW * channels / groups] as rows, [N, KH * KW * channels, OH, OW] as channels of one group.
    """
    batch, given, height, width = (int(extent) for extent in source.ty.shape)
    size = _result_size(window, height, width)
    image = _taps(source, window, size, channels - given)
    if patches == "channels":
        return image
    taps = math.prod(window.kernel)
    value = relax.op.reshape(image, (batch, taps, groups, channels // groups, *size))
    rows = relax.op.permute_dims(value, [0, 4, 5, 2, 1, 3])
    return relax.op.reshape(rows, (batch * math.prod(size), channels * taps))


def _result_size(window: Window, height: int, width: int) -> tuple[int, int]:
    top, left, bottom, right = window.padding
    reach = [(extent - 1) * step + 1 for extent, step in zip(window.kernel, window.dilation, strict=True)]
    return (
        (height + top + bottom - reach[0]) // window.strides[0] + 1,
        (width + left + right - reach[1]) // window.strides[1] + 1,
    )


def _taps(source: relax.Expr, window: Window, size: tuple[int, int], beyond: int) -> relax.Expr:
    """The image once a tap, shifted and strided to the result's ``size``, one behind the other as channels."""
    top, left, bottom, right = window.padding
    value = source
    if any(window.padding) or beyond:
        value = relax.op.nn.pad(value, [0, 0, 0, beyond, top, bottom, left, right])
    taps = []
    for y in range(window.kernel[0]):
        for x in range(window.kernel[1]):
            first = (y * window.dilation[0], x * window.dilation[1])
            last = [f + (n - 1) * step + 1 for f, n, step in zip(first, size, window.strides, strict=True)]
            taps.append(relax.op.strided_slice(value, [2, 3], list(first), last, list(window.strides)))
    return relax.op.concat(taps, axis=1) if len(taps) > 1 else taps[0]


def unfold_weights(weights: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """[O, C / groups, KH, KW] to [O, KH * KW * C / groups, 1, 1], in the order of :func:`unfold`."""
    return np.ascontiguousarray(weights.transpose(0, 2, 3, 1).reshape(weights.shape[0], -1, 1, 1))
