"""Models of quantised operators mean in QDQ form what they mean to onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from onnxruntime.quantization import QuantFormat, QuantType

from accel.errors import CyclopsError, InvalidModel, UnsupportedOperator
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.legalize.qdq_form import has_operator_form, in_qdq_form
from accel.frontend.quantize.quantize_model import ensure_quantised, is_quantised
from examples.resnet8 import resnet8
from tests.helpers.models.operator_models import (
    MICROSOFT,
    SIGNED,
    UNSIGNED,
    Network,
    every_layer,
    one_operator,
    quantised_statically,
)
from tests.reference.host import Array, draw_inputs, run_onnx, run_relax

BYTES = TensorProto.UINT8


def test_a_network_of_quantised_operators(tmp_path: Path) -> None:
    model = quantised_statically(every_layer().model(), tmp_path, (UNSIGNED, SIGNED), QuantFormat.QOperator)
    assert is_quantised(model)
    plain = ensure_quantised(model)
    inputs, imported = draw_inputs(model), import_integer_model(plain, "scale")
    (result,), (expected,) = run_relax(imported, *inputs.values()), run_onnx(model, inputs)
    assert np.abs(result - expected).max() <= 1.001 / 256  # the scale of any quantised softmax
    layers = {name for f in imported.module.functions.values() for name in f.attrs.get("nodes", [])}
    assert layers >= {f"{name}_quant" for name in ("first", "depthwise", "wide", "dense", "product")}
    assert imported.operators["first_quant"] == "QLinearConv"
    macs = 12 * 12 * 8 * 27 + 12 * 12 * 8 * 9 + 6 * 6 * 4 * 72 + 12 * 6 + 6 * 5
    assert sum(imported.macs.values()) == macs


@pytest.mark.parametrize(
    ("types", "options"),
    [
        ((UNSIGNED, UNSIGNED), {"reduce_range": True}),
        ((SIGNED, SIGNED), {"per_channel": True, "ActivationSymmetric": True}),
        ((SIGNED, SIGNED), {"WeightSymmetric": False}),
    ],
)
def test_types_and_scales_of_any_kind(
    types: tuple[QuantType, QuantType], options: dict[str, bool], tmp_path: Path
) -> None:
    model = quantised_statically(every_layer().model(), tmp_path, types, QuantFormat.QOperator, **options)
    before = model.SerializeToString()
    plain, inputs = in_qdq_form(model), draw_inputs(model)
    assert model.SerializeToString() == before
    assert not has_operator_form(plain)
    onnx.checker.check_model(plain, full_check=True)
    assert {node.name for node in plain.graph.node} >= {node.name for node in model.graph.node}
    (result,), (expected,) = run_onnx(plain, inputs), run_onnx(model, inputs)
    assert np.abs(result - expected).max() <= 1.001 / 256


def test_a_model_of_an_older_opset_keeps_it(tmp_path: Path) -> None:
    graph = Network()
    graph.output(graph.conv("conv", graph.input("x", (1, 3, 6, 6)), (4, 3)), (1, 4, 6, 6))
    model = quantised_statically(graph.model(11), tmp_path, (UNSIGNED, SIGNED), QuantFormat.QOperator)
    plain = in_qdq_form(model)
    onnx.checker.check_model(plain, full_check=True)
    inputs = draw_inputs(model)
    np.testing.assert_array_equal(run_onnx(plain, inputs), run_onnx(model, inputs))


def test_a_model_without_quantised_operators_stays_itself() -> None:
    model = resnet8()
    assert in_qdq_form(model) is model
    assert not has_operator_form(model)
    assert not is_quantised(model)


def quanta(*names: str) -> dict[str, Array]:
    """A scale and a zero point for each."""
    found: dict[str, Array] = {}
    for index, name in enumerate(names):
        found[f"{name}_scale"] = np.array(0.02 * (index + 1), np.float32)
        found[f"{name}_zero"] = np.array(120 + 3 * index, np.uint8)
    return found


def triple(name: str) -> list[str]:
    return [name, f"{name}_scale", f"{name}_zero"]


def two(op: str, **attributes: Any) -> onnx.ModelProto:
    data = {"a": ((2, 5), BYTES), "b": ((2, 5), BYTES)}
    return one_operator(
        op, [*triple("a"), *triple("b"), "y_scale", "y_zero"], quanta("a", "b", "y"), data, BYTES, **attributes
    )


def one(op: str, shape: tuple[int, ...] = (2, 6, 4, 4), **attributes: Any) -> onnx.ModelProto:
    inputs = [*triple("a"), "y_scale", "y_zero"]
    return one_operator(op, inputs, quanta("a", "y"), {"a": (shape, BYTES)}, BYTES, **attributes)


def where() -> onnx.ModelProto:
    chosen = {"c": np.arange(10).reshape(2, 5) % 3 == 0}
    data = {"a": ((2, 5), BYTES), "b": ((5,), BYTES)}
    inputs = ["c", *triple("a"), *triple("b"), "y_scale", "y_zero"]
    return one_operator("QLinearWhere", inputs, quanta("a", "b", "y") | chosen, data, BYTES)


def concat() -> onnx.ModelProto:
    inputs = ["y_scale", "y_zero", *triple("a"), *triple("b"), *triple("c")]
    data = {"a": ((2, 3), BYTES), "b": ((2, 1), BYTES), "c": ((2, 4), BYTES)}
    return one_operator("QLinearConcat", inputs, quanta("y", "a", "b", "c"), data, BYTES, axis=1)


def gemm(*, columns: bool = False, floats: bool = False, **attributes: Any) -> onnx.ModelProto:
    random = np.random.default_rng(2)
    values = quanta("a", "y") | {"c": random.integers(-900, 900, 5).astype(np.int32)}
    values["b"] = random.integers(-128, 128, (5, 7) if attributes.get("transB") else (7, 5)).astype(np.int8)
    values["b_scale"] = np.linspace(0.001, 0.01, 5, dtype=np.float32) if columns else np.array(0.004, np.float32)
    values["b_zero"] = np.zeros(5 if columns else (), np.int8)
    inputs = [*triple("a"), *triple("b"), "c", *([] if floats else ["y_scale", "y_zero"])]
    if floats:
        del values["y_scale"], values["y_zero"]
    result = TensorProto.FLOAT if floats else BYTES
    return one_operator("QGemm", inputs, values, {"a": ((3, 7), BYTES)}, result, **attributes)


@pytest.mark.parametrize(
    "model",
    [
        two("QLinearAdd"),
        two("QLinearMul"),
        where(),
        concat(),
        gemm(transB=1),
        gemm(columns=True),
        gemm(columns=True, transB=1, alpha=0.5),
        gemm(floats=True, alpha=2.0),
        one("QLinearSigmoid"),
        one("QLinearLeakyRelu", alpha=0.3),
        one("QLinearAveragePool", kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2], count_include_pad=1),
        one("QLinearGlobalAveragePool", channels_last=0),
        one("QLinearSoftmax", (3, 7), axis=-1, opset=17),
        one("QLinearSoftmax", (2, 3, 7), axis=1, opset=17),
    ],
    ids=lambda model: model.graph.node[0].op_type,
)
def test_single_operators(model: onnx.ModelProto) -> None:
    plain, inputs = in_qdq_form(model), draw_inputs(model)
    assert not any(node.domain for node in plain.graph.node)
    (result,), (expected,) = run_onnx(plain, inputs), run_onnx(model, inputs)
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    if result.dtype == np.float32:
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)
    else:
        assert np.abs(result.astype(int) - expected.astype(int)).max() <= 1
        assert len(np.unique(result)) > 2


@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 4), 1), ((2, 3, 4), 2), ((2, 3, 4), 0), ((2, 12), -1)])
def test_a_softmax_of_an_older_opset_is_along_all_axes_behind(shape: tuple[int, ...], axis: int) -> None:
    model = one("QLinearSoftmax", shape, axis=axis)
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("opset", 11))
    model.graph.initializer[2].CopyFrom(onnx.numpy_helper.from_array(np.array(0.002, np.float32), "y_scale"))
    (result,) = run_onnx(in_qdq_form(model), inputs := draw_inputs(model))
    steps = np.exp((inputs["a"].astype(np.float64) - 120) * np.float32(0.02))
    flat = steps.reshape(int(np.prod(shape[:axis])), -1) if axis >= 0 else steps
    expected = np.rint(flat / flat.sum(1, keepdims=True) / np.float32(0.002)).reshape(shape) + 123
    assert np.abs(result - np.clip(expected, 0, 255)).max() <= 1


def test_contributed_quantize_and_dequantize(tmp_path: Path) -> None:
    graph = Network()
    graph.output(graph.conv("conv", graph.input("x", (1, 3, 6, 6)), (4, 3)), (1, 4, 6, 6))
    model = quantised_statically(
        graph.model(), tmp_path, (UNSIGNED, SIGNED), QuantFormat.QDQ, per_channel=True, UseQDQContribOps=True
    )
    assert any(node.domain == MICROSOFT for node in model.graph.node)
    plain, inputs = in_qdq_form(model), draw_inputs(model)
    assert {node.domain for node in plain.graph.node} == {""}
    np.testing.assert_array_equal(run_onnx(plain, inputs), run_onnx(model, inputs))


def lacking_an_input() -> onnx.ModelProto:
    model = two("QLinearAdd")
    del model.graph.node[0].input[4:]
    return model


def without_output() -> onnx.ModelProto:
    model = two("QLinearAdd")
    del model.graph.node[0].output[:]
    return model


def with_scales(*scales: float) -> onnx.ModelProto:
    model = gemm(transB=1)
    (scale,) = (tensor for tensor in model.graph.initializer if tensor.name == "b_scale")
    scale.CopyFrom(onnx.numpy_helper.from_array(np.array(scales, np.float32), "b_scale"))
    return model


def without_zero_points() -> onnx.ModelProto:
    model = two("QLinearMul")
    for index in (2, 7):
        model.graph.node[0].input[index] = ""
    return model


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (lacking_an_input(), InvalidModel),
        (without_output(), InvalidModel),
        (
            one_operator("QLinearConcat", ["s"], {"s": np.array(1, np.float32)}, {"a": ((1,), BYTES)}, BYTES, axis=0),
            InvalidModel,
        ),
        (one("QLinearLeakyRelu", channels_last=1), UnsupportedOperator),
        (one("QLinearAveragePool", channels_last="yes"), InvalidModel),
        (one("QLinearSoftmax", axis=4), InvalidModel),
        (gemm(alpha=-1.0), UnsupportedOperator),
        (gemm(alpha=float("nan")), UnsupportedOperator),
        (gemm(alpha="1"), InvalidModel),
        (with_scales(), InvalidModel),
        (without_zero_points(), UnsupportedOperator),
    ],
)
def test_what_cannot_be_rewritten_names_the_node(model: onnx.ModelProto, error: type[CyclopsError]) -> None:
    with pytest.raises(error) as caught:
        in_qdq_form(model)
    assert caught.value.field == "node:node"


MODELS = [two("QLinearAdd"), one("QLinearSoftmax"), where(), concat(), gemm(columns=True), one("QLinearLeakyRelu")]


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(MODELS), st.data())
def test_hostile_operators_never_leave_a_bare_traceback(source: onnx.ModelProto, data: st.DataObject) -> None:
    model = onnx.ModelProto.FromString(source.SerializeToString())
    node = model.graph.node[0]
    names = ["", "nothing", *(value.name for value in (*model.graph.input, *model.graph.initializer))]
    node.input[:] = data.draw(st.lists(st.sampled_from(names), max_size=10))
    values = st.one_of(st.integers(-(2**40), 2**40), st.floats(width=32), st.lists(st.integers(-9, 9), min_size=1))
    for name in data.draw(st.sets(st.sampled_from(["axis", "alpha", "opset", "transB", "channels_last"]))):
        kept = [attribute for attribute in node.attribute if attribute.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, onnx.helper.make_attribute(name, data.draw(values))])
    try:
        in_qdq_form(model)
    except CyclopsError as error:
        field = error.field
    else:
        field = "node:node"
    assert field in ("node:node", "model")
