"""Rounding of weights, each so that it cancels what the rounding of earlier ones adds to the sums."""

import math

import numpy as np

from accel.frontend.quantize.input_moments import joined, split
from accel.frontend.quantize.scale_grid import INT8_MAX
from accel.util.arrays import Array

_OUTPUTS = 128  # that are rounded together: BLAS starts no threads for products of this size


def compensated(rows: Array, factor: Array) -> Array:
    """Returns rounded weights with nearly the least squared error of the layer's sums; int8, of the shape of ``rows``.

    Column after column is rounded with what the columns before it add to the error (Frantar et al., 2023, "OPTQ"; in
    the form of Chee et al., 2023, "QuIP"). Blocks of inputs do so by themselves.

    Args:
        rows: weights in steps of their scale [groups, outputs, inputs].
        factor: of the inputs' moments [blocks, width, width]; see :class:`Feedback`.
    """
    groups, outputs, inputs = rows.shape
    width = factor.shape[1]
    pieces = math.ceil(outputs / _OUTPUTS)
    size = math.ceil(outputs / pieces)
    padded = np.zeros((groups, inputs, pieces * size), np.float32)
    padded[..., :outputs] = rows.swapaxes(1, 2)
    exact = split(padded.reshape(groups, inputs, pieces, size), width).swapaxes(1, 2)  # [blocks, pieces, width, size]
    rounded, errors = np.empty_like(exact), np.empty_like(exact)
    for at in range(width):
        wanted = exact[:, :, at]
        if at:
            wanted = wanted + (factor[:, None, None, :at, at] @ errors[:, :, :at])[:, :, 0]
        rounded[:, :, at] = np.clip(np.rint(wanted), -INT8_MAX - 1, INT8_MAX)
        np.subtract(exact[:, :, at], rounded[:, :, at], out=errors[:, :, at])
    found = joined(rounded.swapaxes(1, 2), groups, inputs).reshape(groups, inputs, -1)[..., :outputs]
    return found.swapaxes(1, 2).astype(np.int8)
