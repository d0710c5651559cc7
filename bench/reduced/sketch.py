"""A builder of reduced networks: nodes as torch's exporter writes them, with drawn weights and tracked shapes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from examples.graph import Graph

Array = npt.NDArray[Any]


class Sketch:
    """The network so far. A method adds nodes and returns the name of their result."""

    def __init__(self, name: str, seed: int) -> None:
        self.graph = Graph(name)
        self.random = np.random.default_rng(seed)
        self._count = 0

    def input(self, name: str, shape: Sequence[int], dtype: int = TensorProto.FLOAT) -> str:
        return self.graph.input(name, shape, dtype)

    def finish(self, result: str, shape: Sequence[int]) -> onnx.ModelProto:
        """The checked model, of one output."""
        self.graph.output(result, shape)
        return self.graph.model()

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Add one node; of several results the first, the others have its name and a number."""
        name = self._name(op)
        made = [name, *(f"{name}.{index}" for index in range(1, outputs))]
        return self.graph.node(op, name, inputs, made, **attributes)

    def constant(self, value: Any, dtype: type = np.float32) -> str:
        return self.graph.constant(self._name("constant"), np.asarray(value, dtype))

    def normal(self, *shape: int, deviation: float = 1.0) -> str:
        return self.constant(self.random.standard_normal(shape) * deviation)

    def gains(self, *shape: int) -> str:
        """Factors as those of trained norms: near one, and some far from it."""
        return self.constant(np.exp(self.random.standard_normal(shape) * 0.4))

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

    def silu(self, x: str) -> str:
        return self.node("Mul", x, self.node("Sigmoid", x))

    # networks of tokens

    def linear(self, x: str, features: tuple[int, int], *, bias: bool = True, gain: float = 1.0) -> str:
        """A MatMul and an Add, as of more than two axes."""
        weight = self.random.standard_normal(features) * math.sqrt(gain / features[0])
        weight *= self.random.uniform(0.5, 1.5, (1, features[1]))
        y = self.node("MatMul", x, self.constant(weight))
        return self.node("Add", self.normal(features[1], deviation=0.1), y) if bias else y

    def layer_norm(self, x: str, width: int) -> str:
        return self.node("LayerNormalization", x, self.gains(width), self.normal(width, deviation=0.1), axis=-1)

    def gelu(self, x: str) -> str:
        """By Erf, in five nodes."""
        erf = self.node("Erf", self.node("Div", x, self.constant(math.sqrt(2))))
        y = self.node("Mul", x, self.node("Add", erf, self.constant(1)))
        return self.node("Mul", y, self.constant(0.5))

    def gelu_tanh(self, x: str) -> str:
        """GPT-2's."""
        cube = self.node("Mul", self.node("Pow", x, self.constant(3)), self.constant(0.044715))
        inner = self.node("Mul", self.node("Add", x, cube), self.constant(math.sqrt(2 / math.pi)))
        y = self.node("Add", self.node("Tanh", inner), self.constant(1))
        return self.node("Mul", self.node("Mul", x, self.constant(0.5)), y)

    def reshape(self, x: str, *shape: int) -> str:
        return self.node("Reshape", x, self.constant(shape, np.int64))

    def transpose(self, x: str, *axes: int) -> str:
        return self.node("Transpose", x, perm=axes)

    def slice(self, x: str, begin: int, end: int, axis: int) -> str:
        return self.node("Slice", x, *(self.constant([value], np.int64) for value in (begin, end, axis, 1)))

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

    def _name(self, op: str) -> str:
        self._count += 1
        return f"{op.lower()}_{self._count}"
