"""Recurrent layers unrolled: the same numbers as onnxruntime's own kernels, and true refusals of what is not known."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.dry_run import plan_model
from accel.errors import CyclopsError, InvalidModel, UnsupportedOperator, UnsupportedShape
from accel.frontend.legalize.recurrent_layers import with_layers_unrolled
from accel.frontend.onnx_model.model_limits import ModelLimits
from accel.frontend.onnx_model.node_origins import origins_of
from accel.frontend.quantize.quantize_model import ensure_quantised, is_quantised
from accel.frontend.read.load_model import load_model
from accel.frontend.read.model_inspection import inspect_model
from accel.util.arrays import Array
from tests.helpers.models.recurrent import recurrent_model

DIRECTIONS = ("forward", "reverse", "bidirectional")
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    f"{op} {direction}": (op, {"direction": direction, "states": direction != "reverse"})
    for op in ("LSTM", "GRU", "RNN")
    for direction in DIRECTIONS
}
CASES |= {
    f"{op} lengths": (op, {"direction": "bidirectional", "lengths": [3, 5], "states": True})
    for op in ("LSTM", "GRU", "RNN")
}
CASES |= {f"{op} clip": (op, {"clip": 0.3, "states": True, "spread": 2.0}) for op in ("LSTM", "GRU", "RNN")}
CASES |= {
    "no bias": ("LSTM", {"bias": False, "lengths": [2, 2]}),
    "peepholes": ("LSTM", {"peepholes": True, "states": True, "direction": "bidirectional"}),
    "peepholes clip": ("LSTM", {"peepholes": True, "clip": 0.4, "spread": 2.0}),
    "coupled": ("LSTM", {"input_forget": 1, "states": True, "peepholes": True}),
    "late reset": ("GRU", {"linear_before_reset": 1, "states": True, "direction": "bidirectional"}),
    "late reset lengths": ("GRU", {"linear_before_reset": 1, "lengths": [1, 4], "clip": 0.5}),
    "mixed": (
        "GRU",
        {"activations": ["HardSigmoid", "LeakyRelu"], "activation_alpha": [0.3, 0.05], "activation_beta": [0.4]},
    ),
    "lower case": ("LSTM", {"activations": ["sigmoid", "relu", "softsign"]}),
    "opset 9": ("GRU", {"opset": 9}),
    "opset 22": ("LSTM", {"opset": 22}),
    "one step": ("LSTM", {"steps": 1}),
}
for _name in ("Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "Elu", "Softsign", "Softplus"):
    CASES[_name] = ("RNN", {"activations": [_name]})
for _name in ("Affine", "ScaledTanh", "ThresholdedRelu", "LeakyRelu", "Elu"):
    CASES[f"{_name} stated"] = (
        "RNN", {"activations": [_name], "activation_alpha": [0.7], "activation_beta": [0.3]}
    )  # fmt: skip


def run(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)


def drawn(model: onnx.ModelProto) -> dict[str, Array]:
    generator = np.random.default_rng(1)
    return {
        info.name: generator.normal(size=[d.dim_value for d in info.type.tensor_type.shape.dim]).astype(np.float32)
        for info in model.graph.input
    }


@pytest.mark.parametrize("case", CASES)
def test_unrolled_it_computes_what_onnxruntime_does(case: str) -> None:
    op, options = CASES[case]
    model = recurrent_model(op, **options)
    unrolled = with_layers_unrolled(load_model(model.SerializeToString()).model)
    assert op not in {node.op_type for node in unrolled.graph.node}
    assert all(origins_of(node) == {"cell": op} for node in unrolled.graph.node)
    feeds = drawn(model)
    for found, expected in zip(run(unrolled, feeds), run(model, feeds), strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_batches_first_are_the_same_transposed(op: str) -> None:
    # onnxruntime has no kernel for layout 1
    options: dict[str, Any] = {"direction": "bidirectional", "states": True, "steps": 4}
    first, last = (recurrent_model(op, layout=layout, **options) for layout in (1, 0))
    feeds = drawn(last)
    turned = {name: np.ascontiguousarray(array.swapaxes(0, 1)) for name, array in feeds.items()}
    y, *states = run(last, feeds)
    found = run(with_layers_unrolled(load_model(first.SerializeToString()).model), turned)
    for array, expected in zip(found, (y.transpose(2, 0, 1, 3), *(s.swapaxes(0, 1) for s in states)), strict=True):
        np.testing.assert_allclose(array, expected, atol=2e-6)


def test_the_steps_share_one_product_with_the_input() -> None:
    unrolled = with_layers_unrolled(load_model(recurrent_model("LSTM", steps=7).SerializeToString()).model)
    assert sum(node.op_type == "MatMul" for node in unrolled.graph.node) == 1 + 7


def test_multiply_accumulates_are_those_of_all_steps() -> None:
    info = inspect_model(recurrent_model("GRU", direction="bidirectional").SerializeToString())
    assert info.macs == 5 * 2 * 2 * 3 * 4 * (3 + 4)


def quantised_weights(axis: int | None) -> onnx.ModelProto:
    """A QDQ model: input, W and R quantised; ``axis`` of W and R that scales run along, one for all if None."""
    model = recurrent_model("GRU", direction="bidirectional", bias=False)
    graph, nodes = model.graph, []
    for name in ("W", "R"):
        tensor = next(each for each in graph.initializer if each.name == name)
        value = numpy_helper.to_array(tensor)
        size = () if axis is None else (value.shape[axis],)
        scale = np.random.default_rng(2).uniform(0.01, 0.02, size).astype(np.float32)
        spread = scale if axis is None else scale.reshape([-1 if at == axis else 1 for at in range(3)])
        tensor.CopyFrom(numpy_helper.from_array(np.clip(np.rint(value / spread), -127, 127).astype(np.int8), name))
        graph.initializer.append(numpy_helper.from_array(scale, f"{name}_scale"))
        graph.initializer.append(numpy_helper.from_array(np.zeros(size, np.int8), f"{name}_zero"))
        attributes = {} if axis is None else {"axis": axis}
        nodes.append(helper.make_node("DequantizeLinear", [name, f"{name}_scale", f"{name}_zero"], [f"{name}_float"],
                                      name=f"{name}_dq", **attributes))  # fmt: skip
    graph.initializer.append(numpy_helper.from_array(np.float32(0.03), "scale"))
    graph.initializer.append(numpy_helper.from_array(np.int8(0), "zero"))
    nodes.append(helper.make_node("QuantizeLinear", ["X", "scale", "zero"], ["X_q"], name="q"))
    nodes.append(helper.make_node("DequantizeLinear", ["X_q", "scale", "zero"], ["X_dq"], name="dq"))
    cell = graph.node[0]
    cell.input[:] = ["X_dq", "W_float", "R_float"]
    for node in reversed(nodes):
        graph.node.insert(0, node)
    return model


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_quantised_weights_stay_quantised(axis: int | None) -> None:
    model = quantised_weights(axis)
    loaded = load_model(model.SerializeToString()).model
    assert is_quantised(loaded)
    unrolled = ensure_quantised(loaded)
    makers = {name: node.op_type for node in unrolled.graph.node for name in node.output}
    products = [node for node in unrolled.graph.node if node.op_type == "MatMul"]
    assert {makers[node.input[1]] for node in products} == {"DequantizeLinear"}
    feeds = drawn(model)
    for found, expected in zip(run(unrolled, feeds), run(model, feeds), strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-6)


def variable_weights(model: onnx.ModelProto) -> None:
    value = next(tensor for tensor in model.graph.initializer if tensor.name == "R")
    model.graph.input.append(helper.make_tensor_value_info("R", 1, value.dims))
    model.graph.initializer.remove(value)


def transposed_weights(model: onnx.ModelProto) -> None:
    value = next(tensor for tensor in model.graph.initializer if tensor.name == "R")
    value.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(value).swapaxes(1, 2).copy(), "R"))


REFUSED = {
    "activation": ({"activations": ["Sigmoid", "Tanh", "Swirl"]}, None, UnsupportedOperator, "'Swirl'.*HardSigmoid"),
    "too few activations": ({"activations": ["Tanh"]}, None, InvalidModel, "3 for each direction"),
    "no default": ({"activations": ["Affine", "Tanh", "Tanh"]}, None, InvalidModel, "activation_alpha.*state it"),
    "lengths": ({"lengths": [0, 9]}, None, InvalidModel, "1 to 5 were expected"),
    "weights": ({}, variable_weights, UnsupportedOperator, "its R is computed.*constant was expected"),
    "weights' shape": ({}, transposed_weights, InvalidModel, r"R has the shape|hidden_size"),
    "steps": ({"steps": 513}, None, UnsupportedShape, "513 steps.*limit is 512"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_says_what_was_expected(case: str) -> None:
    options, edit, error, told = REFUSED[case]
    model = recurrent_model("LSTM", **options)
    if edit is not None:
        edit(model)
    with pytest.raises(CyclopsError, match=told) as caught:
        plan_model(model.SerializeToString(), load_accelerator("vta"))
    assert isinstance(caught.value, error)
    assert caught.value.field == "node:cell"


def test_the_nodes_made_are_limited() -> None:
    model = load_model(recurrent_model("LSTM", steps=60).SerializeToString()).model
    with pytest.raises(UnsupportedShape, match="nodes; the limit is 500"):
        with_layers_unrolled(model, ModelLimits(nodes=500))
