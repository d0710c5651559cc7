"""Mode "scale" on a whole network, layer by layer."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.quantize.quantize_model import quantize_model
from accel.frontend.quantize.scale_grid import GRIDS, Grid, Scheme
from examples.resnet8 import resnet8
from tests.helpers.models.scaled_layers import composites, scaled
from tests.reference import dyadic
from tests.reference.host import Array, draw_inputs, run_layers, run_onnx

Arguments, Attributes = list[Any], dict[str, Any]
Operator = Callable[[Arguments, Attributes], Any]


@dataclass(frozen=True)
class Scaled:
    """``numbers * scale``; ``fused`` if an accelerated operator made it."""

    numbers: Array
    scale: float
    fused: bool = False

    def real(self) -> Array:
        return self.numbers.astype(np.float32) * np.float32(self.scale)


def run_scaled(model: onnx.ModelProto, inputs: dict[str, Array]) -> dict[str, Any]:
    """Every tensor of the graph, by name; all that is quantised as integers."""
    values: dict[str, Any] = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer} | inputs
    for node in model.graph.node:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        arguments = [values[name] for name in node.input]
        values[node.output[0]] = OPERATORS[node.op_type](arguments, attributes)
    return values


def quantize(arguments: Arguments, attributes: Attributes) -> Array:
    value, scale, _zero_point = arguments
    if isinstance(value, Scaled) and value.fused:
        return scaled(value.numbers, value.scale / float(scale))
    return np.asarray(host("QuantizeLinear")(arguments, attributes))


def contraction(operator: Callable[[Arguments, Attributes], dyadic.Dyadic]) -> Operator:
    def apply(arguments: Arguments, attributes: Attributes) -> Scaled:
        acc = operator([dyadic.Dyadic(argument.numbers, 0) for argument in arguments], attributes)
        return Scaled(acc.numbers, arguments[0].scale * arguments[1].scale, fused=True)

    return apply


def add(arguments: Arguments, _attributes: Attributes) -> Scaled:
    finer = min(operand.scale for operand in arguments)
    a, b = (operand.numbers * int(operand.scale / finer) for operand in arguments)
    return Scaled(a + b, finer, fused=True)


def average(arguments: Arguments, _attributes: Attributes) -> Scaled:
    (value,) = arguments
    elements = int(np.prod(value.numbers.shape[2:]))
    return Scaled(value.numbers.sum((2, 3), keepdims=True), value.scale / elements, fused=True)


def host(op: str) -> Operator:
    """The operator in float32."""

    def apply(arguments: Arguments, attributes: Attributes) -> Any:
        plain = [value.real() if isinstance(value, Scaled) else value for value in arguments]
        return dyadic.OPERATORS[op](plain, attributes)

    return apply


OPERATORS: dict[str, Operator] = {
    "Add": add,
    "Conv": contraction(dyadic.conv),
    "DequantizeLinear": lambda arguments, _attributes: Scaled(arguments[0].astype(np.int64), float(arguments[1])),
    "Flatten": lambda arguments, _attributes: replace(
        arguments[0], numbers=arguments[0].numbers.reshape(len(arguments[0].numbers), -1)
    ),
    "Gemm": contraction(dyadic.gemm),
    "GlobalAveragePool": average,
    "QuantizeLinear": quantize,
    "Relu": lambda arguments, _attributes: replace(arguments[0], numbers=np.maximum(arguments[0].numbers, 0)),
    "Softmax": lambda _arguments, _attributes: None,  # behind the last integers
}


def with_integers(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """The model with its int8 activations as outputs too, and the names of all its outputs."""
    observed = onnx.ModelProto()
    observed.CopyFrom(model)
    names = [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    observed.graph.output.extend(onnx.helper.make_tensor_value_info(name, TensorProto.INT8, None) for name in names)
    return observed, [*(output.name for output in model.graph.output), *names]


@pytest.mark.slow
def test_resnet8_of_powers_of_two_equals_onnxruntime_layer_by_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GRIDS, "power of two", Grid(1))  # float32 holds each sum, so a half is a half in both
    model = quantize_model(resnet8())
    observed, names = with_integers(model)
    inputs = draw_inputs(model, seed=5)
    expected = dict(zip(names, run_onnx(observed, inputs), strict=True))
    results = run_layers(import_integer_model(model, "scale"), *inputs.values())
    assert len(results) == 9 + 3 + 1 + 1
    for name, result in results.items():
        np.testing.assert_array_equal(result, expected[name], err_msg=name)


@pytest.mark.slow
def test_resnet8_of_free_scales_is_exact_layer_by_layer_and_all_integer() -> None:
    model = quantize_model(resnet8(), scheme=Scheme("free", zero_points="none"))
    imported = import_integer_model(model, "scale")
    assert {f.attrs["op"] for f in composites(imported).values()} == {"conv2d", "add", "dense"}
    inputs = draw_inputs(model, seed=5)
    results = run_layers(imported, *inputs.values())
    reference = run_scaled(model, inputs)
    assert len(results) == 9 + 3 + 1 + 1
    for name, result in results.items():
        np.testing.assert_array_equal(result, reference[name], err_msg=name)
        assert len(np.unique(result)) >= min(32, result.size // 2), name
