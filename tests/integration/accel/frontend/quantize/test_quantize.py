from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.errors import CyclopsError, InvalidModel, InvalidTensors
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.integer_recovery.requantization import Requantize, ratio_exponent
from accel.frontend.onnx_model.onnx_nodes import attribute_of
from accel.frontend.quantize.quantize_model import quantize_model
from accel.frontend.quantize.scale_grid import Scales, Scheme, ZeroPoints
from examples.graph import Graph
from examples.resnet8 import resnet8
from tests.helpers.marking import rest_slow
from tests.reference import dyadic
from tests.reference.host import Array, draw_inputs, run_onnx, run_relax

Shape = tuple[int, ...]


class Network(Graph):
    """A graph with seeded constants."""

    def __init__(self) -> None:
        super().__init__("network")
        self.random = np.random.default_rng(3)

    def weights(self, name: str, *shape: int) -> str:
        return self.constant(name, (self.random.standard_normal(shape) * 0.3).astype(np.float32))

    def conv(self, name: str, x: str, channels: tuple[int, int], **attributes: object) -> str:
        operands = [
            x,
            self.weights(f"{name}_w", channels[1], channels[0], 3, 3),
            self.weights(f"{name}_b", channels[1]),
        ]
        return self.node("Conv", name, operands, **attributes)


def gemm(**attributes: object) -> Callable[[Network], None]:
    def build(network: Network) -> None:
        weight = network.weights("w", *((5, 6) if attributes.get("transB") else (6, 5)))
        operands = [network.input("x", (4, 6)), weight, network.weights("b", 1, 5)]
        network.output(network.node("Gemm", "layer", operands, **attributes), (4, 5))

    return build


def matmul_and_bias(network: Network) -> None:
    product = network.node("MatMul", "layer", [network.input("x", (2, 4, 6)), network.weights("w", 6, 5)])
    network.output(network.node("Add", "bias", [network.weights("b", 5), product]), (2, 4, 5))


def conv_relu6(network: Network) -> None:
    y = network.conv("layer", network.input("x", (1, 3, 10, 10)), (3, 8), auto_pad="SAME_UPPER", strides=[2, 2])
    bounds = [network.constant(name, np.array(b, np.float32)) for name, b in (("low", 0), ("high", 6))]
    network.output(network.node("Clip", "relu6", [y, *bounds]), (1, 8, 5, 5))


def conv_padded_below(network: Network) -> None:
    x = network.input("x", (1, 3, 9, 10))
    network.output(network.conv("layer", x, (3, 4), auto_pad="SAME_LOWER", strides=[2, 2]), (1, 4, 5, 5))


def depthwise(network: Network) -> None:
    operands = [network.input("x", (1, 3, 10, 10)), network.weights("w", 3, 1, 3, 3)]
    network.output(network.node("Conv", "layer", operands, group=3), (1, 3, 8, 8))


def transposed(network: Network) -> None:
    operands = [network.input("x", (1, 3, 5, 5)), network.weights("w", 3, 4, 2, 2), network.weights("b", 4)]
    network.output(network.node("ConvTranspose", "layer", operands, strides=[2, 2]), (1, 4, 10, 10))


def batch_norm(network: Network) -> None:
    y = network.conv("layer", network.input("x", (1, 3, 10, 10)), (3, 4))
    positive = network.constant("variance", np.array([0.5, 1, 2, 3], np.float32))
    parameters = [network.weights(name, 4) for name in ("gamma", "beta", "mean")]
    y = network.node("BatchNormalization", "norm", [y, *parameters, positive])
    network.output(network.node("Relu", "relu", [y]), (1, 4, 8, 8))


BUILDERS = [
    gemm(),
    gemm(transB=1),
    gemm(transB=1, alpha=0.5, beta=2.0),
    matmul_and_bias,
    conv_relu6,
    conv_padded_below,
    depthwise,
    batch_norm,
]


@pytest.mark.parametrize(("scales", "requantize"), [("power of two", "shift"), ("free", "scale")])
@pytest.mark.parametrize("opset", rest_slow([13, 11, 21]))
@pytest.mark.parametrize("build", BUILDERS)
def test_a_single_layer_becomes_one_composite_within_one_unit_of_onnxruntime(
    build: Callable[[Network], None], opset: int, scales: Scales, requantize: Requantize
) -> None:
    network = Network()
    build(network)
    model = quantize_model(network.model(opset), scheme=Scheme(scales))
    imported = import_integer_model(model, requantize)
    (composite,) = [f for f in imported.module.functions.values() if f.attrs.get("op") is not None]
    assert composite.attrs["nodes"][0] == "layer"
    assert composite.ret_ty.dtype.dtype == "int8"
    inputs = draw_inputs(model)
    (expected,) = run_onnx(model, inputs)
    (result,) = run_relax(imported, *inputs.values())
    assert np.abs(result - expected).max() <= 1.001 * output_scale(model)
    assert len(np.unique(result)) > 15


def output_scale(model: onnx.ModelProto) -> float:
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    return float(constants[model.graph.node[-1].input[1]])


@pytest.mark.slow
def test_resnet8_keeps_its_meaning() -> None:
    model, random = resnet8(), np.random.default_rng(11)
    calibration = random.standard_normal((32, 1, 3, 32, 32)).astype(np.float32)
    quantised = quantize_model(model, {"image": calibration})
    inputs = draw_inputs(model, seed=99)
    (expected,) = run_onnx(model, inputs)
    result = dyadic.run(quantised, inputs)["softmax"]
    assert sqnr(expected, result) > 20
    assert result.argmax() == expected.argmax()


def sqnr(expected: Array, result: Array) -> float:
    """Signal to quantisation noise, dB."""
    return float(10 * np.log10(np.square(expected).sum() / np.square(expected - result).sum()))


@pytest.mark.slow
def test_quantisation_is_repeatable_and_changes_nothing_of_its_input() -> None:
    model = resnet8()
    before = model.SerializeToString()
    first = quantize_model(model, seed=4).SerializeToString()
    assert quantize_model(model, seed=4).SerializeToString() == first
    assert model.SerializeToString() == before


@pytest.mark.slow
def test_shifts_requantise_at_any_scales_and_zero_points_are_where_nothing_pads_and_names_stay() -> None:
    """It would catch a layer, a sum or an average that no shift brings to the scale of its result."""
    model = quantize_model(resnet8())
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    scales: dict[str, float] = {}  # of what dequantises yield, and of what relus and additions make of that
    compared = 0
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear":
            scales[node.output[0]] = float(constants[node.input[1]])
        elif node.op_type == "QuantizeLinear":
            unpadded = node.input[0].startswith(("stack3_relu2", "pool", "flatten"))
            signed = node.input[0] in ("dense", "stack3_shortcut")  # unpadded, too
            assert signed or constants[node.input[2]] == (-128 if unpadded else 0)
            if node.input[0] in scales:
                assert ratio_exponent(float(constants[node.input[1]]), scales[node.input[0]]) is not None
                compared += 1
        elif node.op_type in ("Conv", "Gemm"):
            scales[node.output[0]] = scales[node.input[0]] * scales[node.input[1]]
        elif node.op_type == "GlobalAveragePool":
            scales[node.output[0]] = scales[node.input[0]] / 64
        elif node.op_type in ("Add", "Relu"):
            scales[node.output[0]] = scales[node.input[0]]
            assert all(np.frexp(scales[name] / scales[node.input[0]])[0] == 0.5 for name in node.input)
    assert compared > 12
    assert len({float(np.frexp(scale)[0]) for scale in scales.values()}) > 4
    names = {node.name for node in model.graph.node}
    assert {"conv1", "relu1", "stack2_shortcut", "stack3_add", "dense", "softmax"} <= names


@pytest.mark.slow
def test_pooling_keeps_the_scale_of_what_it_pools() -> None:
    network = Network()
    y = network.node("Relu", "relu", [network.conv("first", network.input("x", (1, 3, 10, 10)), (3, 8))])
    y = network.node("MaxPool", "pool", [y], kernel_shape=[2, 2], strides=[2, 2])
    network.output(network.conv("second", y, (8, 4)), (1, 4, 2, 2))
    model = quantize_model(network.model())
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    scales = {n.input[0]: constants[n.input[1]] for n in model.graph.node if n.op_type == "QuantizeLinear"}
    assert scales["pool"] == scales["relu"]


def test_a_quantised_result_that_is_also_an_output_keeps_its_name() -> None:
    network = Network()
    network.output(network.conv("first", network.input("x", (1, 3, 8, 8)), (3, 4)), (1, 4, 6, 6))
    network.output(network.conv("second", "first", (4, 4)), (1, 4, 4, 4))
    model = quantize_model(network.model())
    assert [output.name for output in model.graph.output] == ["first", "second"]
    assert len(import_integer_model(model).macs) == 2


@pytest.mark.slow
def test_free_scales_lose_no_more_of_resnet8() -> None:
    model = resnet8()
    images = [draw_inputs(model, seed) for seed in range(90, 98)]
    expected = np.stack([run_onnx(model, image)[0] for image in images])

    def decibels(scales: Scales, requantize: Requantize) -> float:
        imported = import_integer_model(quantize_model(model, scheme=Scheme(scales)), requantize)
        return sqnr(expected, np.stack([run_relax(imported, image["image"])[0] for image in images]))

    shifted, scaled = decibels("power of two", "shift"), decibels("power of two", "scale")
    assert shifted > 38
    assert decibels("free", "scale") > max(shifted, scaled) - 0.5  # what samples and roundings vary by


def test_the_operands_of_an_addition_differ_by_powers_of_two_even_if_free() -> None:
    model = quantize_model(resnet8(), scheme=Scheme("free"))
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    makers = {node.output[0]: node for node in model.graph.node}
    sums = [node for node in model.graph.node if node.op_type == "Add"]
    assert len(sums) == 3
    for node in sums:
        a, b = (constants[makers[name].input[1]] for name in node.input)
        assert np.frexp(np.float64(a) / b)[0] == 0.5
    mantissas = {float(np.frexp(value)[0]) for name, value in constants.items() if name.endswith("_scale")}
    assert len(mantissas) > 4


IMAGE = (1, 3, 32, 32)


@pytest.mark.parametrize(
    ("calibration", "field"),
    [
        ({}, "calibration.image"),
        ({"picture": np.zeros(IMAGE, np.float32)}, "calibration.picture"),
        ({"image": np.zeros((2, 3, 3), np.float32)}, "calibration.image"),
        ({"image": np.zeros((0, *IMAGE), np.float32)}, "calibration.image"),
        ({"image": np.full(IMAGE, np.nan, np.float32)}, "calibration.image"),
        ({"image": np.zeros(IMAGE, np.complex64)}, "calibration.image"),
    ],
)
def test_calibration_data_that_do_not_fit_are_refused(calibration: dict[str, Array], field: str) -> None:
    with pytest.raises(InvalidTensors) as caught:
        quantize_model(resnet8(), calibration)
    assert caught.value.field == field


def test_different_numbers_of_samples_are_refused() -> None:
    network = Network()
    network.output(network.node("Add", "sum", [network.input("a", (2,)), network.input("b", (2,))]), (2,))
    with pytest.raises(InvalidTensors):
        quantize_model(network.model(), {"a": np.ones((3, 2), np.float32), "b": np.ones((4, 2), np.float32)})


def test_weights_that_are_not_finite_are_refused() -> None:
    network = Network()
    weight = network.constant("w", np.array([[np.inf]], np.float32))
    network.output(network.node("MatMul", "product", [network.input("x", (1, 1)), weight]), (1, 1))
    with pytest.raises(InvalidModel) as caught:
        quantize_model(network.model())
    assert caught.value.field == "initializer:w"


def test_activations_that_are_not_finite_are_refused() -> None:
    network = Network()
    y = network.node("Log", "log", [network.input("x", (1, 3))])
    network.output(network.node("MatMul", "product", [y, network.weights("w", 3, 2)]), (1, 2))
    with pytest.raises(InvalidModel, match="not finite"):
        quantize_model(network.model())


def test_what_onnxruntime_cannot_load_is_refused() -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.BOOL, [1])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.BOOL, [1])],
    )
    with pytest.raises(CyclopsError):
        quantize_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


@pytest.mark.parametrize("op", ["Add", "MatMul"])
def test_integers_are_left_alone(op: str) -> None:
    graph = Graph("integers")
    x = graph.input("x", (4, 4), TensorProto.INT32)
    other = x if op == "Add" else graph.constant("w", np.ones((4, 4), np.int32))
    graph.output(graph.node(op, "node", [x, other]), (4, 4), TensorProto.INT32)
    assert [node.op_type for node in quantize_model(graph.model()).graph.node] == [op]


def test_layers_that_compute_the_same_stay_apart() -> None:
    graph = Graph("twins")
    weight = graph.constant("w", np.eye(4, dtype=np.float32))
    x = graph.input("x", (2, 4))
    twins = [graph.node("MatMul", name, [x, weight]) for name in ("first", "second")]
    graph.output(graph.node("Add", "sum", twins), (2, 4))
    assert {node.name for node in quantize_model(graph.model()).graph.node} >= {"first", "second", "sum"}


def test_random_samples_of_bytes_span_their_range() -> None:
    graph = Graph("bytes")
    x = graph.node("Cast", "cast", [graph.input("x", (1, 64), TensorProto.UINT8)], to=TensorProto.FLOAT)
    graph.output(graph.node("MatMul", "product", [x, graph.constant("w", np.eye(64, dtype=np.float32))]), (1, 64))
    model = quantize_model(graph.model())
    scales = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert scales["cast_scale"] == 1.0
    assert scales["cast_zero_point"] == -128


def skewed(depth: int) -> onnx.ModelProto:
    """A dense layer of positive data, whose weights are all rounded to the same side: 1.25 steps of the largest."""
    graph = Graph("skewed")
    weight = np.full((depth, 8), 1.25 / 127, np.float32)
    weight[0] = 1
    bias = graph.constant("bias", np.zeros(8, np.float32))
    graph.output(
        graph.node("Gemm", "dense", [graph.input("x", (16, depth)), graph.constant("w", weight), bias]), (16, 8)
    )
    return graph.model()


def test_a_bias_makes_up_for_what_the_rounding_of_weights_adds_on_average() -> None:
    """Without it the sums are a fifth too small."""
    model, data = skewed(256), np.random.default_rng(0).uniform(0.5, 1.5, (16, 256)).astype(np.float32)
    (exact,) = run_onnx(model, {"x": data})
    (made,) = run_onnx(quantize_model(model, {"x": data}, scheme=Scheme("free")), {"x": data})
    assert abs((made - exact).mean()) < 0.01 * exact.mean()


@pytest.mark.parametrize("pads", [0, 1])
@pytest.mark.parametrize("which", ["none", "unpadded", "fused", "all"])
def test_zero_points_are_where_the_scheme_has_them(pads: int, which: ZeroPoints) -> None:
    network = Network()
    y = network.node("Relu", "relu", [network.conv("first", network.input("x", (1, 3, 10, 10)), (3, 8))])
    size = 6 + 2 * pads
    network.output(network.conv("second", y, (8, 4), pads=[pads] * 4), (1, 4, size, size))
    model = quantize_model(network.model(), scheme=Scheme("free", zero_points=which))
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    expected = -128 if which in ("all", "fused") or (which == "unpadded" and not pads) else 0
    assert constants["relu_zero_point"] == expected
    imported = import_integer_model(model, "scale")
    image = draw_inputs(network.model())
    (found,), (wanted,) = run_relax(imported, image["x"]), run_onnx(model, image)
    # zeros around the image stand for zeros
    assert np.abs(wanted - found).max() <= 1.01 * constants["second_scale"]
    assert sqnr(run_onnx(network.model(), image)[0], found) > 30


@pytest.mark.parametrize(("pads", "which"), [(0, "fused"), (1, "fused"), (1, "all")])
def test_a_padded_relu_by_itself_has_no_zero_point_unless_all_have(pads: int, which: ZeroPoints) -> None:
    """It would catch one where each tile takes a pass more for it, and none where nothing has to stand for 0."""
    network = Network()
    cut = network.node(
        "Slice",
        "cut",
        [
            network.conv("first", network.input("x", (1, 3, 10, 10)), (3, 8)),
            *(network.constant(name, np.array([value])) for name, value in (("begin", 0), ("end", 6), ("axis", 3))),
        ],
    )
    y = network.node("Relu", "relu", [cut])
    network.output(network.conv("second", y, (8, 4), pads=[pads] * 4), (1, 4, 6 + 2 * pads, 4 + 2 * pads))
    model = quantize_model(network.model(), scheme=Scheme("free", zero_points=which))
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert constants["relu_zero_point"] == (0 if pads and which == "fused" else -128)


@pytest.mark.parametrize(
    ("kernel", "size", "attributes"),
    [(2, 16, {}), (3, 17, {}), (2, 15, {"pads": [1, 0, 0, 1]}), (2, 17, {"output_padding": [1, 1]})],
)
def test_phases_that_pad_nothing_take_a_zero_point(kernel: int, size: int, attributes: dict[str, list[int]]) -> None:
    """It would catch one where phases reach over the edges, which the host had to pad, and none where they do not."""
    network = Network()
    y = network.node("Relu", "relu", [network.conv("first", network.input("x", (1, 3, 10, 10)), (3, 8))])
    weight = np.random.default_rng(3).normal(0, 0.3, (8, 4, kernel, kernel)).astype(np.float32)
    y = network.node("ConvTranspose", "up", [y, network.constant("w", weight)], strides=[2, 2], **attributes)
    network.output(y, (1, 4, size, size))
    model = quantize_model(network.model(), scheme=Scheme("free"))
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    free = kernel == 2 and not attributes
    assert constants["relu_zero_point"] == (-128 if free else 0)
    imported = import_integer_model(model, "scale")
    assert not any("padded with their zero point" in str(cause) for cause in imported.causes.values())
    image = draw_inputs(network.model())
    (found,), (wanted,) = run_relax(imported, image["x"]), run_onnx(model, image)
    assert np.abs(wanted - found).max() <= 1.01 * constants["up_scale"]


@pytest.mark.parametrize("build", [gemm(transB=1), gemm(), matmul_and_bias, conv_relu6, depthwise, transposed])
def test_each_channel_of_weights_has_a_scale_of_its_own(build: Callable[[Network], None]) -> None:
    """It would catch scales along another axis than that of the output channels."""
    network = Network()
    build(network)
    model = network.model()
    weight = next(tensor for tensor in model.graph.initializer if tensor.name in {"w", "layer_w"})
    values = numpy_helper.to_array(weight)
    outputs = 1 if weight.name == "w" and values.ndim == 2 and values.shape == (6, 5) else 0
    outputs = 1 if model.graph.node[0].op_type == "ConvTranspose" else outputs
    shape = [1] * values.ndim
    shape[outputs] = -1
    spread = 10.0 ** -np.arange(values.shape[outputs]).reshape(shape)
    weight.CopyFrom(numpy_helper.from_array((values * spread).astype(np.float32), weight.name))
    made = quantize_model(model, scheme=Scheme("free", by_channel=True))
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    node = next(node for node in made.graph.node if node.input[0].endswith("_weight_quantized"))
    scales = constants[node.input[1]]
    assert scales.shape == (values.shape[outputs],)
    assert attribute_of(node, "axis", None) == outputs
    real = constants[node.input[0]] * scales.reshape(shape)
    exact = values * spread
    assert np.abs(real - exact).max(tuple(a for a in range(values.ndim) if a != outputs)).max() < scales.max()
    # a weight makes up for others of its channel by a few steps of its own scale, and by none of another channel's
    clipped = np.abs(exact) > 127 * scales.reshape(shape)
    assert (np.abs(real - exact) <= scales.reshape(shape) * 3 + clipped).all()


@pytest.mark.slow
@pytest.mark.parametrize("scales", ["free", "power of two"])
def test_what_a_skip_carries_keeps_its_scale_where_the_concatenation_is_far_coarser(scales: Scales) -> None:
    """It would catch a concatenation that is not brought to one scale."""
    network = Network()
    skip = network.node(
        "Relu", "skip", [network.conv("first", network.input("x", (1, 3, 10, 10)), (3, 8), pads=[1] * 4)]
    )
    deep = network.node(
        "Mul", "loud", [network.conv("deep", skip, (8, 8), pads=[1] * 4), network.constant("f", np.float32(8))]
    )
    deep = network.conv("deeper", deep, (8, 8), pads=[1] * 4)
    joined = network.node("Concat", "joined", [skip, deep], axis=1)
    network.output(network.conv("last", joined, (16, 4)), (1, 4, 8, 8))
    model = quantize_model(network.model(), scheme=Scheme(scales))
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    finer = constants["skip_scale"] < 0.6 * constants["joined_scale"]
    assert finer == (scales == "free")
    assert constants["deeper_scale"] == constants["joined_scale"]
    image = draw_inputs(network.model())
    found = run_relax(import_integer_model(model, "scale"), image["x"])[0]
    assert np.abs(found - run_onnx(model, image)[0]).max() <= 2.01 * constants["last_scale"]
