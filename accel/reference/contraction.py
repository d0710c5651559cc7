"""Convolutions and matrix products of int8, exactly, by the matrix product of float32.

A float32 holds every integer up to 2^24. The product of two int8 is at most 2^14, so a sum of 1024 of them is exact
in whatever order it is made; longer sums are made of such ones, in int32, which wraps as the accumulator does.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from accel.reference.deadline import Deadline

Bytes = npt.NDArray[np.int8]
Sums = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]

_EXACT = 1 << 10  # products of int8 in an exact sum
_CHUNK = 1 << 22  # elements of the data that are laid out for a product at one time


def matmul(a: Bytes, b: Bytes, deadline: Deadline) -> Sums:
    """The product of int8 ``a`` [M, K] and ``b`` [K, N]: int32 [M, N].

    Raises:
        OutOfTimeError: the deadline has passed.
    """
    total = np.zeros((a.shape[0], b.shape[1]), np.int32)
    _accumulate(total[None], a[None], b[None], deadline)
    return total


def conv2d(
    data: Bytes,
    weights: Bytes,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    deadline: Deadline,
) -> Sums:
    """The convolution of int8 ``data`` [N, C, H, W] with ``weights`` [O, C / groups, KH, KW]: int32 [N, O, OH, OW].

    ``padding`` is top, left, bottom, right. Source: the definition of Conv in ONNX's operators.

    Raises:
        OutOfTimeError: the deadline has passed.
    """
    top, left, bottom, right = padding
    padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)))
    reach = tuple((size - 1) * step + 1 for size, step in zip(weights.shape[2:], dilation, strict=True))
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))
    # axes: image, channel, row, column, and the window's two
    views = views[:, :, :: strides[0], :: strides[1], :: dilation[0], :: dilation[1]]
    images, channels, rows, columns = views.shape[:4]
    matrices = weights.reshape(groups, weights.shape[0] // groups, -1)
    result = np.empty((images, weights.shape[0], rows, columns), np.int32)
    each = max(1, _CHUNK // (columns * channels * weights.shape[2] * weights.shape[3]))  # rows at one time
    for image in range(images):
        for row in range(0, rows, each):
            part = views[image, :, row : row + each].transpose(0, 3, 4, 1, 2)
            laid_out = part.reshape(groups, matrices.shape[2], -1)
            total = np.zeros((*matrices.shape[:2], laid_out.shape[2]), np.int32)
            _accumulate(total, matrices, laid_out, deadline)
            result[image, :, row : row + each] = total.reshape(weights.shape[0], -1, columns)
    return result


def _accumulate(total: Sums, a: Bytes, b: Bytes, deadline: Deadline) -> None:
    """Add to ``total`` [G, M, N] the products of ``a`` [G, M, K] and ``b`` [G, K, N]."""
    for at in range(0, a.shape[2], _EXACT):
        deadline.left()
        product: Floats = a[:, :, at : at + _EXACT].astype(np.float32) @ b[:, at : at + _EXACT].astype(np.float32)
        total += product.astype(np.int32)
