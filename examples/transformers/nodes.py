"""Nodes of a network of tokens or images, as torch's exporter writes them, with weights drawn as they are added."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from examples.graph import Graph

Array = npt.NDArray[Any]
PLAIN = 17
_GELU, SWISH = 20, 24  # the first opsets that have them


class Nodes(ABC):
    """The network so far. A method adds nodes, and returns the name of their result."""

    def __init__(self, name: str, seed: int, opset: int = PLAIN) -> None:
        self.graph = Graph(name)
        self.opset = opset
        self.random = np.random.default_rng(seed)

    @abstractmethod
    def new_name(self, what: str) -> str:
        """Returns a name that nothing has, of an operator or a constant."""

    @abstractmethod
    def drawn(self, shape: tuple[int, ...]) -> Array:
        """Draws normal values."""

    def input(self, name: str, shape: Sequence[int], dtype: int = TensorProto.FLOAT) -> str:
        """A graph input."""
        return self.graph.input(name, shape, dtype)

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """One node; of several results the first, the others have its name and ``.1``, ``.2``, ..."""
        name = self.new_name(op)
        made = [name, *(f"{name}.{index}" for index in range(1, outputs))]
        return self.graph.node(op, name, inputs, made, **attributes)

    def constant(self, value: Any, dtype: type = np.float32, name: str = "Constant") -> str:
        """An initializer."""
        return self.graph.constant(self.new_name(name), np.asarray(value, dtype))

    def normal(self, *shape: int, deviation: float = 1.0, name: str = "weight") -> str:
        """A drawn initializer."""
        return self.constant(self.drawn(shape) * deviation, name=name)

    def gains(self, *shape: int) -> str:
        """Factors as those of trained norms: near one, and some far from it."""
        return self.constant(np.exp(self.random.standard_normal(shape) * 0.4), name="weight")

    def linear(self, x: str, features: tuple[int, int], *, bias: bool = True, gain: float = 1.0) -> str:
        """A dense layer of tensors of three axes: a MatMul, and an Add."""
        weight = self.drawn(features) * math.sqrt(gain / features[0])
        weight *= self.random.uniform(0.5, 1.5, (1, features[1])).astype(weight.dtype)
        y = self.node("MatMul", x, self.constant(weight, name="weight"))
        return self.node("Add", self.normal(features[1], deviation=0.1, name="bias"), y) if bias else y

    def layer_norm(self, x: str, width: int, epsilon: float = 1e-5) -> str:
        """A norm over the last axis."""
        parameters = self.gains(width), self.normal(width, deviation=0.1, name="bias")
        return self.node("LayerNormalization", x, *parameters, axis=-1, epsilon=epsilon)

    def gelu(self, x: str, *, tanh: bool = False) -> str:
        """By Erf, or as GPT-2 has it."""
        if self.opset >= _GELU:
            return self.node("Gelu", x, approximate="tanh" if tanh else "none")
        if not tanh:
            erf = self.node("Erf", self.node("Div", x, self.constant(math.sqrt(2))))
            return self.node("Mul", self.node("Mul", x, self.node("Add", erf, self.constant(1))), self.constant(0.5))
        cube = self.node("Mul", self.node("Pow", x, self.constant(3)), self.constant(0.044715))
        inner = self.node("Mul", self.node("Add", x, cube), self.constant(math.sqrt(2 / math.pi)))
        y = self.node("Add", self.node("Tanh", inner), self.constant(1))
        return self.node("Mul", self.node("Mul", x, self.constant(0.5)), y)

    def silu(self, x: str) -> str:
        """``x`` times its sigmoid."""
        return self.node("Swish", x) if self.opset >= SWISH else self.node("Mul", x, self.node("Sigmoid", x))

    def reshape(self, x: str, *shape: int) -> str:
        """The elements of ``x`` in another shape."""
        return self.node("Reshape", x, self.constant(shape, np.int64))

    def transpose(self, x: str, *axes: int) -> str:
        """The axes of ``x`` in another order."""
        return self.node("Transpose", x, perm=list(axes))

    def slice(self, x: str, begin: int, end: int, axis: int) -> str:
        """Elements from ``begin`` up to ``end`` along an axis."""
        bounds = (self.constant([value], np.int64) for value in (begin, end, axis))
        return self.node("Slice", x, *bounds)
