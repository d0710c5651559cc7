import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from accel.errors import UnsupportedOperator
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.quantize.quantize_model import quantize_model
from examples.conv224 import conv224
from examples.graph import Graph
from examples.resnet8 import resnet8
from examples.single import Conv, Dense, conv_model, dense_model
from tests.helpers.models.scaled_layers import composites, operators
from tests.reference import dyadic
from tests.reference.host import Array, draw_inputs, run_layers, run_onnx, run_relax

INT8 = TensorProto.INT8


def check_exact(model: onnx.ModelProto) -> Array:
    inputs = draw_inputs(model)
    (result,) = run_relax(import_integer_model(model), *inputs.values())
    np.testing.assert_array_equal(result, dyadic.run(model, inputs)[model.graph.output[0].name])
    return result


def test_the_well_known_convolution_takes_the_well_known_form() -> None:
    imported = import_integer_model(conv224())
    (function,) = composites(imported).values()
    expected = ["nn.conv2d", "add", "right_shift", "maximum", "minimum", "astype"]
    assert operators(function) == expected
    constants = [int(binding.value.args[1].value.numpy()) for binding in function.body.blocks[0].bindings[1:5]]
    assert constants == [256, 9, -127, 127]
    assert list(function.attrs["nodes"]) == ["conv", "clip"]
    assert imported.macs == {"conv2d_conv": 224 * 224 * 16 * 16 * 9}
    assert imported.host_nodes == {}


conv_layers = st.builds(
    Conv,
    channels=st.integers(1, 20),
    filters=st.integers(1, 20),
    height=st.integers(7, 12),
    width=st.integers(7, 12),
    kernel=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    pads=st.tuples(*[st.integers(0, 3)] * 4),
    dilations=st.just((1, 1)),
    bias=st.booleans(),
    relu=st.booleans(),
    limit=st.none() | st.integers(1, 127),
    shift=st.none() | st.integers(-2, 12),
    batch=st.integers(1, 2),
)


@settings(max_examples=8, deadline=None)
@given(layer=conv_layers, seed=st.integers(0, 99))
def test_any_convolution_is_exact_and_within_one_unit_of_onnxruntime(layer: Conv, seed: int) -> None:
    model = conv_model(layer, seed)
    result = check_exact(model)
    (expected,) = run_onnx(model, draw_inputs(model))
    assert np.abs(result.astype(int) - expected.astype(int)).max() <= 1


@pytest.mark.parametrize(
    "layer",
    [
        Conv(8, 8, 9, 9, groups=8),
        Conv(8, 12, 9, 9, groups=4, relu=True),
        Conv(4, 4, 12, 12, dilations=(2, 3), strides=(2, 1)),
    ],
)
def test_grouped_and_dilated_convolutions_are_exact(layer: Conv) -> None:
    check_exact(conv_model(layer))


@pytest.mark.parametrize("layer", [Dense(1, 64, 10), Dense(7, 33, 17, bias=False, relu=True), Dense(3, 5, 4, shift=0)])
def test_dense_layers_are_exact_and_within_one_unit_of_onnxruntime(layer: Dense) -> None:
    model = dense_model(layer)
    result = check_exact(model)
    (expected,) = run_onnx(model, draw_inputs(model))
    assert np.abs(result.astype(int) - expected.astype(int)).max() <= 1
    assert import_integer_model(model).macs == {"dense_dense": layer.rows * layer.depth * layer.columns}


def test_resnet8_is_exact_layer_by_layer_and_no_layer_is_degenerate() -> None:
    model = quantize_model(resnet8())
    imported = import_integer_model(model)
    inputs = draw_inputs(model, seed=5)
    results = run_layers(imported, *inputs.values())
    reference = dyadic.run(model, inputs)
    assert len(results) == 9 + 3 + 1 + 1
    zeros = {each.integers: each.zero_point for each in imported.activations}
    for name, result in results.items():
        np.testing.assert_array_equal(result, reference[name], err_msg=name)
        lively = result[result > zeros[name]] if result.min() == zeros[name] else result  # behind a relu half are 0
        assert np.isin(lively, (-128, 127)).mean() < 0.05, name
        # the classifier has only ten outputs
        assert len(np.unique(result)) >= min(32, result.size // 2), name


def test_resnet8_leaves_only_what_is_not_integer_to_the_host() -> None:
    imported = import_integer_model(quantize_model(resnet8()))
    found = sorted((node.op, node.name) for node in imported.host_nodes.values())
    assert [op for op, _ in found] == [
        "DequantizeLinear",
        "QuantizeLinear",
        "Softmax",
    ]
    assert sum(imported.macs.values()) == 12_501_632


def test_a_residual_add_shifts_its_operands_to_a_common_scale() -> None:
    graph = Graph("add")
    zero = np.array(0, np.int8)
    a = graph.dequantize(graph.input("a", (2, 3, 4), TensorProto.INT8), 2.0**-3, zero)
    b = graph.dequantize(graph.input("b", (2, 3, 4), TensorProto.INT8), 2.0**-6, zero)
    y = graph.node("Relu", "relu", [graph.node("Add", "sum", [a, b])])
    graph.output(graph.quantize(y, 2.0**-4, zero, "y"), (2, 3, 4), TensorProto.INT8)
    imported = import_integer_model(graph.model())
    (function,) = composites(imported).values()
    expected = ["astype", "left_shift", "astype", "add", "add", "right_shift", "maximum", "minimum", "astype"]
    assert operators(function) == expected
    check_exact(graph.model())


def test_a_sum_that_int32_cannot_hold_stays_in_float() -> None:
    graph = Graph("add")
    zero = np.array(0, np.int8)
    a = graph.dequantize(graph.input("a", (8,), TensorProto.INT8), 2.0**30, zero)
    b = graph.dequantize(graph.input("b", (8,), TensorProto.INT8), 1.0, zero)
    graph.output(graph.quantize(graph.node("Add", "sum", [a, b]), 2.0**30, zero, "y"), (8,), TensorProto.INT8)
    model = graph.model()
    imported = import_integer_model(model)
    assert not composites(imported)
    inputs = draw_inputs(model)
    np.testing.assert_array_equal(run_relax(imported, *inputs.values()), run_onnx(model, inputs))


def test_a_relu_between_quantize_and_dequantize_of_one_scale_is_folded() -> None:
    graph = Graph("relu")
    zero = np.array(0, np.int8)
    x = graph.dequantize(graph.input("x", (2, 8), TensorProto.INT8), 2.0**-5, zero)
    weight = np.arange(-32, 32, dtype=np.int8).reshape(8, 8)
    w = graph.dequantize(graph.constant("w", weight), 2.0**-7, zero)
    y = graph.dequantize(graph.quantize(graph.node("MatMul", "product", [x, w]), 2.0**-5, zero), 2.0**-5, zero)
    graph.output(graph.quantize(graph.node("Relu", "relu", [y]), 2.0**-5, zero, "y"), (2, 8), TensorProto.INT8)
    imported = import_integer_model(graph.model())
    (function,) = composites(imported).values()
    assert list(function.attrs["nodes"]) == ["product", "relu"]
    assert imported.host_nodes == {}
    inputs = draw_inputs(graph.model())
    (result,) = run_relax(imported, *inputs.values())
    (expected,) = run_onnx(graph.model(), inputs)
    assert result.min() == 0
    assert np.abs(result.astype(int) - expected).max() <= 1


def test_a_result_wanted_in_float_keeps_its_macs_in_integers() -> None:
    graph = Graph("float")
    zero = np.array(0, np.int8)
    x = graph.dequantize(graph.input("x", (3, 8), TensorProto.INT8), 0.1, zero)
    w = graph.dequantize(graph.constant("w", np.arange(-32, 32, dtype=np.int8).reshape(8, 8)), 0.03, zero)
    graph.output(graph.node("Softmax", "softmax", [graph.node("MatMul", "product", [x, w])]), (3, 8))
    model = graph.model()
    imported = import_integer_model(model)
    assert imported.macs == {"dense_product": 3 * 8 * 8}
    inputs = draw_inputs(model)
    (expected,) = run_onnx(model, inputs)
    (result,) = run_relax(imported, *inputs.values())
    np.testing.assert_allclose(result, expected, atol=1e-5)


def test_a_float_model_imports_whole_for_the_host() -> None:
    model = resnet8()
    imported = import_integer_model(model)
    assert not imported.macs
    inputs = draw_inputs(model)
    (expected,) = run_onnx(model, inputs)
    np.testing.assert_allclose(run_relax(imported, *inputs.values())[0], expected, atol=1e-5)


def test_an_operator_that_nobody_runs_is_refused_by_name() -> None:
    graph = Graph("unknown")
    graph.output(graph.node("Det", "odd", [graph.input("x", (3, 2, 2))]), (3,))
    with pytest.raises(UnsupportedOperator, match="Det") as caught:
        import_integer_model(graph.model())
    assert caught.value.field == "node:odd"


def test_an_operator_that_is_imported_but_the_host_cannot_run_is_refused_by_name() -> None:
    """Onnxruntime resizes no lines by cubic curves."""
    graph = Graph("unknown")
    scales = graph.constant("scales", np.array([1, 1, 2], np.float32))
    y = graph.node("Resize", "smooth", [graph.input("x", (1, 4, 16)), "", scales], mode="cubic")
    graph.output(graph.node("Relu", "relu", [y]), (1, 4, 32))
    with pytest.raises(UnsupportedOperator, match="Resize: onnxruntime does not run") as caught:
        import_integer_model(graph.model())
    assert caught.value.field == "node:smooth"


@pytest.mark.parametrize("shape", [(8,), (8, 1), (1, 1, 8, 1), (8, 1, 1), (1, 8, 1, 1), (1,), ()])
def test_only_a_constant_along_the_channels_is_a_bias(shape: tuple[int, ...]) -> None:
    """The image is as high and as wide as it has channels."""
    graph = Graph("bias")
    zero, random = np.array(0, np.int8), np.random.default_rng(2)
    x = graph.dequantize(graph.input("x", (1, 8, 8, 8), TensorProto.INT8), 2.0**-5, zero)
    weight = random.integers(-99, 99, (8, 8, 1, 1)).astype(np.int8)
    y = graph.node("Conv", "conv", [x, graph.dequantize(graph.constant("w", weight), 2.0**-7, zero)])
    constant = graph.constant("k", random.normal(0, 3, shape).astype(np.float32))
    graph.output(graph.quantize(graph.node("Add", "add", [y, constant]), 2.0**-2, zero, "y"), (1, 8, 8, 8), INT8)
    model = graph.model()
    inputs = draw_inputs(model)
    imported = import_integer_model(model)
    (result,), (expected,) = run_relax(imported, *inputs.values()), run_onnx(model, inputs)
    assert np.abs(result.astype(int) - expected).max() <= 1
    (function,) = composites(imported).values()
    is_bias = len(shape) < 1 or np.prod(shape) == 1 or shape in {(8, 1, 1), (1, 8, 1, 1)}
    assert ("add" in function.attrs["nodes"]) == is_bias


@pytest.mark.parametrize("shape", [(9,), (9, 1)])
def test_a_constant_along_the_rows_of_a_square_product_is_no_bias(shape: tuple[int, ...]) -> None:
    graph = Graph("bias")
    zero, random = np.array(0, np.int8), np.random.default_rng(2)
    x = graph.dequantize(graph.input("x", (9, 20), TensorProto.INT8), 2.0**-5, zero)
    w = graph.dequantize(graph.constant("w", random.integers(-99, 99, (20, 9)).astype(np.int8)), 2.0**-7, zero)
    constant = graph.constant("k", random.normal(0, 3, shape).astype(np.float32))
    y = graph.node("Add", "add", [graph.node("MatMul", "product", [x, w]), constant])
    graph.output(graph.quantize(y, 2.0**-2, zero, "y"), (9, 9), INT8)
    model = graph.model()
    inputs = draw_inputs(model)
    (result,) = run_relax(import_integer_model(model), *inputs.values())
    (expected,) = run_onnx(model, inputs)
    assert np.abs(result.astype(int) - expected).max() <= 1


@pytest.mark.parametrize(
    ("weight_scale", "output", "cause"),
    [
        (0.007, np.array(0, np.int8), "the scales do not differ by a power of two"),
        (8.0, np.array(3, np.int8), "the result's zero point is no whole number of accumulators"),
        (2.0**-7 / 3, np.array(5, np.uint8), "the scales do not differ by a power of two"),
        (2.0**-40, np.array(0, np.int8), "shifting by 42 overflows int32"),
    ],
)
def test_a_requantisation_left_to_the_host_says_why(weight_scale: float, output: np.ndarray, cause: str) -> None:
    graph = Graph("cause")
    zero = np.array(0, np.int8)
    x = graph.dequantize(graph.input("x", (3, 8), TensorProto.INT8), 2.0**-5, zero)
    w = graph.dequantize(graph.constant("w", np.arange(-32, 32, dtype=np.int8).reshape(8, 8)), weight_scale, zero)
    dtype = INT8 if output.dtype == np.int8 else TensorProto.UINT8
    graph.output(graph.quantize(graph.node("MatMul", "product", [x, w]), 2.0**-3, output, "y"), (3, 8), dtype)
    functions = composites(import_integer_model(graph.model()))
    assert [f.attrs["cause"] for f in functions.values() if f.attrs["op"] == "requantize"] == [cause]


def test_a_change_of_shape_around_a_dense_layer_is_nobodys_work() -> None:
    graph = Graph("rows")
    zero = np.array(0, np.int8)
    x = graph.dequantize(graph.input("x", (2, 3, 8), TensorProto.INT8), 2.0**-5, zero)
    w = graph.dequantize(graph.constant("w", np.arange(-32, 32, dtype=np.int8).reshape(8, 8)), 2.0**-7, zero)
    graph.output(graph.quantize(graph.node("MatMul", "product", [x, w]), 2.0**-3, zero, "y"), (2, 3, 8), INT8)
    assert import_integer_model(graph.model()).host_nodes == {}
