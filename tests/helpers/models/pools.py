"""Models of one max pooling, and what it is by the specification of ONNX."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from examples.graph import Graph

Image = npt.NDArray[np.int8]

_SCALE = 2.0**-5
_ZERO = np.array(0, np.int8)


@dataclass(frozen=True)
class Pool:
    """A pooling of int8 [batch, channels, height, width]; ``relu``: a convolution with 1 and a relu come before.

    ``limit`` clips the result to [-limit, limit], in units of int8.
    """

    channels: int
    height: int
    width: int
    kernel: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (2, 2)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    batch: int = 1
    ceil: bool = False
    relu: bool = False
    limit: int | None = None

    @property
    def sizes(self) -> list[int]:
        """Height and width of the result, by the formulas of ONNX."""
        found = []
        for axis, size in enumerate((self.height, self.width)):
            padded = size + self.pads[axis] + self.pads[axis + 2]
            steps = padded - self.dilations[axis] * (self.kernel[axis] - 1) - 1
            stride = self.strides[axis]
            found.append((-(-steps // stride) if self.ceil else steps // stride) + 1)
        return found

    @property
    def agreed(self) -> bool:
        """Whether no window begins in the padding at the end: such are left out, but counted by ONNX's inference."""
        ends = (self.height + self.pads[0], self.width + self.pads[1])
        return all((out - 1) * stride < end for out, stride, end in zip(self.sizes, self.strides, ends, strict=True))


def pool_model(pool: Pool) -> onnx.ModelProto:
    """The pooling as a model: input ``x``, output ``y``, nodes ``pool``, and ``conv`` and ``relu`` before it."""
    graph = Graph("pool")
    shape = (pool.batch, pool.channels, pool.height, pool.width)
    x = graph.dequantize(graph.input("x", shape, TensorProto.INT8), _SCALE, _ZERO)
    if pool.relu:
        ones = graph.constant("ones", np.ones((pool.channels, 1, 1, 1), np.int8))
        x = graph.node("Conv", "conv", [x, graph.dequantize(ones, 1.0, _ZERO)], group=pool.channels)
        x = graph.node("Relu", "relu", [x])
        x = graph.dequantize(graph.quantize(x, _SCALE, _ZERO), _SCALE, _ZERO)
    attributes: dict[str, Any] = {"ceil_mode": 1} if pool.ceil else {}
    x = graph.node(
        "MaxPool", "pool", [x], kernel_shape=list(pool.kernel), strides=list(pool.strides), pads=list(pool.pads),
        dilations=list(pool.dilations), **attributes,
    )  # fmt: skip
    if pool.limit is not None:
        bounds = [np.array(sign * pool.limit * _SCALE, np.float32) for sign in (-1, 1)]
        names = [graph.constant(f"bound{place}", bound) for place, bound in enumerate(bounds)]
        x = graph.node("Clip", "clip", [x, *names])
    result = (pool.batch, pool.channels, *pool.sizes)
    graph.output(graph.quantize(x, _SCALE, _ZERO, "y"), result, TensorProto.INT8)
    return graph.model(13)


def expected(pool: Pool, x: Image) -> Image:
    """The result, window by window; what is outside the image takes no part."""
    if pool.relu:
        x = np.maximum(x, np.int8(0))
    rows, columns = pool.sizes
    result = np.empty((*x.shape[:2], rows, columns), np.int8)
    for row in range(rows):
        down = row * pool.strides[0] - pool.pads[0] + np.arange(pool.kernel[0]) * pool.dilations[0]
        down = down[(down >= 0) & (down < pool.height)]
        for column in range(columns):
            right = column * pool.strides[1] - pool.pads[1] + np.arange(pool.kernel[1]) * pool.dilations[1]
            right = right[(right >= 0) & (right < pool.width)]
            window = x[:, :, down[:, None], right[None, :]]
            result[:, :, row, column] = window.reshape(*x.shape[:2], -1).max(-1, initial=-128)
    return result if pool.limit is None else np.clip(result, -pool.limit, pool.limit)
