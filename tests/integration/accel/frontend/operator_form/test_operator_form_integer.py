"""The operators with an int32 result, and dynamic quantisation, against onnxruntime and numpy."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from onnxruntime.quantization import QuantType

from accel.errors import CyclopsError, InvalidModel, UnsupportedOperator, UnsupportedShape
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.legalize.qdq_form import has_operator_form, in_qdq_form
from accel.frontend.quantize.quantize_model import ensure_quantised, is_quantised
from tests.helpers.marking import share
from tests.helpers.models.operator_models import SIGNED, UNSIGNED, Network, one_operator, quantised_dynamically
from tests.reference.host import Array, draw_inputs, run_onnx, run_relax

BYTES, WIDE = TensorProto.UINT8, TensorProto.INT32


def dynamic_network() -> Network:
    graph = Network()
    x = graph.node("Relu", "relu", [graph.conv("first", graph.input("x", (1, 3, 9, 9)), (6, 3), strides=[2, 2])])
    x = graph.node("Flatten", "flat", [graph.node("GlobalAveragePool", "mean", [x])])
    x = graph.node("Gemm", "dense", [x, graph.weights("dense_w", 5, 6), graph.weights("dense_b", 5)], transB=1)
    graph.output(graph.node("MatMul", "product", [x, graph.weights("product_w", 5, 4)]), (1, 4))
    return graph


@pytest.mark.slow
def test_a_dynamically_quantised_network(tmp_path: Path) -> None:
    model = quantised_dynamically(dynamic_network().model(), tmp_path, SIGNED)
    assert is_quantised(model)
    plain = ensure_quantised(model)
    assert not has_operator_form(plain)
    inputs, imported = draw_inputs(model), import_integer_model(plain)
    (result,), (expected,) = run_relax(imported, *inputs.values()), run_onnx(model, inputs)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    assert sum(imported.macs.values()) == 5 * 5 * 6 * 27 + 6 * 5 + 5 * 4
    assert imported.operators["first_quant"] == "ConvInteger"


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize(("weights", "options"), [(UNSIGNED, {}), (SIGNED, {"reduce_range": True})])
def test_dynamic_quantisation_of_any_kind(
    weights: QuantType, options: dict[str, bool], opset: int, tmp_path: Path
) -> None:
    model = quantised_dynamically(dynamic_network().model(opset), tmp_path, weights, **options)
    plain, inputs = in_qdq_form(model), draw_inputs(model)
    onnx.checker.check_model(plain, full_check=True)
    np.testing.assert_allclose(run_onnx(plain, inputs), run_onnx(model, inputs), rtol=1e-5, atol=1e-6)


WINDOWS: list[dict[str, Any]] = [
    {},
    {"pads": [1, 2, 0, 1], "strides": [2, 1]},
    {"pads": [2, 2, 2, 2], "dilations": [2, 2]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
    {"pads": [1] * 4, "group": 2},
]


def conv_integer(weight: Array, zeros: Mapping[str, Array | None], **attributes: Any) -> onnx.ModelProto:
    """``zeros`` are the zero points of data (``z``) and weights (``wz``); one that is None is an input."""
    groups = attributes.get("group", 1)
    data: dict[str, Any] = {"x": ((2, weight.shape[1] * groups, 7, 8), BYTES)}
    data |= {name: ((), BYTES) for name, value in zeros.items() if value is None}
    known = {name: value for name, value in zeros.items() if value is not None}
    inputs = ["x", "w", *(name if name in zeros else "" for name in ("z", "wz"))]
    return one_operator("ConvInteger", inputs, {"w": weight} | known, data, WIDE, **attributes)


@pytest.mark.parametrize("zero", [{}, {"z": np.array(7, np.uint8)}, {"z": None}], ids=["none", "constant", "input"])
@pytest.mark.parametrize("window", WINDOWS)
def test_convolutions_of_integers_are_exact(window: dict[str, Any], zero: dict[str, Array | None]) -> None:
    weight = np.random.default_rng(1).integers(0, 256, (4, 2, 3, 3), dtype=np.uint8)
    model = conv_integer(weight, zero | {"wz": np.array(131, np.uint8)}, **window)
    inputs = draw_inputs(model)
    (result,), (expected,) = run_onnx(in_qdq_form(model), inputs), run_onnx(model, inputs)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, expected)


def test_they_are_recovered_as_integers() -> None:
    weight = np.random.default_rng(1).integers(-128, 128, (4, 2, 3, 3), dtype=np.int8)
    model = conv_integer(weight, {"z": None}, **WINDOWS[1])
    imported, inputs = import_integer_model(in_qdq_form(model)), draw_inputs(model)
    (result,), (expected,) = run_relax(imported, *inputs.values()), run_onnx(model, inputs)
    np.testing.assert_array_equal(result, expected)
    assert len(imported.macs) == 1


@pytest.mark.slow
@settings(max_examples=share(30), deadline=None)
@given(st.data())
def test_zero_points_are_taken_off_wherever_the_window_is(data: st.DataObject) -> None:
    draw = data.draw
    taps = [draw(st.integers(1, 3)) for _ in range(2)]
    dilations = [draw(st.integers(1, 2)) for _ in range(2)]
    reach = [dilation * (count - 1) for dilation, count in zip(dilations, taps, strict=True)]
    pads = [draw(st.integers(0, most)) for most in (*reach, *reach)]
    attributes = {"pads": pads, "dilations": dilations, "strides": [draw(st.integers(1, 3)) for _ in range(2)]}
    weight = np.random.default_rng(draw(st.integers(0, 99))).integers(-128, 128, (3, 2, *taps), dtype=np.int8)
    model = conv_integer(weight, {"z": None}, **attributes)
    inputs = draw_inputs(model)
    np.testing.assert_array_equal(run_onnx(in_qdq_form(model), inputs), run_onnx(model, inputs))


def matmul_integer(weight: Array, data: dict[str, Any], values: dict[str, Array]) -> onnx.ModelProto:
    names = ["x", "w", *(name if name in {**data, **values} else "" for name in ("z", "wz"))]
    return one_operator("MatMulInteger", names, {"w": weight} | values, {"x": ((2, 3, 6), BYTES)} | data, WIDE)


@pytest.mark.parametrize(
    ("data", "values"),
    [
        ({}, {}),
        ({}, {"z": np.array(9, np.uint8)}),
        ({"z": ((), BYTES)}, {}),
        ({"z": ((1,), BYTES)}, {"wz": np.array([1, -2, 3, 0], np.int8)}),
    ],
)
def test_products_of_integers_are_exact(data: dict[str, Any], values: dict[str, Array]) -> None:
    weight = np.random.default_rng(1).integers(-128, 128, (6, 4), dtype=np.int8)
    model = matmul_integer(weight, data, values)
    plain = in_qdq_form(model)
    assert "MatMul" in {node.op_type for node in plain.graph.node}
    inputs = draw_inputs(model)
    zero = inputs.get("z", values.get("z", np.zeros(1, np.uint8))).astype(np.int64)
    expected = (inputs["x"] - zero) @ (weight - values.get("wz", np.zeros(1, np.int8)).astype(np.int64))
    (result,) = run_onnx(plain, inputs)
    np.testing.assert_array_equal(result, expected)


def test_a_product_of_two_activations_stays_one_of_integers() -> None:
    data = {"x": ((2, 6), BYTES), "w": ((6, 4), BYTES)}
    model = one_operator("MatMulInteger", ["x", "w"], {}, data, WIDE)
    plain = in_qdq_form(model)
    assert [node.op_type for node in plain.graph.node] == ["MatMulInteger"]
    inputs = draw_inputs(model)
    (result,) = run_relax(import_integer_model(ensure_quantised(model)), *inputs.values())
    np.testing.assert_array_equal(result, inputs["x"].astype(int) @ inputs["w"].astype(int))


@pytest.mark.parametrize(
    "values",
    [np.zeros(6), np.full(6, 3.5), np.full(6, -2), np.linspace(-1, 2.5, 6), np.array([0, 0, 1e-30, 0, 0, 0])],
    ids=["zeros", "positive", "negative", "mixed", "tiny"],
)
def test_dynamic_quantisation(values: Array) -> None:
    model = one_operator("DynamicQuantizeLinear", ["x"], {}, {"x": ((2, 3), TensorProto.FLOAT)}, BYTES)
    model.graph.node[0].output.extend(["scale", "zero"])
    for name, dtype in (("scale", TensorProto.FLOAT), ("zero", BYTES)):
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, dtype, []))
    inputs = {"x": values.astype(np.float32).reshape(2, 3)}
    for result, expected in zip(run_onnx(in_qdq_form(model), inputs), run_onnx(model, inputs), strict=True):
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("attributes", "error"),
    [
        ({"strides": [0, 1], "pads": [1] * 4}, InvalidModel),
        ({"strides": [0, 1], "auto_pad": "SAME_UPPER"}, InvalidModel),
        ({"pads": [1] * 3}, InvalidModel),
        ({"pads": [-1] * 4}, InvalidModel),
        ({"kernel_shape": [2, 3]}, InvalidModel),
        ({"pads": [2**40] * 4}, UnsupportedShape),
    ],
)
def test_windows_that_cannot_be_are_refused(attributes: dict[str, Any], error: type[CyclopsError]) -> None:
    model = conv_integer(np.ones((4, 2, 3, 3), np.int8), {"z": None}, **attributes)
    with pytest.raises(error) as caught:
        in_qdq_form(model)
    assert caught.value.field == "node:node"


def test_data_of_an_unknown_shape_are_refused() -> None:
    model = conv_integer(np.ones((4, 2, 3, 3), np.int8), {"z": None}, pads=[1] * 4)
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "rows"
    with pytest.raises(UnsupportedOperator, match="shape"):
        in_qdq_form(model)


def test_sums_beyond_what_float32_holds_are_exact() -> None:
    weight = np.random.default_rng(3).integers(64, 128, (6000, 3), dtype=np.int8)
    data = {"x": ((2, 6000), BYTES), "z": ((), BYTES)}
    model = one_operator("MatMulInteger", ["x", "w", "z"], {"w": weight}, data, WIDE)
    imported, inputs = import_integer_model(in_qdq_form(model)), draw_inputs(model)
    (result,) = run_relax(imported, *inputs.values())
    expected = (inputs["x"].astype(np.int64) - inputs["z"]) @ weight
    assert np.abs(expected).max() > 2**24
    np.testing.assert_array_equal(result, expected)
