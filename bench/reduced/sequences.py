"""A temporal network, and transformers of two blocks, in the structure of the large ones."""

import math

import numpy as np
import onnx
from onnx import TensorProto
from reduced.sketch import Sketch

LENGTH, WORDS = 24, 200
_HEADS, _DEPTH = 4, 24
_WIDTH = _HEADS * _DEPTH
_SIZES = (_HEADS, LENGTH, _DEPTH)
_BLOCKS = 2


def tcn(seed: int = 0) -> onnx.ModelProto:
    """Bai et al. 2018: causal dilated convolutions of lines, cut at the end, with residuals; the last step counts."""
    net = Sketch("tcn", seed)
    x, width = net.input("x", (1, 6, 128)), 6
    for level, filters in enumerate((24, 24, 32, 32)):
        y = _causal(net, _causal(net, x, (width, filters), 2**level), (filters, filters), 2**level)
        if width != filters:
            x = net.node("Conv", x, net.normal(filters, width, 1, deviation=width**-0.5), net.normal(filters))
        x, width = net.relu(net.node("Add", y, x)), filters
    last = net.node("Gather", x, net.constant(-1, np.int64), axis=2)
    weight = net.normal(10, width, deviation=width**-0.5)
    return net.finish(net.node("Gemm", last, weight, net.normal(10, deviation=0.1), transB=1), (1, 10))


def _causal(net: Sketch, x: str, channels: tuple[int, int], dilation: int) -> str:
    inputs, filters = channels
    pad = 2 * dilation
    weight = net.normal(filters, inputs, 3, deviation=math.sqrt(2 / 3 / inputs))
    y = net.node("Conv", x, weight, net.normal(filters, deviation=0.1), dilations=[dilation], pads=[pad, pad])
    return net.relu(net.slice(y, 0, -pad, 2))


def bert(seed: int = 0) -> onnx.ModelProto:
    """Devlin et al. 2019: norms behind the residuals, a mask of what is padded, GELU by Erf; the hidden states."""
    net = Sketch("bert", seed)
    ids = net.input("input_ids", (1, LENGTH), TensorProto.INT64)
    kept = net.input("attention_mask", (1, LENGTH), TensorProto.INT64)
    mask = net.node("Cast", net.reshape(kept, 1, 1, 1, LENGTH), to=TensorProto.FLOAT)
    lowest = net.constant(float(np.finfo(np.float32).min))
    mask = net.node("Mul", net.node("Sub", net.constant(1), mask), lowest)
    x = net.node("Add", _embedded(net, ids), net.normal(1, LENGTH, _WIDTH, deviation=0.5))
    x = net.layer_norm(x, _WIDTH)
    for _ in range(_BLOCKS):
        q, k, v = (net.heads(net.linear(x, (_WIDTH, _WIDTH)), _SIZES) for _ in range(3))
        y = net.linear(net.attention(q, k, v, _SIZES, mask), (_WIDTH, _WIDTH))
        x = net.layer_norm(net.node("Add", y, x), _WIDTH)
        y = net.linear(net.gelu(net.linear(x, (_WIDTH, 4 * _WIDTH))), (4 * _WIDTH, _WIDTH), gain=2)
        x = net.layer_norm(net.node("Add", y, x), _WIDTH)
    return net.finish(x, (1, LENGTH, _WIDTH))


def vit(seed: int = 0) -> onnx.ModelProto:
    """Dosovitskiy et al. 2021: patches of 8 x 8 and a token of the class, norms ahead of what they feed."""
    net = Sketch("vit", seed)
    patches = 25
    x = net.conv(net.input("x", (1, 3, 40, 40)), (3, _WIDTH), 8, 8, gain=1)
    x = net.transpose(net.reshape(x, 1, _WIDTH, patches), 0, 2, 1)
    x = net.node("Concat", net.normal(1, 1, _WIDTH), x, axis=1)
    x = net.node("Add", x, net.normal(1, patches + 1, _WIDTH, deviation=0.5))
    sizes = (_HEADS, patches + 1, _DEPTH)
    for _ in range(_BLOCKS):
        y = net.layer_norm(x, _WIDTH)
        q, k, v = (net.heads(net.linear(y, (_WIDTH, _WIDTH)), sizes) for _ in range(3))
        x = net.node("Add", x, net.linear(net.attention(q, k, v, sizes), (_WIDTH, _WIDTH)))
        y = net.gelu(net.linear(net.layer_norm(x, _WIDTH), (_WIDTH, 4 * _WIDTH)))
        x = net.node("Add", x, net.linear(y, (4 * _WIDTH, _WIDTH), gain=2))
    x = net.node("Gather", net.layer_norm(x, _WIDTH), net.constant(0, np.int64), axis=1)
    weight = net.normal(10, _WIDTH, deviation=_WIDTH**-0.5)
    return net.finish(net.node("Gemm", x, weight, net.normal(10, deviation=0.1), transB=1), (1, 10))


def gpt2(seed: int = 0) -> onnx.ModelProto:
    """Radford et al. 2019: one product makes queries, keys and values, a causal mask by Where, GELU by tanh."""
    net = Sketch("gpt2", seed)
    ids = net.input("input_ids", (1, LENGTH), TensorProto.INT64)
    x = net.node("Add", _embedded(net, ids), net.normal(1, LENGTH, _WIDTH, deviation=0.3))
    causal = net.constant(np.tril(np.ones((1, 1, LENGTH, LENGTH))), bool)
    lowest = net.constant(float(np.finfo(np.float32).min))
    for _ in range(_BLOCKS):
        y = net.layer_norm(x, _WIDTH)
        first = net.node("Split", net.linear(y, (_WIDTH, 3 * _WIDTH)), axis=2, outputs=3)
        q, k, v = (net.heads(name, _SIZES) for name in (first, f"{first}.1", f"{first}.2"))
        scores = net.node("MatMul", q, net.transpose(k, 0, 1, 3, 2))
        scores = net.node("Div", scores, net.constant(math.sqrt(_DEPTH)))
        weights = net.node("Softmax", net.node("Where", causal, scores, lowest), axis=-1)
        y = net.reshape(net.transpose(net.node("MatMul", weights, v), 0, 2, 1, 3), 1, LENGTH, _WIDTH)
        x = net.node("Add", net.linear(y, (_WIDTH, _WIDTH)), x)
        y = net.gelu(net.linear(net.layer_norm(x, _WIDTH), (_WIDTH, 4 * _WIDTH)), tanh=True)
        x = net.node("Add", x, net.linear(y, (4 * _WIDTH, _WIDTH), gain=2))
    x = net.linear(net.layer_norm(x, _WIDTH), (_WIDTH, WORDS), bias=False)
    return net.finish(x, (1, LENGTH, WORDS))


def llama(seed: int = 0) -> onnx.ModelProto:
    """Touvron et al. 2023: norms by the root of the mean square, rotary places, a gated product behind SiLU."""
    net = Sketch("llama", seed)
    ids = net.input("input_ids", (1, LENGTH), TensorProto.INT64)
    x = _embedded(net, ids)
    angles = np.outer(np.arange(LENGTH), 100.0 ** -(np.arange(_DEPTH // 2) / (_DEPTH // 2)))
    angles = np.concatenate([angles, angles], 1)[None, None]
    cosines, sines = net.constant(np.cos(angles)), net.constant(np.sin(angles))
    mask = net.constant(np.triu(np.full((1, 1, LENGTH, LENGTH), np.finfo(np.float32).min), 1))
    for _ in range(_BLOCKS):
        y = _root_norm(net, x)
        q, k, v = (net.heads(net.linear(y, (_WIDTH, _WIDTH), bias=False), _SIZES) for _ in range(3))
        q, k = _rotated(net, q, cosines, sines), _rotated(net, k, cosines, sines)
        y = net.attention(q, k, v, _SIZES, mask)
        x = net.node("Add", x, net.linear(y, (_WIDTH, _WIDTH), bias=False))
        y = _root_norm(net, x)
        gate = net.silu(net.linear(y, (_WIDTH, 3 * _WIDTH), bias=False))
        y = net.node("Mul", gate, net.linear(y, (_WIDTH, 3 * _WIDTH), bias=False))
        x = net.node("Add", x, net.linear(y, (3 * _WIDTH, _WIDTH), bias=False, gain=2))
    x = net.linear(_root_norm(net, x), (_WIDTH, WORDS), bias=False)
    return net.finish(x, (1, LENGTH, WORDS))


def _embedded(net: Sketch, ids: str) -> str:
    return net.node("Gather", net.normal(WORDS, _WIDTH), ids)


def _root_norm(net: Sketch, x: str) -> str:
    mean = net.node("ReduceMean", net.node("Pow", x, net.constant(2)), axes=[-1], keepdims=1)
    root = net.node("Sqrt", net.node("Add", mean, net.constant(1e-5)))
    y = net.node("Mul", x, net.node("Div", net.constant(1), root))
    return net.node("Mul", net.gains(_WIDTH), y)


def _rotated(net: Sketch, x: str, cosines: str, sines: str) -> str:
    low, high = net.slice(x, 0, _DEPTH // 2, 3), net.slice(x, _DEPTH // 2, 2**31 - 1, 3)
    turned = net.node("Concat", net.node("Neg", high), low, axis=-1)
    return net.node("Add", net.node("Mul", x, cosines), net.node("Mul", turned, sines))
