"""Random weights that keep a network lively: no layer dies, saturates or forgets its input.

The graph is run node by node on a few random samples; weights are drawn as the run reaches them. A layer's weights
are scaled by its fan-in and by the mean square of what it reads, so that its results have about unit variance
(He et al. 2015, "Delving Deep into Rectifiers", with the mean square measured rather than derived). Its bias replaces
the mean of each channel, or else the samples would grow alike from layer to layer. Batch norms carry the statistics
of what they read. The new means are positive: with means of zero, a deep network of rectifiers magnifies every
difference, and its int8 form would have little in common with it.

The same seed draws the same weights on the same machine; on another, the last bits of the statistics may differ.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, numpy_helper

from examples.run_node import run_node

Array = npt.NDArray[Any]

SAMPLES = 8
_WEIGHTED = ("Conv", "Gemm", "MatMul")
_RESHAPES = ("Reshape", "Unsqueeze")
_MEAN = 0.5  # of a layer's results, whose deviation is about 1
_LEAST_VARIANCE = 1e-2  # of a channel, as a fraction of the mean over the channels


def draw_weights(model: onnx.ModelProto, seed: int = 0, samples: int = SAMPLES) -> None:
    """Fill the float initializers of ``model`` that have a shape and no values; see the module for how.

    Args:
        model: its inputs are float32 of static shape. It is changed.
        seed: of the weights and of the samples, which are drawn from the standard normal distribution.
        samples: number of runs over the whole network; two at least, or batch norms of vectors see no variance.
    """
    if not any(map(is_placeholder, model.graph.initializer)):
        return
    drawing = _Drawing(model, np.random.default_rng(seed), samples)
    for node in model.graph.node:
        drawing.visit(node)


class _Drawing:
    """The values of the tensors on the samples, and the weights drawn so far."""

    def __init__(self, model: onnx.ModelProto, random: np.random.Generator, samples: int) -> None:
        self.random = random
        self.opset = model.opset_import[0].version
        self.placeholders: dict[str, TensorProto] = {
            tensor.name: tensor for tensor in model.graph.initializer if is_placeholder(tensor)
        }
        self.reshapes: dict[str, onnx.NodeProto] = {}
        self.readers = Counter(name for node in model.graph.node for name in node.input)
        # a constant has one value, whatever the number of samples
        self.values: dict[str, list[Array]] = {
            tensor.name: [numpy_helper.to_array(tensor)]
            for tensor in model.graph.initializer
            if tensor.name not in self.placeholders
        }
        for info in model.graph.input:
            shape = [dimension.dim_value for dimension in info.type.tensor_type.shape.dim]
            self.values[info.name] = [random.standard_normal(shape, np.float32) for _ in range(samples)]

    def visit(self, node: onnx.NodeProto) -> None:
        """Run ``node``; draw its weights if it has any."""
        if node.op_type in _RESHAPES and node.input[0] in self.placeholders:
            self.reshapes[node.output[0]] = node  # how to draw it depends on who reads the result
        elif node.op_type in _WEIGHTED:
            self._visit_weighted(node)
        elif node.op_type == "BatchNormalization":
            self._visit_batch_norm(node)
        else:
            for index, name in enumerate(node.input):
                if self._undrawn(name):
                    self._visit_scale(node.op_type, name, node.input[1 - index])
            self._run(node)

    def _visit_weighted(self, node: onnx.NodeProto) -> None:
        read, name, *bias = node.input
        if self._undrawn(name):
            dims = self._root(name).dims
            fan_in = np.prod(dims[1:]) if node.op_type == "Conv" else self.values[read][0].shape[-1]
            power = np.mean([np.square(value, dtype=np.float64).mean() for value in self.values[read]])
            self._set(name, self._normal(dims, 1 / np.sqrt(fan_in * power)))
        centred = bool(bias) and self._undrawn(bias[0])
        if centred:
            self.values[bias[0]] = [np.zeros(self._root(bias[0]).dims, np.float32)]
        self._run(node)
        if centred:
            value = self._centring(self._root(bias[0]).dims, self.values[node.output[0]])
            self._set(bias[0], value)
            results = self.values[node.output[0]]
            self.values[node.output[0]] = [y + value.reshape(_by_channel(y)) for y in results]

    def _visit_batch_norm(self, node: onnx.NodeProto) -> None:
        read, *parameters = node.input
        if all(map(self._undrawn, parameters)):
            mean, variance = _statistics(self.values[read])
            scale = self.random.uniform(0.6, 1.4, mean.shape).astype(np.float32)
            bias = self._normal(mean.shape, 0.2) + _MEAN
            drawn: tuple[Array, ...] = (scale, bias, mean, variance)
            for name, value in zip(parameters, drawn, strict=True):
                self._set(name, value)
        self._run(node)

    def _visit_scale(self, op: str, name: str, read: str) -> None:
        """A factor or a bias of each channel, which a node of its own applies."""
        dims = self._root(name).dims
        if op == "Mul":
            self._set(name, self.random.uniform(0.6, 1.4, dims).astype(np.float32))
        elif op == "Add":
            self._set(name, self._centring(dims, self.values[read]))
        else:
            raise ValueError(f"no rule to draw {name!r}, which {op} reads")

    def _centring(self, dims: Sequence[int], results: list[Array]) -> Array:
        mean, _ = _statistics(results)
        return self._normal(dims, 0.1) + _MEAN - mean.reshape(dims)

    def _normal(self, dims: Sequence[int], deviation: float) -> Array:
        return self.random.standard_normal(tuple(dims), np.float32) * np.float32(deviation)

    def _undrawn(self, name: str) -> bool:
        return name in self.placeholders or name in self.reshapes

    def _root(self, name: str) -> TensorProto:
        return self.placeholders[self.reshapes[name].input[0] if name in self.reshapes else name]

    def _set(self, name: str, value: Array) -> None:
        """Give a placeholder its value, and run the reshaping between it and its reader."""
        tensor = self._root(name)
        tensor.raw_data = np.asarray(value, np.float32).tobytes()
        del self.placeholders[tensor.name]
        self.values[tensor.name] = [value]
        if name in self.reshapes:
            self._run(self.reshapes.pop(name))

    def _run(self, node: onnx.NodeProto) -> None:
        """Run ``node`` on every sample, and drop the values that no later node reads."""
        names = [name for name in node.input if name]
        runs = max((len(self.values[name]) for name in names), default=1)
        feeds = [{name: self.values[name][index % len(self.values[name])] for name in names} for index in range(runs)]
        results = run_node(node, self.opset, feeds)
        self.readers.subtract(node.input)
        for name in names:
            if not self.readers[name]:
                self.values.pop(name, None)
        outputs = [name for name in node.output if name]
        self.values.update((name, [result[index] for result in results]) for index, name in enumerate(outputs))


def is_placeholder(tensor: TensorProto) -> bool:
    """Whether ``tensor`` has a shape but no values yet."""
    return tensor.data_type == TensorProto.FLOAT and not tensor.raw_data and not tensor.float_data


def _by_channel(value: Array) -> tuple[int, ...]:
    return (1, -1, *(1,) * (value.ndim - 2))


def _statistics(values: list[Array]) -> tuple[Array, Array]:
    """Mean and variance of each channel, axis 1, over all samples."""
    stacked = np.stack(values)
    axes = tuple(axis for axis in range(stacked.ndim) if axis != 2)
    mean, variance = stacked.mean(axes, np.float64), stacked.var(axes, np.float64)
    return mean.astype(np.float32), np.maximum(variance, _LEAST_VARIANCE * variance.mean()).astype(np.float32)
