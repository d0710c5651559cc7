"""Models of one quantised layer, in QDQ form with int8 inputs and outputs and power-of-two scales.

The output scale is chosen such that the int8 results spread over the range without saturating.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from examples.graph import Graph

INPUT_EXPONENT = -5
WEIGHT_EXPONENT = -7
_WEIGHT_DEVIATION = 17.0
_INPUT_DEVIATION = 73.9
_OUTPUT_DEVIATION = 28.0
_ZERO = np.array(0, np.int8)


@dataclass(frozen=True)
class Conv:
    """A convolution layer: x int8 [batch, channels, height, width] -> int8 [batch, filters, ...].

    ``pads`` are top, left, bottom, right. ``limit`` clips the int8 result to [-limit, limit]. ``shift`` is the
    binary exponent of the requantisation; chosen from the layer's size if None.
    """

    channels: int
    filters: int
    height: int
    width: int
    kernel: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (1, 1, 1, 1)
    dilations: tuple[int, int] = (1, 1)
    groups: int = 1
    batch: int = 1
    bias: bool = True
    relu: bool = False
    limit: int | None = None
    shift: int | None = None


@dataclass(frozen=True)
class Dense:
    """A dense layer: x int8 [rows, depth] -> int8 [rows, columns]."""

    rows: int
    depth: int
    columns: int
    bias: bool = True
    relu: bool = False
    shift: int | None = None


def conv_model(layer: Conv, seed: int = 0) -> onnx.ModelProto:
    """The layer as a model: input ``x``, output ``y``, nodes ``conv``, ``relu``, ``clip``."""
    random = np.random.default_rng(seed)
    depth = layer.channels // layer.groups
    weight = _weights(random, (layer.filters, depth, *layer.kernel))
    scale, shift = _requantisation(weight.size // layer.filters, layer.shift)
    graph = Graph("conv")
    x = graph.dequantize(
        graph.input("x", (layer.batch, layer.channels, layer.height, layer.width), TensorProto.INT8),
        2.0**INPUT_EXPONENT,
        _ZERO,
    )
    y = graph.node(
        "Conv",
        "conv",
        _operands(graph, x, weight, _bias(random, layer.filters, shift) if layer.bias else None),
        kernel_shape=list(layer.kernel),
        strides=list(layer.strides),
        pads=list(layer.pads),
        dilations=list(layer.dilations),
        group=layer.groups,
    )
    if layer.relu:
        y = graph.node("Relu", "relu", [y])
    if layer.limit is not None:
        bounds = [
            graph.constant(f"clip_{sign:+d}", np.array(sign * layer.limit * scale, np.float32)) for sign in (-1, 1)
        ]
        y = graph.node("Clip", "clip", [y, *bounds])
    graph.output(graph.quantize(y, scale, _ZERO, "y"), _output_shape(layer), TensorProto.INT8)
    return graph.model()


def dense_model(layer: Dense, seed: int = 0) -> onnx.ModelProto:
    """The layer as a model: input ``x``, output ``y``, nodes ``dense``, ``relu``."""
    random = np.random.default_rng(seed)
    weight = _weights(random, (layer.columns, layer.depth))
    scale, shift = _requantisation(layer.depth, layer.shift)
    graph = Graph("dense")
    x = graph.dequantize(graph.input("x", (layer.rows, layer.depth), TensorProto.INT8), 2.0**INPUT_EXPONENT, _ZERO)
    bias = _bias(random, layer.columns, shift) if layer.bias else None
    y = graph.node("Gemm", "dense", _operands(graph, x, weight, bias), transB=1)
    if layer.relu:
        y = graph.node("Relu", "relu", [y])
    graph.output(graph.quantize(y, scale, _ZERO, "y"), (layer.rows, layer.columns), TensorProto.INT8)
    return graph.model()


def _weights(random: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.int8]:
    return np.clip(np.rint(random.standard_normal(shape) * _WEIGHT_DEVIATION), -127, 127).astype(np.int8)


def _bias(random: np.random.Generator, size: int, shift: int) -> npt.NDArray[np.int32]:
    """Biases of up to about ten units of the output."""
    return np.rint(random.uniform(-10, 10, size) * 2.0**shift).astype(np.int32)


def _requantisation(fan_in: int, shift: int | None) -> tuple[float, int]:
    """The output's scale, and the shift it amounts to."""
    if shift is None:
        deviation = _INPUT_DEVIATION * _WEIGHT_DEVIATION * fan_in**0.5
        shift = round(np.log2(deviation / _OUTPUT_DEVIATION))
    return 2.0 ** (INPUT_EXPONENT + WEIGHT_EXPONENT + shift), shift


def _operands(graph: Graph, x: str, weight: npt.NDArray[np.int8], bias: npt.NDArray[np.int32] | None) -> list[str]:
    operands = [x, graph.dequantize(graph.constant("weight", weight), 2.0**WEIGHT_EXPONENT, _ZERO)]
    if bias is not None:
        scale = 2.0 ** (INPUT_EXPONENT + WEIGHT_EXPONENT)
        operands.append(graph.dequantize(graph.constant("bias", bias), scale, np.array(0, np.int32)))
    return operands


def _output_shape(layer: Conv) -> tuple[int, int, int, int]:
    sizes = [
        (size + layer.pads[axis] + layer.pads[axis + 2] - layer.dilations[axis] * (layer.kernel[axis] - 1) - 1)
        // layer.strides[axis]
        + 1
        for axis, size in enumerate((layer.height, layer.width))
    ]
    return (layer.batch, layer.filters, sizes[0], sizes[1])
