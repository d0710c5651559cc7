"""A builder of networks of tokens: nodes and names as torch's exporter writes them, weights drawn as they are added.

Up to opset 22 attention, rotary embeddings, norms by the mean square, GELU and Swish are written out, as exporters do;
from 23 on they are ONNX's own operators.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import onnx

from examples.transformers.nodes import PLAIN, Array, Nodes

# the first opsets whose ReduceMean has its axes as an input, and Split the number of parts; and that have Attention,
# RotaryEmbedding and RMSNormalization
_REDUCE_INPUTS, _COUNTED, _ATTENTION = 18, 18, 23
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


class Tokens(Nodes):
    """The network so far; nodes are named after the module that :meth:`within` names.

    Raises:
        ValueError: the opset is below 17.
    """

    def __init__(self, name: str, seed: int, opset: int = PLAIN) -> None:
        if opset < PLAIN:
            raise ValueError(f"{name} has LayerNormalization, which opset {PLAIN} begins with; it cannot be of {opset}")
        super().__init__(name, seed, opset)
        self._modules: list[str] = []
        self._counts: dict[str, int] = {}

    @contextmanager
    def within(self, module: str) -> Iterator[None]:
        """Nodes that are added meanwhile belong to ``module`` of the one around it."""
        self._modules.append(module)
        yield
        self._modules.pop()

    def output(self, result: str, name: str, shape: Sequence[int]) -> None:
        """A graph output called ``name``."""
        self.graph.node("Identity", f"{name}_identity", [result], name)
        self.graph.output(name, shape)

    def finish(self) -> onnx.ModelProto:
        """The model, checked."""
        return self.graph.model(self.opset)

    # layers

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

    def rms_norm(self, x: str, width: int, epsilon: float = 1e-5) -> str:
        """A norm by the mean square over the last axis."""
        gains = self.gains(width)
        if self.opset >= _ATTENTION:
            return self.node("RMSNormalization", x, gains, axis=-1, epsilon=epsilon)
        square = self.node("Pow", x, self.constant(2))
        mean = self.mean(square, -1, keepdims=1)
        root = self.node("Sqrt", self.node("Add", mean, self.constant(epsilon)))
        return self.node("Mul", gains, self.node("Mul", x, self.node("Div", self.constant(1), root)))

    def mlp(self, x: str, width: int, hidden: int, *, tanh: bool = False) -> str:
        """Two dense layers around a GELU."""
        with self.within("mlp"):
            return self.linear(self.gelu(self.linear(x, (width, hidden)), tanh=tanh), (hidden, width), gain=2)

    def mean(self, x: str, axis: int, keepdims: int = 0) -> str:
        """The mean along an axis."""
        if self.opset < _REDUCE_INPUTS:
            return self.node("ReduceMean", x, axes=[axis], keepdims=keepdims)
        return self.node("ReduceMean", x, self.constant([axis], np.int64), keepdims=keepdims)

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
        cosine, sine = (self.constant(np.concatenate([part, part], 1)[None, None]) for part in (cosines, sines))
        return self.node("Add", self.node("Mul", x, cosine), self.node("Mul", turned, sine))

    def parts(self, x: str, count: int, axis: int) -> list[str]:
        """As many equal parts along an axis."""
        counted = {} if self.opset < _COUNTED else {"num_outputs": count}
        first = self.node("Split", x, outputs=count, axis=axis, **counted)
        return [first, *(f"{first}.{index}" for index in range(1, count))]

    def _repeated(self, x: str, heads: Heads) -> str:
        """Keys or values, of which several heads of queries share one."""
        times = heads.queries // heads.keys
        if times == 1:
            return x
        wide = self.node("Unsqueeze", x, self.constant([2], np.int64))
        shape = self.node("Shape", wide)
        bigger = self.node("Mul", shape, self.constant([1, 1, times, 1, 1], np.int64))
        return self.reshape(self.node("Expand", wide, bigger), 0, heads.queries, -1, heads.depth)

    def drawn(self, shape: tuple[int, ...]) -> Array:
        """Draws normal values, float32."""
        return self.random.standard_normal(shape, np.float32)

    def new_name(self, what: str) -> str:
        """Returns the name of the module, and what it is of."""
        base = "/".join(["", *self._modules, what])
        count = self._counts[base] = self._counts.get(base, -1) + 1
        return f"{base}_{count}" if count else base


def angles(places: range, depth: int, base: float = 10_000.0) -> tuple[Array, Array]:
    """Cosines and sines of rotary places, each [places, depth / 2]."""
    turns = np.outer(np.arange(places.start, places.stop), base ** -(np.arange(depth // 2) / (depth // 2)))
    return np.cos(turns), np.sin(turns)
