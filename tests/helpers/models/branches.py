"""Small networks that fork and join, as float models."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from examples.graph import Graph


class Branches:
    """A network that grows; ``channels`` are those of every tensor by its name."""

    def __init__(self, shape: tuple[int, int, int, int]) -> None:
        self.graph = Graph("branches")
        self.random = np.random.default_rng(0)
        self.x = self.graph.input("x", shape)
        self.channels = {self.x: shape[1]}
        self.count = 0

    def node(self, op: str, inputs: Sequence[str], channels: int, **attributes: Any) -> str:
        self.count += 1
        name = self.graph.node(op, f"{op.lower()}{self.count}", list(inputs), **attributes)
        self.channels[name] = channels
        return name

    def conv(self, x: str, filters: int, size: int = 1, stride: int = 1, *, relu: bool = True) -> str:
        """A convolution with a relu behind it."""
        depth = self.channels[x]
        values = self.random.normal(0, (depth * size**2) ** -0.5, (filters, depth, size, size))
        weight = self.graph.constant(f"weight{self.count}", values.astype(np.float32))
        y = self.node("Conv", [x, weight], filters, pads=[size // 2] * 4, strides=[stride] * 2)
        return self.relu(y) if relu else y

    def relu(self, x: str) -> str:
        return self.node("Relu", [x], self.channels[x])

    def add(self, a: str, b: str) -> str:
        return self.node("Add", [a, b], self.channels[a])

    def pool(self, x: str, size: int, stride: int, pad: int = 0) -> str:
        window = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        return self.node("MaxPool", [x], self.channels[x], **window)

    def concat(self, tensors: Sequence[str]) -> str:
        return self.node("Concat", tensors, sum(self.channels[x] for x in tensors), axis=1)

    def model(self, x: str, rows: int, columns: int) -> onnx.ModelProto:
        self.graph.output(x, (1, self.channels[x], rows, columns))
        return self.graph.model()


def fire_modules() -> onnx.ModelProto:
    """As SqueezeNet: a squeeze, two expansions side by side, and pools between."""
    net = Branches((1, 3, 15, 15))
    x = net.pool(net.conv(net.x, 32, 3), 3, 2)
    for squeezed in (16, 32):
        s = net.conv(x, squeezed)
        x = net.concat([net.conv(s, 2 * squeezed), net.conv(s, 2 * squeezed, 3)])
    return net.model(net.pool(x, 3, 2), 3, 3)


def inception() -> onnx.ModelProto:
    """Four branches of different depth, one of them a pool."""
    net = Branches((1, 3, 9, 9))
    x = net.conv(net.x, 32, 3)
    pooled = net.conv(net.pool(x, 3, 1, 1), 16)
    x = net.concat([net.conv(x, 16), net.conv(net.conv(x, 16), 48, 3), net.conv(net.conv(x, 16), 16, 5), pooled])
    return net.model(net.pool(x, 3, 2, 1), 5, 5)


def dense_block() -> onnx.ModelProto:
    """As DenseNet: each layer reads all before it."""
    net = Branches((1, 3, 8, 8))
    features = [net.conv(net.x, 32, 3)]
    for _ in range(3):
        x = net.concat(features) if len(features) > 1 else features[0]
        features.append(net.conv(net.conv(x, 32), 16, 3))
    return net.model(net.conv(net.concat(features), 32), 8, 8)


def preactivated() -> onnx.ModelProto:
    """Residual blocks whose relu comes first."""
    net = Branches((1, 3, 8, 8))
    x = net.conv(net.x, 32, 3, relu=False)
    for _ in range(2):
        y = net.conv(net.relu(x), 32, 3)
        x = net.add(x, net.conv(y, 32, 3, relu=False))
    return net.model(net.relu(x), 8, 8)
