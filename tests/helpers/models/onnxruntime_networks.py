"""Small networks of today's kinds, for other people's quantisers."""

import numpy as np
import onnx

from examples.graph import Graph


class _Network(Graph):
    """Convolutions whose channels differ in loudness, as trained ones do."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._random = np.random.default_rng(0)

    def conv(
        self, name: str, x: str, channels: tuple[int, int], size: int = 1, stride: int = 1, groups: int = 1
    ) -> str:
        """From ``channels[0]`` to ``channels[1]``, padded to keep the extents, with a bias."""
        inputs, outputs = channels
        weight = self._random.standard_normal((outputs, inputs // groups, size, size))
        weight *= (2 / weight[0].size) ** 0.5 * self._random.uniform(0.3, 1.5, (outputs, 1, 1, 1))
        operands = [x, self.constant(f"{name}_w", weight.astype(np.float32)), self._bias(name, outputs)]
        return self.node("Conv", name, operands, strides=[stride] * 2, pads=[size // 2] * 4, group=groups)

    def relu(self, x: str) -> str:
        return self.node("Relu", f"{x}_relu", [x])

    def classified(self, x: str, channels: int) -> onnx.ModelProto:
        """The model with a mean over the image and a dense layer behind ``x``."""
        flat = self.node("Flatten", "flat", [self.node("GlobalAveragePool", "mean", [x])])
        weight = (self._random.standard_normal((channels, 10)) * 0.2).astype(np.float32)
        self.output(
            self.node("Gemm", "dense", [flat, self.constant("dense_w", weight), self._bias("dense", 10)]), (1, 10)
        )
        return self.model()

    def _bias(self, name: str, channels: int) -> str:
        return self.constant(f"{name}_b", (self._random.standard_normal(channels) * 0.1).astype(np.float32))


def mobile(blocks: int = 2) -> onnx.ModelProto:
    """Inverted residuals: expansion, depthwise convolution, projection, and a sum."""
    graph = _Network("mobile")
    x = graph.relu(graph.conv("stem", graph.input("x", (1, 3, 16, 16)), (3, 16), 3, 2))
    for block in "abc"[:blocks]:
        y = graph.relu(graph.conv(f"{block}_wide", x, (16, 48)))
        y = graph.relu(graph.conv(f"{block}_deep", y, (48, 48), 3, groups=48))
        x = graph.node("Add", f"{block}_sum", [x, graph.conv(f"{block}_narrow", y, (48, 16))])
    return graph.classified(x, 16)


def inception() -> onnx.ModelProto:
    """Branches of different windows, side by side."""
    graph = _Network("inception")
    x = graph.relu(graph.conv("stem", graph.input("x", (1, 3, 14, 14)), (3, 16), 3))
    x = graph.node("MaxPool", "largest", [x], kernel_shape=[2, 2], strides=[2, 2])
    small = graph.relu(graph.conv("small", x, (16, 16)))
    large = graph.relu(graph.conv("large", graph.relu(graph.conv("fewer", x, (16, 8))), (8, 16), 3))
    pooled = graph.node("AveragePool", "average", [x], kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
    pooled = graph.relu(graph.conv("pooled", pooled, (16, 8)))
    x = graph.node("Concat", "beside", [small, large, pooled], axis=1)
    return graph.classified(graph.relu(graph.conv("last", x, (40, 16))), 16)
