"""The little arithmetic the generators need to pick weights and scales."""

from typing import Any

import numpy as np
import numpy.typing as npt


def conv2d(
    x: npt.NDArray[Any], weight: npt.NDArray[Any], strides: tuple[int, int], pads: tuple[int, int, int, int]
) -> npt.NDArray[Any]:
    """Convolution of x [N, C, H, W] with weight [O, C, KH, KW]; ``pads`` are top, left, bottom, right, as in ONNX."""
    top, left, bottom, right = pads
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], (2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1]]
    return np.moveaxis(np.tensordot(windows, weight, ((1, 4, 5), (1, 2, 3))), -1, 1)
