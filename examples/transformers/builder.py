"""A builder of networks of tokens: nodes and names as torch's exporter writes them, weights drawn as they are added.

Up to opset 22 attention, rotary embeddings, norms by the mean square, GELU and Swish are written out, as exporters do;
from 23 on they are ONNX's own operators.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from examples.graph import Graph

Array = npt.NDArray[Any]
PLAIN = 17
# the first opsets whose ReduceMean has its axes as an input; that have Gelu; Attention, RotaryEmbedding and
# RMSNormalization; and Swish
_REDUCE_INPUTS, _GELU, _ATTENTION, _SWISH = 18, 20, 23, 24
LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Heads:
    """The heads of an attention: how many queries have, how many keys and values have, and the channels of each."""

    queries: int
    keys: int
    depth: int

    @property
    def width(self) -> int:
        """Channels of all queries."""
        return self.queries * self.depth


class Tokens:
    """The network so far. A method adds nodes, below the module that :meth:`within` names, and returns their result.

    Raises:
        ValueError: the opset is below 17.
    """

    def __init__(self, name: str, seed: int, opset: int = PLAIN) -> None:
        if opset < PLAIN:
            raise ValueError(f"{name} has LayerNormalization, which opset {PLAIN} begins with; it cannot be of {opset}")
        self.graph = Graph(name)
        self.opset = opset
        self.random = np.random.default_rng(seed)
        self._modules: list[str] = []
        self._counts: dict[str, int] = {}

    @contextmanager
    def within(self, module: str) -> Iterator[None]:
        """Nodes that are added meanwhile belong to ``module`` of the one around it."""
        self._modules.append(module)
        yield
        self._modules.pop()

    def input(self, name: str, shape: Sequence[int], dtype: int = TensorProto.FLOAT) -> str:
        """A graph input."""
        return self.graph.input(name, shape, dtype)

    def output(self, result: str, name: str, shape: Sequence[int]) -> None:
        """A graph output called ``name``."""
        self.graph.node("Identity", f"{name}_identity", [result], name)
        self.graph.output(name, shape)

    def finish(self) -> onnx.ModelProto:
        """The model, checked."""
        return self.graph.model(self.opset)

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """One node; of several results the first, the others have its name and ``.1``, ``.2``, ..."""
        name = self._name(op)
        made = [name, *(f"{name}.{index}" for index in range(1, outputs))]
        return self.graph.node(op, name, inputs, made, **attributes)

    def constant(self, value: Any, dtype: type = np.float32, name: str = "Constant") -> str:
        """An initializer."""
        return self.graph.constant(self._name(name), np.asarray(value, dtype))

    def normal(self, *shape: int, deviation: float = 1.0, name: str = "weight") -> str:
        """A drawn initializer."""
        drawn = self.random.standard_normal(shape, np.float32) * np.float32(deviation)
        return self.constant(drawn, name=name)

    # layers

    def linear(self, x: str, features: tuple[int, int], *, bias: bool = True, gain: float = 1.0) -> str:
        """A dense layer of tensors of three axes: a MatMul, and an Add."""
        weight = self.random.standard_normal(features, np.float32) * np.float32(math.sqrt(gain / features[0]))
        weight *= self.random.uniform(0.5, 1.5, (1, features[1])).astype(np.float32)
        y = self.node("MatMul", x, self.constant(weight, name="weight"))
        return self.node("Add", self.normal(features[1], deviation=0.1, name="bias"), y) if bias else y

    def classes(self, x: str, features: tuple[int, int]) -> str:
        """A dense layer of matrices: a Gemm."""
        weight = self.normal(features[1], features[0], deviation=features[0] ** -0.5)
        return self.node("Gemm", x, weight, self.normal(features[1], deviation=0.1, name="bias"), transB=1)

    def conv(self, x: str, dims: tuple[int, ...], stride: int = 1, groups: int = 1, pad: int | None = None) -> str:
        """A convolution with a weight of ``dims`` [filters, channels of a group, *kernel], padded to keep the size."""
        weight = self.normal(*dims, deviation=math.sqrt(1 / math.prod(dims[1:])))
        bias = self.normal(dims[0], deviation=0.1, name="bias")
        pads = [dims[2] // 2 if pad is None else pad] * 2 * (len(dims) - 2)
        return self.node("Conv", x, weight, bias, strides=[stride] * (len(dims) - 2), pads=pads, group=groups)

    def layer_norm(self, x: str, width: int, epsilon: float = 1e-5) -> str:
        """A norm over the last axis."""
        parameters = self._gains(width), self.normal(width, deviation=0.1, name="bias")
        return self.node("LayerNormalization", x, *parameters, axis=-1, epsilon=epsilon)

    def rms_norm(self, x: str, width: int, epsilon: float = 1e-5) -> str:
        """A norm by the mean square over the last axis."""
        gains = self._gains(width)
        if self.opset >= _ATTENTION:
            return self.node("RMSNormalization", x, gains, axis=-1, epsilon=epsilon)
        square = self.node("Pow", x, self.constant(2))
        mean = self.mean(square, -1, keepdims=1)
        root = self.node("Sqrt", self.node("Add", mean, self.constant(epsilon)))
        return self.node("Mul", gains, self.node("Mul", x, self.node("Div", self.constant(1), root)))

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
        return self.node("Swish", x) if self.opset >= _SWISH else self.node("Mul", x, self.node("Sigmoid", x))

    def mlp(self, x: str, width: int, hidden: int, *, tanh: bool = False) -> str:
        """Two dense layers around a GELU."""
        with self.within("mlp"):
            return self.linear(self.gelu(self.linear(x, (width, hidden)), tanh=tanh), (hidden, width), gain=2)

    def mean(self, x: str, axis: int, keepdims: int = 0) -> str:
        """The mean along an axis."""
        if self.opset < _REDUCE_INPUTS:
            return self.node("ReduceMean", x, axes=[axis], keepdims=keepdims)
        return self.node("ReduceMean", x, self.constant([axis], np.int64), keepdims=keepdims)

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

    # attention

    def split(self, x: str, heads: int, depth: int) -> str:
        """[1, tokens, heads * depth] as [1, heads, tokens, depth]."""
        return self.transpose(self.reshape(x, 0, -1, heads, depth), 0, 2, 1, 3)

    def joined(self, x: str, width: int) -> str:
        """The inverse of :meth:`split`."""
        return self.reshape(self.transpose(x, 0, 2, 1, 3), 0, -1, width)

    def attend(self, q: str, k: str, v: str, heads: Heads, mask: str = "", *, causal: bool = False) -> str:
        """Attention of split heads. ``mask`` is added to the scores; of a ``causal`` one it says the same.

        Returns:
            [1, heads, tokens, depth].
        """
        if self.opset >= _ATTENTION:
            return self.node("Attention", q, k, v, *([mask] if mask and not causal else []), is_causal=int(causal))
        k, v = (self._repeated(x, heads) for x in (k, v))
        root = self.constant(heads.depth**-0.25)
        scores = self.node("MatMul", self.node("Mul", q, root), self.node("Mul", self.transpose(k, 0, 1, 3, 2), root))
        if mask:
            scores = self.node("Add", scores, mask)
        return self.node("MatMul", self.node("Softmax", scores, axis=-1), v)

    def rotated(self, x: str, cosines: Array, sines: Array) -> str:
        """Rotary places of split heads; the angles' are [tokens, depth / 2]."""
        half = cosines.shape[-1]
        if self.opset >= _ATTENTION:
            places = (self.constant(part[None], name=name) for part, name in ((cosines, "cos"), (sines, "sin")))
            return self.node("RotaryEmbedding", x, *places)
        low, high = self.slice(x, 0, half, 3), self.slice(x, half, 2**63 - 1, 3)
        turned = self.node("Concat", self.node("Neg", high), low, axis=-1)
        both = (self.constant(np.concatenate([part, part], 1)[None, None]) for part in (cosines, sines))
        cosine, sine = both
        return self.node("Add", self.node("Mul", x, cosine), self.node("Mul", turned, sine))

    def _repeated(self, x: str, heads: Heads) -> str:
        """Keys or values, of which several heads of queries share one."""
        times = heads.queries // heads.keys
        if times == 1:
            return x
        wide = self.node("Unsqueeze", x, self.constant([2], np.int64))
        shape = self.node("Shape", wide)
        bigger = self.node("Mul", shape, self.constant([1, 1, times, 1, 1], np.int64))
        return self.reshape(self.node("Expand", wide, bigger), 0, heads.queries, -1, heads.depth)

    def _gains(self, *shape: int) -> str:
        """Factors as those of trained norms: near one, and some far from it."""
        return self.constant(np.exp(self.random.standard_normal(shape) * 0.4), name="weight")

    def _name(self, what: str) -> str:
        base = "/".join(["", *self._modules, what])
        count = self._counts[base] = self._counts.get(base, -1) + 1
        return f"{base}_{count}" if count else base


def angles(places: range, depth: int, base: float = 10_000.0) -> tuple[Array, Array]:
    """Cosines and sines of rotary places, each [places, depth / 2]."""
    turns = np.outer(np.arange(places.start, places.stop), base ** -(np.arange(depth // 2) / (depth // 2)))
    return np.cos(turns), np.sin(turns)
