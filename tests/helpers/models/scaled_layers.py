"""Models of one layer with any scales, and the arithmetic of requantisation by a float32, in numpy."""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto
from tvm import relax

from accel.frontend.integer_recovery.recover_integers import ImportedModel, import_integer_model
from examples.graph import Graph
from examples.single import Conv, Dense
from tests.reference import dyadic
from tests.reference.host import Array, draw_inputs, run_onnx, run_relax

INT8, ZERO, INT32_ZERO = TensorProto.INT8, np.array(0, np.int8), np.array(0, np.int32)


def composites(imported: ImportedModel) -> dict[str, relax.Function]:
    return {v.name_hint: f for v, f in imported.module.functions.items() if f.attrs.get("op") is not None}


def operators(function: relax.Function) -> list[str]:
    (block,) = function.body.blocks
    return [binding.value.op.name.removeprefix("relax.") for binding in block.bindings]


def scaled(acc: Array, scale: float, low: int = -128) -> Array:
    """The arithmetic as it is defined: convert, multiply, round to even, saturate, each in float32."""
    product = acc.astype(np.float32) * np.float32(scale)
    return np.clip(np.rint(product), low, 127).astype(np.int8)


def check_against_onnxruntime(result: Array, model: onnx.ModelProto, real: Array, slack: Array) -> None:
    """Equal to onnxruntime's, but one off where ``real``, the exact quotient, is within ``slack`` of a tie."""
    (expected,) = run_onnx(model, draw_inputs(model))
    difference = np.abs(result.astype(int) - expected.astype(int))
    assert difference.max() <= 1
    from_tie = np.abs(real - np.floor(real) - 0.5)
    assert (from_tie[difference > 0] <= slack[difference > 0]).all()


@dataclass(frozen=True)
class Scales:
    """Of the input, the weight, and (in units that fill int8 about evenly) the output."""

    x: float
    w: float
    y: float

    def output(self, depth: int) -> float:
        return float(np.float32(self.x * self.w * self.y * depth**0.5 * 74 * 40 / 30))


@dataclass(frozen=True)
class Layer:
    """A model of one layer, and its accumulators on ``draw_inputs``, by numpy."""

    model: onnx.ModelProto
    acc: Array
    mass: Array
    factor: float
    depth: int

    def check(self, low: int) -> None:
        imported = import_integer_model(self.model, "scale")
        assert imported.host_nodes == {}
        (result,) = run_relax(imported, *draw_inputs(self.model).values())
        np.testing.assert_array_equal(result, scaled(self.acc, self.factor, low))
        # each product, each sum of theirs, and the last quotient may lose half a unit in the last place
        slack = self.mass * self.factor * 2.0**-24 * (self.depth + 8)
        check_against_onnxruntime(result, self.model, self.acc * self.factor, slack)


def quantised_model(graph: Graph, y: str, shape: tuple[int, ...], output: float, *, relu: bool) -> onnx.ModelProto:
    if relu:
        y = graph.node("Relu", "relu", [y])
    graph.output(graph.quantize(y, output, ZERO, "y"), shape, INT8)
    return graph.model()


def conv_layer(layer: Conv, scales: Scales, seed: int) -> Layer:
    """The layer of ``conv_model`` with other scales."""
    random, graph = np.random.default_rng(seed), Graph("conv")
    weight = random.integers(-128, 128, (layer.filters, layer.channels // layer.groups, *layer.kernel)).astype(np.int8)
    bias = random.integers(-9999, 9999, layer.filters).astype(np.int32)
    depth = weight.size // layer.filters
    operands = [
        graph.dequantize(graph.input("x", (1, layer.channels, layer.height, layer.width), INT8), scales.x, ZERO),
        graph.dequantize(graph.constant("w", weight), scales.w, ZERO),
    ]
    if layer.bias:
        operands.append(graph.dequantize(graph.constant("b", bias), scales.x * scales.w, INT32_ZERO))
    attributes = {"strides": list(layer.strides), "pads": list(layer.pads), "group": layer.groups}
    y = graph.node("Conv", "conv", operands, **attributes)
    output = scales.output(depth)
    shape = tuple(
        (size + layer.pads[axis] + layer.pads[axis + 2] - layer.kernel[axis]) // layer.strides[axis] + 1
        for axis, size in enumerate((layer.height, layer.width))
    )
    model = quantised_model(graph, y, (1, layer.filters, *shape), output, relu=layer.relu)
    x = draw_inputs(model)["x"].astype(np.int64)
    constants = [weight.astype(np.int64), bias.astype(np.int64) * layer.bias]
    acc, mass = (
        dyadic.conv([dyadic.Dyadic(value, 0) for value in values], attributes).numbers
        for values in ([x, *constants], map(np.abs, [x, *constants]))
    )
    return Layer(model, acc, mass, np.float64(np.float32(scales.x)) * np.float32(scales.w) / output, depth)


def dense_layer(layer: Dense, scales: Scales, seed: int) -> Layer:
    random, graph = np.random.default_rng(seed), Graph("dense")
    weight = random.integers(-128, 128, (layer.depth, layer.columns)).astype(np.int8)
    x = graph.dequantize(graph.input("x", (layer.rows, layer.depth), INT8), scales.x, ZERO)
    y = graph.node("MatMul", "dense", [x, graph.dequantize(graph.constant("w", weight), scales.w, ZERO)])
    output = scales.output(layer.depth)
    model = quantised_model(graph, y, (layer.rows, layer.columns), output, relu=layer.relu)
    data, wide = draw_inputs(model)["x"].astype(np.int64), weight.astype(np.int64)
    factor = np.float64(np.float32(scales.x)) * np.float32(scales.w) / output
    return Layer(model, data @ wide, np.abs(data) @ np.abs(wide), factor, layer.depth)
