"""Each kind of refusal in its own words, on several accelerators: true of the machine, or of the compiler."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.catalog.derive_accelerator import derive_accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.dry_run import plan_model
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.errors import UnsupportedOperator
from accel.program.program_model import HostStep
from accel.program_files.program_container import load_program
from tests.helpers.documents.whole_elements import with_whole_elements
from tests.helpers.models.recurrent import recurrent_model

LAYERS = [
    ("MatMul", ["x", "w"], "product", {}),
    ("Transpose", ["product"], "turned", {"perm": [0, 2, 1]}),
    ("MatMul", ["product", "turned"], "scores", {}),
    ("Softmax", ["scores"], "shares", {}),
    ("MatMul", ["shares", "product"], "mixed", {}),
    ("LayerNormalization", ["mixed", "gain"], "normal", {}),
    ("Gelu", ["normal"], "gelu", {}),
    ("Mul", ["gelu", "gelu"], "square", {}),
    ("Div", ["square", "product"], "ratio", {}),
    ("ArgMax", ["ratio"], "best", {"axis": 1}),
]
HOST = {
    "turned": "Transpose only moves elements, and ",
    "scores": "the host has a part of it: its result is wanted in float32, which its int32 sums become",
    "shares": "Softmax: {title} has no instruction for exp or division; the host computes it",
    "mixed": "the host has a part of it: ",
    "normal": "LayerNormalization: {title} has no instruction for square roots or division; the host computes it",
    "gelu": "Gelu: {title} has no instruction for exp or the error function; between an int8 tensor",
    "square": "Mul: of products of two activations this compiler quantises those of an image, or a line, and one",
    "ratio": "Div: {title} has no instruction for division; the host computes it",
    "best": "ArgMax: this compiler maps it to no accelerator's instructions: it maps no search for places",
}
PRESETS = ("vta", "mvin-mvout", "gemmini")


def attention() -> onnx.ModelProto:
    weights = np.random.default_rng(0).normal(size=(16, 16)).astype(np.float32)
    constants = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.ones(16, np.float32), "gain")]
    nodes = [helper.make_node(op, reads, [name], name=name, **more) for op, reads, name, more in LAYERS]
    graph = helper.make_graph(
        nodes,
        "attention",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 16])],
        [helper.make_tensor_value_info("best", TensorProto.INT64, [1, 1, 16])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@cache
def reasons(make: Callable[[], onnx.ModelProto], preset: str) -> dict[str, str]:
    plan = plan_model(make().SerializeToString(), load_accelerator(preset))
    return {node.name: node.reason for node in plan.nodes if node.reason is not None}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("node", HOST)
def test_a_reason_names_what_is_missing(node: str, preset: str) -> None:
    title = load_accelerator(preset).title
    assert reasons(attention, preset)[node].startswith(HOST[node].format(title=title))


def scaled_scores(op: str) -> onnx.ModelProto:
    """Attention's scores, whose factor or divisor has no constant weights to go into."""
    layers = [
        ("MatMul", ["x", "w"], "product"),
        ("MatMul", ["x", "product"], "scores"),
        (op, ["scores", "factor"], "scaled"),
        ("Softmax", ["scaled"], "shares"),
        ("Div", ["shares", "product"], "ratio"),
    ]
    weights = np.random.default_rng(0).normal(size=(16, 16)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node(op, reads, [name], name=name) for op, reads, name in layers],
        "scores",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [16, 16])],
        [helper.make_tensor_value_info("ratio", TensorProto.FLOAT, [16, 16])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.float32(8), "factor")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("op", ["Div", "Mul"])
def test_a_constant_factor_is_told_from_a_division_and_from_a_product_of_activations(op: str) -> None:
    plan = plan_model(scaled_scores(op).SerializeToString(), load_accelerator("vta"))
    told = {node.name: str(node.reason) for node in plan.nodes}
    assert told["scaled"].startswith(f"{op}: this compiler multiplies a constant into the weights of the layer")
    assert told["ratio"] == "Div: VTA 16x16 has no instruction for division; the host computes it"


def test_a_node_that_became_part_of_another_says_so() -> None:
    """A product behind a reciprocal is one division: its reason is the division's."""
    layers = [
        ("MatMul", ["x", "w"], "product"),
        ("Div", ["one", "product"], "reciprocal"),
        ("Mul", ["x", "reciprocal"], "normal"),
    ]
    weights = np.random.default_rng(0).normal(size=(16, 16)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node(op, reads, [name], name=name) for op, reads, name in layers],
        "reciprocal",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [16, 16])],
        [helper.make_tensor_value_info("normal", TensorProto.FLOAT, [16, 16])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.float32(1), "one")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    plan = plan_model(model.SerializeToString(), load_accelerator("vta"))
    told = {node.name: str(node.reason) for node in plan.nodes}
    division = "Div: VTA 16x16 has no instruction for division; the host computes it"
    assert (told["reciprocal"], told["normal"]) == (division, f"Mul became part of Div; {division}")


def lstm() -> onnx.ModelProto:
    return recurrent_model("LSTM", steps=2)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_recurrent_layer_is_one_node_of_which_the_host_has_a_part(preset: str) -> None:
    told, title = reasons(lstm, preset), load_accelerator(preset).title
    assert told["cell"].startswith(f"{title} runs its products with the weights; the host computes the rest")
    assert not [name for name in told if name.startswith("cell_")]


def test_what_nobody_can_run_says_what_lacks() -> None:
    graph = helper.make_graph(
        [helper.make_node("Det", ["x"], ["y"], name="det")],
        "det",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UnsupportedOperator, match=r"TVM's importer has no conversion of it.*export it as") as caught:
        plan_model(model.SerializeToString(), load_accelerator("vta"))
    assert caught.value.field == "node:det"


def test_a_norm_of_rows_is_what_stores_of_another_function_lack() -> None:
    """A Gemmini whose stores compute softmax has roots and divisions in its normaliser, if no document says them."""
    whole = derive_accelerator(load_accelerator("gemmini"), {"normalizations": True})
    others = tuple(each for each in whole.instructions if each.name != "store_layer_norm")
    reasons_of = [
        {node.name: node.reason or "" for node in plan_model(attention().SerializeToString(), each).nodes}
        for each in (whole.model_copy(update={"instructions": others}), whole)
    ]
    assert reasons_of[0]["normal"] == (
        f"LayerNormalization: of rows the stores of {whole.title} compute softmax by its document, which says "
        "no other function of them; the host computes it"
    )
    floats = "LayerNormalization: stores compute it of int8, and its data or its result are floats here"
    assert reasons_of[1]["normal"].startswith(floats)
    assert "computes softmax of rows, but not of 8 with 8 columns" in reasons_of[0]["shares"]


def pixels_apart() -> onnx.ModelProto:
    """Two convolutions, the channels of the first as blocks of pixels to the second."""
    weights = np.random.default_rng(0).normal(size=(128 * 16 + 32 * 32, 3, 3)).astype(np.float32)
    first, second = weights[: 128 * 16].reshape(128, 16, 3, 3), weights[128 * 16 :].reshape(32, 32, 3, 3)
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["deep"], name="deep", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["deep"], ["relu"], name="relu"),
        helper.make_node("DepthToSpace", ["relu"], ["wide"], name="wide", blocksize=2, mode="CRD"),
        helper.make_node("Conv", ["wide", "second"], ["y"], name="y", pads=[1, 1, 1, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "pixels",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 32, 32, 32])],
        [numpy_helper.from_array(first, "first"), numpy_helper.from_array(second, "second")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_the_host_is_said_to_lay_out_data_and_not_to_do_what_stores_do(tmp_path: Path) -> None:
    """It would catch a layout that no node's name is told of, and steps that are told of another node's name.

    Loads that begin at whole elements alone read no rows of taps.
    """
    machine = with_whole_elements(load_accelerator("npu"), "load_x")
    report = run_model(pixels_apart().SerializeToString(), machine, Options(trace=False), tmp_path)
    patches = "runs it; the host lays the patches of the image out as the channels of its pixels"
    quantised, *others = report.host_ops
    assert quantised.op == "QuantizeLinear"
    assert [(each.node, each.reason.partition("lanes ")[2]) for each in others] == [("deep", patches)]


def neighbours() -> onnx.ModelProto:
    """A constant matrix by what a layer makes of data, clipped, and once more: a graph's nodes and their neighbours."""
    random = np.random.default_rng(0)
    shapes = {"graph": (50, 50), "first": (32, 64), "second": (64, 16)}
    constants = [
        numpy_helper.from_array(random.normal(0, 0.2, shape).astype(np.float32), name) for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["hidden"], name="hidden"),
        helper.make_node("MatMul", ["graph", "hidden"], ["spread"], name="spread"),
        helper.make_node("Relu", ["spread"], ["relu"], name="relu"),
        helper.make_node("MatMul", ["relu", "second"], ["last"], name="last"),
        helper.make_node("MatMul", ["graph", "last"], ["sums"], name="sums"),
        helper.make_node("Softmax", ["sums"], ["y"], name="y", axis=1),
    ]
    values = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [50, width]) for name, width in (("x", 32), ("y", 16))
    )
    x, y = ([value] for value in values)
    graph = helper.make_graph(nodes, "neighbours", x, y, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_what_a_constant_matrix_makes_of_data_is_clipped_and_laid_out_without_the_host(tmp_path: Path) -> None:
    """It would catch a clip behind the transposition of its layer, and an output that the host turns without a word."""
    report = run_model(neighbours().SerializeToString(), load_accelerator("npu"), Options(trace=False), tmp_path)
    steps = load_program(tmp_path / "program.zip").steps
    assert [step.name for step in steps if isinstance(step, HostStep)] == []
    assert report.host_ops == []


def embedding() -> onnx.ModelProto:
    """Tokens that a Reshape brings to where an embedding is gathered, and a layer of what is."""
    random = np.random.default_rng(0)
    constants = [
        numpy_helper.from_array(random.normal(size=(50, 32)).astype(np.float32), "table"),
        numpy_helper.from_array(random.normal(size=(32, 32)).astype(np.float32), "w"),
        numpy_helper.from_array(np.array([16], np.int64), "shape"),
    ]
    nodes = [
        helper.make_node("Reshape", ["tokens", "shape"], ["places"], "places"),
        helper.make_node("Gather", ["table", "places"], ["gathered"], "gathered"),
        helper.make_node("MatMul", ["gathered", "w"], ["y"], "layer"),
    ]
    given = helper.make_tensor_value_info("tokens", TensorProto.INT64, [2, 8])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, [16, 32])
    graph = helper.make_graph(nodes, "embedding", [given], [made], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_places_of_a_gather_are_not_what_it_moves() -> None:
    """Catches a Reshape of tokens that is told as one whose elements no instruction reaches: the host reads them."""
    told = reasons(embedding, "npu")
    assert "where it reads depends on data" in told["gathered"]
    assert "what it moves goes on to the host" in told["places"]
