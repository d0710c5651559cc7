"""Activations as exporters write them, between two convolutions."""

import numpy as np

from tests.helpers.exported.case import Catalogue
from tests.helpers.exported.graph import Exported

ACTIVATIONS = Catalogue()
C = 16


def _between(g: Exported, activation: str) -> str:
    return g.conv(activation, C, C)


def _before(g: Exported) -> str:
    return g.conv(g.x, C, C)


@ACTIVATIONS.add(opsets=(9, 11, 13, 18, 21))
def relu6(g: Exported) -> str:
    return _between(g, g.clip(_before(g), 0, 6))


@ACTIVATIONS.add(opsets=(9, 11, 13))
def clip_above(g: Exported) -> str:
    return _between(g, g.clip(_before(g), None, 1))


@ACTIVATIONS.add(opsets=(9, 11, 13))
def clip_below(g: Exported) -> str:
    return _between(g, g.clip(_before(g), 0, None))


@ACTIVATIONS.add(opsets=(11, 13))
def clip_without_bounds(g: Exported) -> str:
    return _between(g, g.op("Clip", _before(g)))


@ACTIVATIONS.add(opsets=(11, 17))
def clip_by_constant_nodes(g: Exported) -> str:
    low, high = g.constant(np.float32(0)), g.constant(np.float32(6))
    return _between(g, g.op("Clip", _before(g), low, high))


@ACTIVATIONS.add(opsets=(14, 17, 21))
def hard_swish(g: Exported) -> str:
    return _between(g, g.op("HardSwish", _before(g)))


@ACTIVATIONS.add(opsets=(9, 11, 13))
def hard_swish_in_parts(g: Exported) -> str:
    c = _before(g)
    six = g.clip(g.op("Add", c, np.float32(3)), 0, 6)
    return _between(g, g.op("Div", g.op("Mul", c, six), np.float32(6)))


@ACTIVATIONS.add(opsets=(9, 13))
def hard_swish_by_a_sixth(g: Exported) -> str:
    """As paddle2onnx and Keras: x * (relu6(x + 3) * (1 / 6))."""
    c = _before(g)
    six = g.clip(g.op("Add", c, np.array([3], np.float32)), 0, 6)
    return _between(g, g.op("Mul", g.op("Mul", six, np.array([1 / 6], np.float32)), c))


@ACTIVATIONS.add(opsets=(9, 13, 21))
def hard_swish_of_hard_sigmoid(g: Exported) -> str:
    c = _before(g)
    return _between(g, g.op("Mul", c, g.op("HardSigmoid", c, alpha=1 / 6, beta=0.5)))


@ACTIVATIONS.add(opsets=(9, 13))
def hard_sigmoid(g: Exported) -> str:
    return _between(g, g.op("HardSigmoid", _before(g), alpha=0.2, beta=0.5))


@ACTIVATIONS.add(opsets=(9, 13, 21))
def silu(g: Exported) -> str:
    c = _before(g)
    return _between(g, g.op("Mul", c, g.op("Sigmoid", c)))


@ACTIVATIONS.add(opsets=(13,))
def mish(g: Exported) -> str:
    c = _before(g)
    return _between(g, g.op("Mul", c, g.op("Tanh", g.op("Softplus", c))))


@ACTIVATIONS.add(opsets=(9, 13))
def gelu_by_erf(g: Exported) -> str:
    c = _before(g)
    erf = g.op("Erf", g.op("Div", c, np.float32(np.sqrt(2))))
    return _between(g, g.op("Mul", g.op("Mul", c, g.op("Add", erf, np.float32(1))), np.float32(0.5)))


@ACTIVATIONS.add(opsets=(13,))
def gelu_by_tanh(g: Exported) -> str:
    c = _before(g)
    cubic = g.op("Mul", g.op("Pow", c, np.float32(3)), np.float32(0.044715))
    inner = g.op("Mul", g.op("Add", c, cubic), np.float32(np.sqrt(2 / np.pi)))
    return _between(g, g.op("Mul", g.op("Mul", c, np.float32(0.5)), g.op("Add", g.op("Tanh", inner), np.float32(1))))


@ACTIVATIONS.add(opsets=(20, 21))
def gelu(g: Exported) -> str:
    return _between(g, g.op("Gelu", _before(g)))


@ACTIVATIONS.add(opsets=(20,))
def gelu_approximate(g: Exported) -> str:
    return _between(g, g.op("Gelu", _before(g), approximate="tanh"))


@ACTIVATIONS.add(opsets=(9, 16))
def leaky(g: Exported) -> str:
    return _between(g, g.op("LeakyRelu", _before(g), alpha=0.1))


@ACTIVATIONS.add(opsets=(9, 16))
def leaky_as_maximum(g: Exported) -> str:
    c = _before(g)
    return _between(g, g.op("Max", c, g.op("Mul", c, np.float32(0.1))))


@ACTIVATIONS.add(opsets=(9, 16))
def prelu(g: Exported) -> str:
    return _between(g, g.op("PRelu", _before(g), g.vector(C, 1, 1)))


@ACTIVATIONS.add(opsets=(9, 13))
def prelu_of_one_slope(g: Exported) -> str:
    return _between(g, g.op("PRelu", _before(g), g.vector(1)))


@ACTIVATIONS.add(opsets=(9, 13))
def prelu_in_parts(g: Exported) -> str:
    """As PaddlePaddle and insightface: relu(x) - a * relu(-x)."""
    c = _before(g)
    negative = g.op("Mul", g.op("Relu", g.op("Neg", c)), g.vector(C, 1, 1))
    return _between(g, g.op("Sub", g.op("Relu", c), negative))


@ACTIVATIONS.add(opsets=(9, 13))
def elu(g: Exported) -> str:
    return _between(g, g.op("Elu", _before(g), alpha=1.0))


@ACTIVATIONS.add(opsets=(9,))
def selu(g: Exported) -> str:
    return _between(g, g.op("Selu", _before(g)))


@ACTIVATIONS.add(opsets=(9, 13))
def several_simple(g: Exported) -> str:
    c = _before(g)
    for kind in ("Tanh", "Softplus", "Softsign", "Abs", "Sqrt", "Neg", "Exp", "Ceil", "Floor", "Round"):
        if kind != "Round" or g.opset >= 11:
            c = g.op(kind, c)
    return _between(g, c)


@ACTIVATIONS.add(opsets=(12, 14))
def celu_and_thresholded(g: Exported) -> str:
    return _between(g, g.op("ThresholdedRelu", g.op("Celu", _before(g), alpha=1.0), alpha=0.1))


@ACTIVATIONS.add(opsets=(18, 21))
def mish_native(g: Exported) -> str:
    return _between(g, g.op("Mish", _before(g)))


@ACTIVATIONS.add(opsets=(9, 11, 12, 13))
def softmax_of_a_plane(g: Exported) -> str:
    return g.op("Softmax", _before(g), axis=1)


@ACTIVATIONS.add((4, 24), opsets=(9, 11, 13, 21))
def log_softmax(g: Exported) -> str:
    return g.op("LogSoftmax", g.op("Gemm", g.x, g.weight(10, 24), g.vector(10), transB=1), axis=-1)


@ACTIVATIONS.add((1, 16, 8, 8), opsets=(9, 13))
def softmax_in_parts(g: Exported) -> str:
    c = _before(g)
    if g.opset < 18:
        highest = g.op("ReduceMax", c, axes=[1], keepdims=1)
    e = g.op("Exp", g.op("Sub", c, highest))
    return g.op("Div", e, g.axes("ReduceSum", e, [1]))


@ACTIVATIONS.add(opsets=(9, 13, 21))
def relu_of_the_input(g: Exported) -> str:
    return _between(g, g.op("Relu", g.x))


@ACTIVATIONS.add(opsets=(13,))
def two_relus(g: Exported) -> str:
    return _between(g, g.clip(g.op("Relu", _before(g)), 0, 6))


@ACTIVATIONS.add(opsets=(13,))
def logistic_by_where(g: Exported) -> str:
    c = _before(g)
    return _between(g, g.op("Where", g.op("Greater", c, np.float32(0)), c, g.op("Mul", c, np.float32(0.25))))
