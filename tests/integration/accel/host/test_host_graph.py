"""Host graphs: what comes back is what was written, computes what onnxruntime does, and nothing else is read."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnxruntime.quantization import QuantType

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.errors import InvalidProgram, InvalidTensors, SimulationError
from accel.frontend.quantize.quantize_model import quantize_model
from accel.host.host_executor import HostFunction, HostFunctions
from accel.host.host_graph import write_host_graph
from accel.host.host_graph_reader import read_host_graph
from accel.host.host_operators import OPERATORS
from accel.program.program_model import HostStep
from examples.graph import Graph
from examples.resnet8 import resnet8
from tests.helpers.marking import rest_all
from tests.helpers.models.build_models import build
from tests.reference.onnxruntime_quantizer import quantise_by_onnxruntime
from tests.reference.operators import CODE, CONVERTED, PLAIN

ROOT = Path(__file__).parents[4]
VTA = load_accelerator("vta")
REFUSED = ("resize lines smoothly",)  # which onnxruntime does not run
CASES = {name: case for name, case in (PLAIN | CONVERTED | CODE).items() if name not in REFUSED}


def graphs_of(model: onnx.ModelProto, accelerator: Accelerator = VTA) -> list[str]:
    return [step.module for step in build(model, accelerator).steps if isinstance(step, HostStep)]


def assert_same(found: list[str]) -> None:
    assert found
    for text in found:
        checked = read_host_graph(text)
        assert write_host_graph(checked.graph) == text
        HostFunction(checked)


def drawn(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Inputs of any numbers; indices and truth values are 0 or 1."""
    random, found = np.random.default_rng(3), {}
    for info in model.graph.input:
        shape = [size.dim_value for size in info.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        if dtype.kind == "f":
            found[info.name] = np.asarray(random.standard_normal(shape)).astype(dtype)
        elif dtype.itemsize == 8 or dtype.kind == "b":
            found[info.name] = random.integers(0, 2, shape).astype(dtype)
        else:
            limits = np.iinfo(dtype)
            found[info.name] = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return found


@pytest.mark.parametrize("name", CASES)
def test_an_operator_comes_back_and_gives_onnxruntimes_bits(name: str) -> None:
    """The operator by onnxruntime as the model has it: neither imported, nor translated, nor written."""
    model = CASES[name].model()
    program = build(model, VTA)
    (step,) = program.steps
    assert isinstance(step, HostStep)
    assert_same([step.module])
    inputs = drawn(model)
    if name == "Div int":
        inputs["x1"] = np.array([3, -7, 1, 1 << 30], np.int32)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    found = dict(zip(step.outputs, HostFunctions().run(step.module, list(inputs.values())), strict=True))
    for name_of_result, expected in zip(program.outputs, session.run(None, inputs), strict=True):
        got = found[name_of_result]
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        assert got.tobytes() == expected.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("preset", rest_all(["vta", "vta-8"]))
def test_a_network_comes_back(preset: str) -> None:
    assert_same(graphs_of(quantize_model(resnet8()), load_accelerator(preset)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("activations", "weights", "options"),
    rest_all(
        [
            (QuantType.QInt8, QuantType.QInt8, {"per_channel": True, "symmetric": True}),
            (QuantType.QUInt8, QuantType.QInt8, {}),
            (QuantType.QUInt8, QuantType.QUInt8, {}),
        ]
    ),
)
def test_a_network_of_another_quantiser_comes_back(
    activations: QuantType, weights: QuantType, options: dict[str, bool], tmp_path: Path
) -> None:
    graph, random = Graph("mixed"), np.random.default_rng(3)
    x = graph.input("x", (1, 5, 11, 9))
    for name, channels, filters, group in (("first", 5, 8, 1), ("grouped", 8, 8, 4), ("last", 8, 7, 1)):
        weight = graph.constant(f"{name}_w", random.normal(0, 0.2, (filters, channels // group, 3, 3)).astype("f4"))
        bias = graph.constant(f"{name}_b", random.normal(0, 0.5, filters).astype(np.float32))
        x = graph.node("Conv", name, [x, weight, bias], pads=[1, 1, 1, 1], group=group)
        x = graph.node("Relu", f"{name}_relu", [x])
    x = graph.node("MaxPool", "pool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = graph.node("Flatten", "flatten", [x])
    weight = graph.constant("dense_w", random.normal(0, 0.2, (140, 10)).astype(np.float32))
    x = graph.node("Softmax", "softmax", [graph.node("MatMul", "dense", [x, weight])])
    graph.output(x, (1, 10))
    assert_same(graphs_of(quantise_by_onnxruntime(graph.model(), tmp_path, activations, weights, **options)))


def test_every_operator_is_onnxs_and_has_no_graph_in_it() -> None:
    for name in OPERATORS:
        schema = onnx.defs.get_schema(name, 25)
        kinds = {str(attribute.type).rpartition(".")[2] for attribute in schema.attributes.values()}
        assert not {"GRAPH", "GRAPHS"} & kinds
    assert not {name for name in OPERATORS if "Random" in name or "Sequence" in name or "Optional" in name}


def tensor(**changes: Any) -> dict[str, Any]:
    return {"name": "x", "dtype": "float32", "shape": [2, 3]} | changes


def node(op: str = "Abs", *more: str, **changes: Any) -> dict[str, Any]:
    return {"op": op, "inputs": ["x", *more], "outputs": ["y"]} | changes


def graph(*nodes: Any, **changes: Any) -> str:
    document = {"opset": 18, "inputs": [tensor()], "constants": [], "nodes": nodes or [node()], "outputs": ["y"]}
    return json.dumps(document | changes)


def constant(value: dict[str, Any], op: str = "Add", **attributes: Any) -> str:
    more = {"attributes": attributes} if attributes else {}
    return graph(node(op, "c", **more), constants=[{"name": "c"} | value])


def numbers(*values: int) -> dict[str, Any]:
    return {"dtype": "int64", "shape": [len(values)], "values": list(values)}


ZEROS = {"dtype": "float32", "shape": [3], "data": "AAAAAAAAAAAAAAAA"}
VAST = [{"op": "Expand", "inputs": ["x", "c"], "outputs": [f"v{i}"]} for i in range(9)]
POOL = {"kernel_shape": [1], "strides": [1]}


def test_what_is_written_by_hand_is_read() -> None:
    results = {
        graph(): np.abs,
        constant(ZEROS): lambda x: x,
        constant(numbers(0, 1, 0, 1), "Pad"): lambda x: np.pad(x, ((0, 0), (1, 1))),
        constant(numbers(3, 2), "Reshape"): lambda x: x.reshape(3, 2),
        graph(outputs=["x"]): lambda x: x,
    }
    x = np.array([[-1, 2, -3], [4, 5, -6]], np.float32)
    for text, expected in results.items():
        np.testing.assert_array_equal(HostFunctions().run(text, [x])[0], expected(x))


def test_several_results_come_back_in_order() -> None:
    halves = {"op": "Split", "inputs": ["x", "c"], "outputs": ["upper", "lower"], "attributes": {"axis": 0}}
    text = graph(halves, constants=[{"name": "c"} | numbers(1, 1)], outputs=["lower", "upper"])
    lower, upper = HostFunctions().run(text, [np.arange(6, dtype=np.float32).reshape(2, 3)])
    np.testing.assert_array_equal(lower, [[3, 4, 5]])
    np.testing.assert_array_equal(upper, [[0, 1, 2]])


BAD = {
    "nothing": ("", "it is not JSON"),
    "a list": ("[]", "the host graph: expected an object"),
    "no keys": ("{}", "the key 'opset' is missing; the keys are opset, inputs, constants, nodes, outputs"),
    "another key": (graph(more=1), "there is no key 'more'"),
    "code": ('{"tvm": "{}"}', "the key 'opset' is missing"),
    "an opset that is too old": (graph(opset=13), "opset: expected an integer of 14 to"),
    "no outputs": (graph(outputs=[]), "outputs: expected the name of a tensor"),
    "an output that is not there": (graph(outputs=["z"]), "the name of a tensor that is there before; got 'z'"),
    "a tensor before it is made": (graph(node(inputs=["y"])), r"node 0 \(Abs\).inputs: expected the name"),
    "a name twice": (graph(node(outputs=["x"])), "there is a tensor 'x' already"),
    "no name": (graph(node(outputs=[3])), "name: expected a string"),
    "an operator that nobody knows": (graph(node("Nothing")), "node 0.op: expected an operator"),
    "an operator of a later opset": (graph(node("Gelu")), "opset 18 has no such operator"),
    "a branch": (graph(node("If")), "expected an operator that a host graph may call"),
    "a loop": (graph(node("Loop")), "expected an operator that a host graph may call"),
    "chance": (graph(node("RandomNormalLike")), "expected an operator that a host graph may call"),
    "too few inputs": (graph(node(inputs=[])), "inputs: expected 1 to 1 names"),
    "an input that is needed": (graph(node(inputs=[""])), "one is missing that Abs needs"),
    "too many inputs": (graph(node("Abs", "x")), "inputs: expected 1 to 1 names"),
    "no result": (graph(node(outputs=[""])), "it makes nothing"),
    "another attribute": (graph(node(attributes={"axis": 1})), "there is no attribute 'axis'; there are none"),
    "no attribute": (graph(node("Concat")), "'axis' is missing"),
    "an equation without an end": (graph(node("Einsum", attributes={"equation": "ij>"})), "equation: expected labels"),
    "an attribute of another type": (graph(node("Concat", attributes={"axis": "0"})), "axis: expected an integer"),
    "a truth value": (graph(node("Concat", attributes={"axis": True})), "axis: expected an integer"),
    "a number for text": (constant(numbers(0, 0, 0, 0), "Pad", mode=3), "mode: expected a string"),
    "a window that does not move": (graph(node("MaxPool", attributes=POOL | {"strides": [0]})), "integers of 1 to"),
    "a window in the padding": (graph(node("MaxPool", attributes=POOL | {"pads": [1, 1]})), "than the kernel's"),
    "an attribute beyond reason": (graph(node("LRN", attributes={"size": 1 << 40})), "integers of 1 to 16777216"),
    "tensors that do not fit": (constant(ZEROS | {"shape": [1, 3]}, "MatMul"), "not well formed"),
    "types that do not fit": (constant(numbers(1)), "not well formed"),
    "a shape that depends on data": (
        graph(node("Reshape", "s"), inputs=[tensor(), tensor(name="s", dtype="int64", shape=[2])]), "no static shape"),
    "many dimensions": (graph(inputs=[tensor(shape=[1] * 17)]), "expected at most 16 dimensions"),
    "a vast tensor": (constant(numbers(1 << 32, 2, 3), "Expand"), "a tensor of 103079215104 bytes"),
    "a vast input": (graph(inputs=[tensor(shape=[1 << 20] * 3)]), "input 0: a tensor of"),
    "vast tensors": (graph(*VAST, constants=[{"name": "c"} | numbers(1 << 27, 2, 3)], outputs=["x"]), "so far have"),
    "no base64": (constant(ZEROS | {"data": "?"}), "data: expected base64"),
    "data of another size": (constant(ZEROS | {"data": "AAAA"}), r"data: 3 bytes for float32\[3\]"),
    "values of another number": (constant(numbers(1) | {"shape": [2]}), r"1 numbers for int64\[2\]"),
    "a value beyond its type": (constant(numbers(300) | {"dtype": "int8"}), "expected an integer of -128 to 127"),
    "no truth": (constant(ZEROS | {"dtype": "bool", "data": "AAEC"}), "expected 0 or 1 for a bool"),
    "another element type": (graph(inputs=[tensor(dtype="complex64")]), "expected one of bool, float16"),
    "many nodes": (graph(*[node()] * 16385), "there are 16385 nodes; the limit is 16384"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_graph_is_refused(name: str) -> None:
    text, message = BAD[name]
    with pytest.raises(InvalidProgram, match=message):
        read_host_graph(text)


def test_a_node_that_onnxruntime_does_not_run_is_a_wrong_program() -> None:
    text = graph(node("Resize", "", "c", attributes={"mode": "cubic"}), constants=[{"name": "c"} | SCALES], inputs=[
        tensor(shape=[1, 2, 3])])  # fmt: skip
    with pytest.raises(SimulationError, match="onnxruntime does not run a host step") as caught:
        HostFunctions().prepare(text)
    assert caught.value.kind == "host-step"


SCALES = {"dtype": "float32", "shape": [3], "values": [1.0, 1.0, 2.0]}


@pytest.mark.parametrize(
    ("op", "more"),
    [
        ("Gather", {}),
        ("GatherElements", {}),
        ("GatherND", {}),
        ("ScatterElements", {"inputs": ["x", "at", "x"]}),
        ("ScatterND", {"inputs": ["x", "at", "x"]}),
    ],
)
@pytest.mark.parametrize("far", [4, -5, 2**62, -(2**62)])
def test_an_index_out_of_range_is_refused(op: str, more: dict[str, Any], far: int) -> None:
    text = graph(
        node(op, "at", **more),
        inputs=[tensor(shape=[4, 1]), tensor(name="at", dtype="int64", shape=[4, 1])],
    )
    x, at = np.ones((4, 1), np.float32), np.array([[0], [3], [-4], [1]])
    HostFunctions().run(text, [x, at])
    at[2] = far
    with pytest.raises(InvalidTensors, match=f"{op} on the host selects element {far}"):
        HostFunctions().run(text, [x, at])


def test_regions_lie_about_their_image() -> None:
    inputs = [tensor(shape=[1, 1, 8, 8]), tensor(name="r", shape=[1, 4]), tensor(name="b", dtype="int64", shape=[1])]
    text = graph(node("RoiAlign", "r", "b"), inputs=inputs)
    image, region, batch = (
        np.ones((1, 1, 8, 8), np.float32),
        np.array([[0, 0, 4, 4]], np.float32),
        np.zeros(1, np.int64),
    )
    assert HostFunctions().run(text, [image, region, batch])[0].shape == (1, 1, 1, 1)
    nowhere, far = region * np.float32(np.nan), region * np.float32(1e9)
    for wrong in ([image, nowhere, batch], [image, far, batch], [image, region, batch + 1]):
        with pytest.raises(InvalidTensors, match="do not lie about its 1 images of 8x8"):
            HostFunctions().run(text, wrong)


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_a_shape_of_other_elements_is_refused(dtype: str) -> None:
    text = constant(numbers(4, 2), "Reshape").replace("float32", dtype)
    with pytest.raises(SimulationError, match="host step"):
        HostFunctions().run(text, [np.ones((2, 3), dtype)])


@settings(max_examples=30, deadline=None)
@given(pads=st.tuples(*[st.integers(-3, 9)] * 4), mode=st.sampled_from(["constant", "reflect", "edge", "wrap"]))
def test_pads_larger_than_the_tensor(pads: tuple[int, ...], mode: str) -> None:
    small = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    try:
        (got,) = HostFunctions().run(constant(numbers(*pads), "Pad", mode=mode).replace("18", "19", 1), [small])
    except SimulationError:
        return
    assert got.shape == (2 + pads[0] + pads[2], 3 + pads[1] + pads[3])
    assert set(np.unique(got)) <= {*small.ravel(), 0.0}


@pytest.mark.parametrize("mode", ["zeros", "border", "reflection"])
def test_grids_of_any_numbers(mode: str) -> None:
    grid = np.array([np.nan, 1e30, -1e30, np.inf, -np.inf, 0.5, 0, 2], np.float32).reshape(1, 2, 2, 2)
    image = np.ones((1, 1, 4, 4), np.float32)
    text = graph(
        node("GridSample", "g", attributes={"padding_mode": mode}),
        inputs=[tensor(shape=[1, 1, 4, 4]), tensor(name="g", shape=[1, 2, 2, 2])],
    )
    assert HostFunctions().run(text, [image, grid])[0].shape == (1, 1, 2, 2)


def test_work_beyond_the_limit_is_refused_before_it_is_done() -> None:
    text = graph(node("MatMulInteger", "x"), inputs=[tensor(dtype="int8", shape=[1 << 13, 1 << 13])])
    with pytest.raises(SimulationError, match="steps of work; the limit is") as caught:
        HostFunctions().prepare(text)
    assert caught.value.kind == "work-limit"


def test_temporaries_beyond_the_limit_are_refused() -> None:
    image = tensor(shape=[1, 1, 1 << 15, 1 << 15])
    text = graph(node("Conv", "w"), inputs=[image, tensor(name="w", shape=[1, 1, 3, 3])])
    with pytest.raises(SimulationError, match="bytes at once; the limit is") as caught:
        HostFunctions().prepare(text)
    assert caught.value.kind == "work-limit"


def test_a_patch_embedding_is_a_reshape_and_a_transposition() -> None:
    """Windows that do not overlap are no slices, of which a 32x32 one would have 1024."""
    patches, random = Graph("patches"), np.random.default_rng(0)
    weight = patches.constant("w", random.normal(0, 0.02, (16, 3, 32, 32)).astype(np.float32))
    y = patches.node("Conv", "embed", [patches.input("x", (1, 3, 64, 64)), weight], strides=[32, 32])
    patches.output(y, (1, 16, 2, 2))
    nodes = [item["op"] for text in graphs_of(quantize_model(patches.model())) for item in json.loads(text)["nodes"]]
    assert nodes.count("Slice") <= 1
    assert len(nodes) < 20


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("1", "300", "run"), pytest.param(("0", "1000"), marks=pytest.mark.all)])
def test_mutated_graphs_crash_nothing(arguments: tuple[str, ...]) -> None:
    check_mutations(*arguments)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("arguments", [("2", "100000"), ("3", "20000", "run")])
def test_many_mutated_graphs_crash_nothing(arguments: tuple[str, ...]) -> None:
    check_mutations(*arguments, seconds=1800)


def check_mutations(*arguments: str, seconds: float = 120) -> None:
    """In a process of its own, whose crash is then seen, or that one graph takes all its time."""
    command = [sys.executable, "-m", "tests.helpers.programs.host_graph_mutations", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = json.loads(done.stdout)
    assert outcomes["read"] > outcomes["refused"] / 10
    assert outcomes["refused"] > 0
    assert "run" not in arguments or outcomes["ran"] > outcomes["read"] / 2
