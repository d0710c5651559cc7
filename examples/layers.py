"""A builder of networks: layers as a framework has them, nodes and names as its exporter writes them.

Weights are drawn when the network is finished (see ``weights``), then batch norms are folded if wanted.
"""

import math

import numpy as np
import onnx

from examples.exporters import Exporter
from examples.fold import fold_batch_norms
from examples.graph import OPSET, Graph
from examples.weights import draw_weights

# the first opsets whose Clip has its bounds as inputs, Split its sizes, and ReduceMean its axes; and that has HardSwish
_CLIP_INPUTS = 11
_SPLIT_INPUTS = 13
_HARD_SWISH = 14
_REDUCE_INPUTS = 18

Kernel = int | tuple[int, int]


class Layers:
    """The network so far. Each method adds a layer called ``module`` and returns the name of its result."""

    def __init__(self, name: str, exporter: Exporter, opset: int = OPSET) -> None:
        self.graph = Graph(name)
        self.exporter = exporter
        self.opset = opset
        self.shapes: dict[str, tuple[int, ...]] = {}

    def input(self, name: str, shape: tuple[int, ...]) -> str:
        """A float32 input of ``shape``: [1, channels, height, width], or [1, features]."""
        self.shapes[name] = shape
        return self.graph.input(name, shape)

    def conv(
        self, module: str, x: str, filters: int, kernel: Kernel = 1, stride: int = 1, *, bias: bool = False
    ) -> str:
        """Convolution over all channels, padded as the framework does."""
        return self._conv(module, "Conv", x, (filters, self.shapes[x][1], *_pair(kernel)), stride, bias=bias)

    def depthwise(self, module: str, x: str, stride: int = 1, kernel: Kernel = 3, *, bias: bool = False) -> str:
        """Convolution of each channel by itself, padded as the framework does."""
        return self._conv(module, "Depthwise", x, (self.shapes[x][1], 1, *_pair(kernel)), stride, bias=bias)

    def batch_norm(self, module: str, x: str) -> str:
        """Batch norm over the channels."""
        parameters = [
            self.graph.placeholder(self.exporter.parameter(module, "BatchNormalization", role), self.shapes[x][1:2])
            for role in ("weight", "bias", "mean", "variance")
        ]
        return self._node("BatchNormalization", module, [x, *parameters], self.shapes[x], epsilon=self.exporter.epsilon)

    def relu(self, module: str, x: str) -> str:
        """Rectifier."""
        return self._node("Relu", module, [x], self.shapes[x])

    def relu6(self, module: str, x: str) -> str:
        """Rectifier that saturates at 6."""
        if self.opset < _CLIP_INPUTS:
            return self._node("Clip", module, [x], self.shapes[x], min=0.0, max=6.0)
        name = self.exporter.node(module, "Clip")
        bounds = [
            self.graph.constant(f"{name}/{key}", np.array(value, np.float32)) for key, value in (("min", 0), ("max", 6))
        ]
        return self._node("Clip", module, [x, *bounds], self.shapes[x])

    def sigmoid(self, module: str, x: str) -> str:
        """Logistic function."""
        return self._node("Sigmoid", module, [x], self.shapes[x])

    def silu(self, module: str, x: str) -> str:
        """Sigmoid linear unit: ``x`` times its sigmoid, of which exporters make two nodes."""
        return self.multiply(module, x, self.sigmoid(module, x))

    def hard_sigmoid(self, module: str, x: str) -> str:
        """Straight line from 0 at -3 to 1 at 3."""
        return self._node("HardSigmoid", module, [x], self.shapes[x], alpha=1 / 6, beta=0.5)

    def hard_swish(self, module: str, x: str) -> str:
        """Product of ``x`` and its ``hard_sigmoid``."""
        if self.opset < _HARD_SWISH:
            return self.multiply(module, x, self.hard_sigmoid(module, x))
        return self._node("HardSwish", module, [x], self.shapes[x])

    def add(self, module: str, a: str, b: str) -> str:
        """Residual sum."""
        return self._node("Add", module, [a, b], self.shapes[a])

    def multiply(self, module: str, a: str, b: str) -> str:
        """Product by elements; ``a`` or ``b`` may have a single value of each channel."""
        shape = max(self.shapes[a], self.shapes[b], key=math.prod)
        return self._node("Mul", module, [a, b], shape)

    def halves(self, module: str, x: str) -> tuple[str, str]:
        """The first and the second half of the channels."""
        name = self.exporter.node(module, "Split")
        half = (self.shapes[x][0], self.shapes[x][1] // 2, *self.shapes[x][2:])
        sizes: dict[str, object] = {}
        inputs = [x]
        if self.opset < _SPLIT_INPUTS:
            sizes["split"] = [half[1]] * 2
        else:
            inputs.append(self.graph.constant(f"{name}/split", np.full(2, half[1], np.int64)))
        results = (self.exporter.output(name), self.exporter.output(name, 1))
        self.graph.node("Split", name, inputs, results, axis=1, **sizes)
        self.shapes.update(dict.fromkeys(results, half))
        return results

    def concat(self, module: str, a: str, b: str) -> str:
        """The channels of ``a``, then those of ``b``."""
        channels = self.shapes[a][1] + self.shapes[b][1]
        return self._node("Concat", module, [a, b], (self.shapes[a][0], channels, *self.shapes[a][2:]), axis=1)

    def reshape(self, module: str, x: str, shape: tuple[int, ...]) -> str:
        """The elements of ``x`` in another shape."""
        to = self.graph.constant(f"{self.exporter.node(module, 'Reshape')}/shape", np.array(shape, np.int64))
        return self._node("Reshape", module, [x, to], shape)

    def transpose(self, module: str, x: str, axes: tuple[int, ...]) -> str:
        """The axes of ``x`` in another order."""
        return self._node("Transpose", module, [x], tuple(self.shapes[x][axis] for axis in axes), perm=list(axes))

    def max_pool(self, module: str, x: str, kernel: int, stride: int) -> str:
        """Max pool, padded as the framework does."""
        sizes, window = self._window(x, (kernel, kernel), stride)
        return self._node("MaxPool", module, [x], (*self.shapes[x][:2], *sizes), **window)

    def average_pool(self, module: str, x: str, kernel: tuple[int, int]) -> str:
        """Average pool whose windows neither overlap nor reach beyond the image."""
        sizes = [size // edge for size, edge in zip(self.shapes[x][2:], kernel, strict=True)]
        shape = (*self.shapes[x][:2], *sizes)
        return self._node("AveragePool", module, [x], shape, kernel_shape=list(kernel), strides=list(kernel))

    def global_pool(self, module: str, x: str) -> str:
        """Average over the whole image."""
        return self._node("GlobalAveragePool", module, [x], (*self.shapes[x][:2], 1, 1))

    def mean(self, module: str, x: str) -> str:
        """Average over the whole image: [1, channels, height, width] to [1, channels]."""
        shape = self.shapes[x][:2]
        if self.opset < _REDUCE_INPUTS:
            return self._node("ReduceMean", module, [x], shape, axes=[2, 3], keepdims=0)
        axes = self.graph.constant(f"{self.exporter.node(module, 'ReduceMean')}/axes", np.array([2, 3], np.int64))
        return self._node("ReduceMean", module, [x, axes], shape, keepdims=0)

    def flatten(self, module: str, x: str) -> str:
        """[1, channels, height, width] to [1, features]."""
        return self._node("Flatten", module, [x], (1, math.prod(self.shapes[x])))

    def gemm(self, module: str, x: str, units: int) -> str:
        """Dense layer as PyTorch exports it: one Gemm, its weight [units, features]."""
        weight, bias = (self.exporter.parameter(module, "Gemm", role) for role in ("weight", "bias"))
        self.graph.placeholder(weight, (units, self.shapes[x][1]))
        self.graph.placeholder(bias, (units,))
        return self._node("Gemm", module, [x, weight, bias], (1, units), transB=1)

    def dense(self, module: str, x: str, units: int) -> str:
        """Dense layer as Keras' is exported: MatMul by a weight [features, units], then Add."""
        weight = self.graph.placeholder(self.exporter.parameter(module, "MatMul", "weight"), (self.shapes[x][1], units))
        bias = self.graph.placeholder(self.exporter.parameter(module, "Add", "bias"), (units,))
        return self._node("Add", module, [self._node("MatMul", module, [x, weight], (1, units)), bias], (1, units))

    def softmax(self, module: str, x: str) -> str:
        """Softmax over the classes."""
        return self._node("Softmax", module, [x], self.shapes[x])

    def output(self, x: str) -> None:
        """Make ``x`` the network's output."""
        self.graph.output(x, self.shapes[x])

    def finish(self, seed: int, *, batch_norm: bool) -> onnx.ModelProto:
        """The checked model, its weights drawn; batch norms are folded unless wanted."""
        model = self.graph.unchecked(self.opset)
        draw_weights(model, seed)
        model = model if batch_norm else fold_batch_norms(model)
        onnx.checker.check_model(model, full_check=True)
        return model

    def _conv(self, module: str, op: str, x: str, dims: tuple[int, ...], stride: int, *, bias: bool) -> str:
        """Convolution with a weight of ``dims``; ``op`` is what the exporter's names tell apart."""
        roles = ("weight", "bias") if bias else ("weight",)
        parameters = [self.exporter.parameter(module, op, role) for role in roles]
        for name, shape in zip(parameters, (dims, dims[:1]), strict=False):
            self.graph.placeholder(name, shape)
        sizes, window = self._window(x, dims[2:], stride)
        group = self.shapes[x][1] // dims[1]
        name = self.exporter.node(module, op)
        return self._named("Conv", name, [x, *parameters], (1, dims[0], *sizes), group=group, **window)

    def _window(self, x: str, kernel: tuple[int, ...], stride: int) -> tuple[list[int], dict[str, list[int]]]:
        """The height and width that a window sliding over ``x`` leaves, and its attributes."""
        axes = list(zip(self.shapes[x][2:], kernel, strict=True))
        pads = [self.exporter.pads(size, edge, stride) for size, edge in axes]
        sizes = [(size + sum(pad) - edge) // stride + 1 for (size, edge), pad in zip(axes, pads, strict=True)]
        before, after = zip(*pads, strict=True)
        return sizes, {"kernel_shape": list(kernel), "strides": [stride] * 2, "pads": [*before, *after]}

    def _node(self, op: str, module: str, inputs: list[str], shape: tuple[int, ...], **attributes: object) -> str:
        return self._named(op, self.exporter.node(module, op), inputs, shape, **attributes)

    def _named(self, op: str, name: str, inputs: list[str], shape: tuple[int, ...], **attributes: object) -> str:
        result = self.graph.node(op, name, inputs, self.exporter.output(name), **attributes)
        self.shapes[result] = shape
        return result


def _pair(kernel: Kernel) -> tuple[int, int]:
    return (kernel, kernel) if isinstance(kernel, int) else kernel
