"""Mode "scale": convolutions and dense layers that requantise by a float32, rounding half to even."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from accel.frontend.integer_recovery.recover_integers import import_integer_model
from examples.graph import Graph
from examples.single import Conv, Dense, conv_model, dense_model
from tests.helpers.models.scaled_layers import (
    INT8,
    ZERO,
    Scales,
    composites,
    conv_layer,
    dense_layer,
    operators,
    quantised_model,
    scaled,
)
from tests.reference.host import Array, draw_inputs, run_onnx, run_relax

scale = st.floats(2.0**-12, 2.0**3, width=32)
scales = st.builds(Scales, scale, scale, st.floats(0.5, 4))
conv_layers = st.builds(
    Conv,
    channels=st.integers(1, 4).map(lambda n: 2 * n),
    filters=st.integers(1, 6).map(lambda n: 2 * n),
    height=st.integers(5, 9),
    width=st.integers(5, 9),
    kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    pads=st.tuples(*[st.integers(0, 2)] * 4),
    groups=st.sampled_from([1, 2]),
    bias=st.booleans(),
    relu=st.booleans(),
)


@settings(max_examples=8, deadline=None)
@given(layer=conv_layers, scales=scales, seed=st.integers(0, 99))
def test_any_convolution_is_exact_and_off_from_onnxruntime_only_near_ties(
    layer: Conv, scales: Scales, seed: int
) -> None:
    conv_layer(layer, scales, seed).check(0 if layer.relu else -128)


@settings(max_examples=6, deadline=None)
@given(
    layer=st.builds(Dense, st.integers(1, 5), st.integers(1, 90), st.integers(1, 20), st.just(False), st.booleans()),
    scales=scales,
    seed=st.integers(0, 99),
)
def test_any_dense_layer_is_exact_and_off_from_onnxruntime_only_near_ties(
    layer: Dense, scales: Scales, seed: int
) -> None:
    dense_layer(layer, scales, seed).check(0 if layer.relu else -128)


def test_the_epilogue_has_its_normal_form_whatever_the_scale() -> None:
    model = conv_model(Conv(4, 4, 6, 6, relu=True, limit=90, shift=0))
    imported = import_integer_model(model, "scale")
    (function,) = composites(imported).values()
    assert operators(function) == ["nn.conv2d", "add", "astype", "multiply", "round", "clip", "astype"]
    assert list(function.attrs["nodes"]) == ["conv", "relu", "clip"]
    bindings = function.body.blocks[0].bindings
    factor = bindings[3].value.args[1].value.numpy()
    assert (factor.dtype, factor.shape, float(factor)) == (np.float32, (), 1.0)
    assert [float(bound.value) for bound in bindings[5].value.args[1:]] == [0, 90]
    assert imported.host_nodes == {}
    assert list(imported.macs) == ["conv2d_conv"]


@pytest.mark.parametrize(
    "model",
    [conv_model(Conv(8, 8, 9, 9, relu=True)), conv_model(Conv(4, 6, 7, 7, groups=2)), dense_model(Dense(3, 64, 9))],
)
def test_powers_of_two_equal_onnxruntime_exactly(model: onnx.ModelProto) -> None:
    inputs = draw_inputs(model)
    (result,) = run_relax(import_integer_model(model, "scale"), *inputs.values())
    np.testing.assert_array_equal(result, run_onnx(model, inputs)[0])


def test_the_composite_and_the_host_requantise_alike() -> None:
    """An accelerator that shifts leaves these scales to the host."""
    layer = conv_layer(Conv(6, 8, 9, 9, relu=True), Scales(0.03, 0.007, 1.3), 4)
    inputs = [*draw_inputs(layer.model).values()]
    shifting, scaling = (import_integer_model(layer.model, mode) for mode in ("shift", "scale"))
    assert [f.attrs["op"] for f in composites(shifting).values()] == ["conv2d", "requantize"]
    assert [f.attrs["op"] for f in composites(scaling).values()] == ["conv2d"]
    np.testing.assert_array_equal(run_relax(shifting, *inputs), run_relax(scaling, *inputs))


def dense_of(
    weight: Array, x_scale: float, output: float, *, rows: int = 1, w_scale: float = 1.0, zero: Array = ZERO
) -> onnx.ModelProto:
    graph = Graph("dense")
    kind = INT8 if zero.dtype == np.int8 else TensorProto.UINT8
    x = graph.dequantize(graph.input("x", (rows, weight.shape[0]), kind), x_scale, zero)
    w = graph.dequantize(graph.constant("w", weight), w_scale, ZERO)
    return quantised_model(graph, graph.node("MatMul", "dense", [x, w]), (rows, weight.shape[1]), output, relu=False)


def test_ties_go_to_the_even_neighbour() -> None:
    model = dense_of(np.arange(-128, 128, dtype=np.int8)[None], 1.0, 2.0)
    (result,) = run_relax(import_integer_model(model, "scale"), np.array([[1]], np.int8))
    np.testing.assert_array_equal(result, [[round(value / 2) for value in range(-128, 128)]])


def test_an_accumulator_beyond_24_bits_is_rounded_before_it_is_scaled() -> None:
    """2^24 + 1 becomes 2^24, times 5 / 2^25 is 2.5, to even 2; the exact product would round to 3."""
    data = np.array([[-128] * 1024 + [1]], np.int8)
    model = dense_of(data.T.copy(), 5 / 2**25, 1.0)
    (result,) = run_relax(import_integer_model(model, "scale"), data)
    assert result.item() == 2


@pytest.mark.parametrize("zero", [np.array(7, np.int8), np.array(100, np.uint8), np.array(0, np.uint8)])
def test_data_whose_zero_is_not_0_are_brought_to_the_same_form(zero: np.ndarray) -> None:
    weight = np.random.default_rng(1).integers(-128, 128, (20, 9)).astype(np.int8)
    model = dense_of(weight, 0.1, 33.3, rows=4, w_scale=0.7, zero=zero)
    imported = import_integer_model(model, "scale")
    (function,) = composites(imported).values()
    assert operators(function)[-5:] == ["astype", "multiply", "round", "clip", "astype"]
    inputs = draw_inputs(model)
    acc = (inputs["x"].astype(np.int64) - int(zero)) @ weight.astype(np.int64)
    (result,) = run_relax(imported, *inputs.values())
    factor = np.float64(np.float32(0.1)) * np.float32(0.7) / np.float32(33.3)
    np.testing.assert_array_equal(result, scaled(acc, factor))


def test_a_single_scale_does_not_do_for_channels_of_their_own() -> None:
    scales = [0.007] * 7 + [0.008]
    functions = composites(import_integer_model(product_of(scales, 0), "scale")).values()
    causes = [f.attrs["cause"] for f in functions if f.attrs["op"] == "requantize"]
    assert causes == ["each channel has a scale of its own"]
    assert [str(f.ret_ty.dtype.dtype) for f in functions if f.attrs["op"] == "dense"] == ["int32"]


def test_weights_that_int8_cannot_hold_are_scaled_like_any_other() -> None:
    (function,) = composites(import_integer_model(product_of([0.007] * 8, 120), "scale")).values()
    assert [int(size) for size in function.params[1].ty.shape] == [8 + 3, 8]
    assert str(function.ret_ty.dtype.dtype) == "int8"


def product_of(scales: list[float], zero_point: int) -> onnx.ModelProto:
    """A product with the weights -32 to 31, whose columns have ``scales``."""
    graph = Graph("product")
    x = graph.dequantize(graph.input("x", (3, 8), INT8), 2.0**-5, ZERO)
    scale = graph.constant("ws", np.array(scales, np.float32))
    zero = graph.constant("wz", np.full(len(scales), zero_point, np.int8))
    weight = graph.constant("w", np.arange(-32, 32, dtype=np.int8).reshape(8, 8))
    y = graph.node("MatMul", "product", [x, graph.node("DequantizeLinear", "wide", [weight, scale, zero], axis=1)])
    graph.output(graph.quantize(y, 2.0**-3, ZERO, "y"), (3, 8), INT8)
    return graph.model()
