"""Models of a convolution and a max pooling behind it, and what they are by the specification of ONNX."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from examples.graph import Graph
from tests.helpers.models.pools import Pool, expected

Image = npt.NDArray[np.int8]


@dataclass(frozen=True)
class PooledConvolution:
    """A convolution of int8 [batch, channels, height, width], requantised by ``1 / scale``, and a pooling behind it.

    ``pool`` is of the convolution's result, whose channels and size it has; ``pads`` and ``step`` are the latter's.
    ``zero`` is the zero point of what leaves, an even one: as a number is rounded, so is it with that added.
    """

    pool: Pool
    channels: int
    size: tuple[int, int]
    kernel: int = 1
    step: int = 1
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    depthwise: bool = False
    scale: float = 1024.0
    zero: int = 0
    seed: int = 0

    @property
    def result(self) -> tuple[int, int]:
        """Rows and columns of the convolution's result."""
        high, wide = (
            (self.size[axis] + self.pads[axis] + self.pads[axis + 2] - self.kernel) // self.step + 1 for axis in (0, 1)
        )
        return high, wide

    @property
    def constants(self) -> tuple[Image, npt.NDArray[np.int32]]:
        """Weights and bias."""
        random = np.random.default_rng(self.seed)
        depth = 1 if self.depthwise else self.channels
        weights = random.integers(-127, 128, (self.pool.channels, depth, self.kernel, self.kernel)).astype(np.int8)
        return weights, random.integers(-2000, 2000, self.pool.channels).astype(np.int32)


def pooled_convolution_model(net: PooledConvolution) -> onnx.ModelProto:
    """The network: input ``x``, output ``y``, nodes ``conv``, ``relu`` (if the pool has one before it) and ``pool``."""
    graph, pool, (weights, bias) = Graph("pooled"), net.pool, net.constants
    none, zero = np.array(0, np.int8), np.array(net.zero, np.int8)
    shape = (pool.batch, net.channels, *net.size)
    x = graph.dequantize(graph.input("x", shape, TensorProto.INT8), 1.0, none)
    scale, offset = graph.constant("one", np.float32(1.0)), graph.constant("none", np.int32(0))
    added = graph.node("DequantizeLinear", "bias", [graph.constant("b", bias), scale, offset])
    kernel = graph.dequantize(graph.constant("w", weights), 1.0, none)
    groups = net.channels if net.depthwise else 1
    y = graph.node("Conv", "conv", [x, kernel, added], pads=list(net.pads), strides=[net.step] * 2, group=groups)
    if pool.relu:
        y = graph.node("Relu", "relu", [y])
    y = graph.dequantize(graph.quantize(y, net.scale, zero), net.scale, zero)
    attributes: dict[str, Any] = {"ceil_mode": 1} if pool.ceil else {}
    y = graph.node(
        "MaxPool", "pool", [y], kernel_shape=list(pool.kernel), strides=list(pool.strides), pads=list(pool.pads),
        **attributes,
    )  # fmt: skip
    graph.output(graph.quantize(y, net.scale, zero, "y"), (pool.batch, pool.channels, *pool.sizes), TensorProto.INT8)
    return graph.model(13)


def pooled_convolution(net: PooledConvolution, x: Image) -> Image:
    """What the network makes of ``x``, in exact integers and one product of float32."""
    pool, (weights, bias), (high, wide), step = net.pool, net.constants, net.result, net.step
    top, left, bottom, right = net.pads
    padded = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    sums = np.zeros((pool.batch, pool.channels, high, wide), np.int64) + bias[:, None, None]
    for row, column in np.ndindex(net.kernel, net.kernel):
        seen = padded[:, :, row:, column:][:, :, ::step, ::step][:, :, :high, :wide]
        taps = weights[:, :, row, column].astype(np.int64)
        sums += seen * taps.reshape(-1, 1, 1) if net.depthwise else np.einsum("nchw,kc->nkhw", seen, taps)
    rounded = np.rint(sums.astype(np.float32) * np.float32(1 / net.scale)) + net.zero
    lowest = max(net.zero, -128) if pool.relu else -128
    return expected(replace(pool, relu=False), np.clip(rounded, lowest, 127).astype(np.int8))
