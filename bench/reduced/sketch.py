"""A builder of reduced networks: nodes as torch's exporter writes them, with drawn weights and tracked shapes."""

import math
from collections.abc import Sequence

import onnx

from examples.transformers.nodes import Array, Nodes


class Sketch(Nodes):
    """The network so far. A method adds nodes and returns the name of their result."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name, seed)
        self._count = 0

    def finish(self, result: str, shape: Sequence[int]) -> onnx.ModelProto:
        """The checked model, of one output."""
        self.graph.output(result, shape)
        return self.graph.model()

    # networks of images

    def conv(
        self, x: str, channels: tuple[int, int], kernel: int = 3, stride: int = 1, groups: int = 1, gain: float = 2.0
    ) -> str:
        """Convolution whose batch norm is folded: channels of different gains, padded to keep the size."""
        inputs, filters = channels
        fan = inputs // groups * kernel**2
        weight = self.random.standard_normal((filters, inputs // groups, kernel, kernel)) * math.sqrt(gain / fan)
        weight *= self.random.uniform(0.5, 1.5, (filters, 1, 1, 1))
        bias = self.normal(filters, deviation=0.2)
        pads = [kernel // 2] * 4 if stride < kernel or kernel == 1 else [0] * 4
        return self.node("Conv", x, self.constant(weight), bias, strides=[stride] * 2, pads=pads, group=groups)

    def relu(self, x: str) -> str:
        return self.node("Relu", x)

    # networks of tokens

    def attention(self, q: str, k: str, v: str, sizes: tuple[int, int, int], mask: str = "") -> str:
        """Scaled products of heads [1, heads, length, depth] and a softmax; the heads joined."""
        heads, length, depth = sizes
        scores = self.node("MatMul", q, self.transpose(k, 0, 1, 3, 2))
        scores = self.node("Div", scores, self.constant(math.sqrt(depth)))
        if mask:
            scores = self.node("Add", scores, mask)
        y = self.transpose(self.node("MatMul", self.node("Softmax", scores, axis=-1), v), 0, 2, 1, 3)
        return self.reshape(y, 1, length, heads * depth)

    def heads(self, x: str, sizes: tuple[int, int, int]) -> str:
        heads, length, depth = sizes
        return self.transpose(self.reshape(x, 1, length, heads, depth), 0, 2, 1, 3)

    def drawn(self, shape: tuple[int, ...]) -> Array:
        return self.random.standard_normal(shape)

    def new_name(self, what: str) -> str:
        self._count += 1
        return f"{what.lower()}_{self._count}"
