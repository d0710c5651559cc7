"""Host graphs: what comes back is what was written, and nothing else is read."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm_ffi
from onnxruntime.quantization import QuantType
from tvm import ir

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.errors import InvalidProgram, SimulationError
from accel.frontend.quantize.quantize_model import quantize_model
from accel.host.host_executor import HostFunctions
from accel.host.host_graph_reader import read_host_graph
from accel.host.host_graph_writer import write_host_graph
from accel.host.host_operators import OPERATORS, attribute_fields, attributes_type
from accel.lowering.codegen import program_linking
from accel.program.program_model import HostStep
from examples.graph import Graph
from examples.resnet8 import resnet8
from tests.helpers.marking import rest_all
from tests.helpers.models.build_models import build
from tests.reference.onnxruntime_quantizer import quantise_by_onnxruntime
from tests.reference.operators import CODE, CONVERTED, PLAIN

ROOT = Path(__file__).parents[4]
VTA = load_accelerator("vta")
Graphs = list[tuple[ir.IRModule, str]]


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that compiles a model and gives its host steps, as modules and as texts."""

    def compiled(model: onnx.ModelProto, accelerator: Accelerator = VTA) -> Graphs:
        found: Graphs = []

        def write(module: ir.IRModule) -> str:
            found.append((module, write_host_graph(module)))
            return found[-1][1]

        monkeypatch.setattr(program_linking, "write_host_graph", write)
        texts = [step.module for step in build(model, accelerator).steps if isinstance(step, HostStep)]
        assert texts == [text for _, text in found]
        return found

    return compiled


def assert_same(found: Graphs) -> None:
    assert found
    for module, text in found:
        assert not text.startswith('{"tvm"')
        again = read_host_graph(text)
        ir.assert_structural_equal(again, module)
        assert tvm_ffi.structural_hash(again) == tvm_ffi.structural_hash(module)
        assert write_host_graph(again) == text
        assert json.loads(text)


@pytest.mark.parametrize("name", [*PLAIN, *CONVERTED])
def test_an_operator_comes_back(name: str, graphs: Any) -> None:
    assert_same(graphs((PLAIN | CONVERTED)[name].model()))


@pytest.mark.parametrize("preset", rest_all(["vta", "vta-8"]))
def test_a_network_comes_back(preset: str, graphs: Any) -> None:
    assert_same(graphs(quantize_model(resnet8()), load_accelerator(preset)))


@pytest.mark.parametrize(
    ("activations", "weights", "options"),
    [
        (QuantType.QUInt8, QuantType.QInt8, {}),
        (QuantType.QInt8, QuantType.QInt8, {"per_channel": True, "symmetric": True}),
        (QuantType.QUInt8, QuantType.QUInt8, {}),
    ],
)
def test_a_network_of_another_quantiser_comes_back(
    activations: QuantType, weights: QuantType, options: dict[str, bool], tmp_path: Path, graphs: Any
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
    assert_same(graphs(quantise_by_onnxruntime(graph.model(), tmp_path, activations, weights, **options)))


@pytest.mark.parametrize("name", CODE)
def test_code_is_read_only_where_it_is_trusted(name: str, graphs: Any) -> None:
    ((module, text),) = graphs(CODE[name].model())
    assert set(json.loads(text)) == {"tvm"}
    with pytest.raises(InvalidProgram, match="holds code that is no Relax operator; run it from its model"):
        read_host_graph(text)
    ir.assert_structural_equal(read_host_graph(text, trust_host_code=True), module)


def test_every_operator_is_pure_and_its_attributes_are_known() -> None:
    for name in OPERATORS:
        assert ir.Op.get(name).get_attr("FPurity")
        key = attributes_type(name)
        assert not key or attribute_fields(key)
    called = (
        "call_",
        "builtin",
        "memory",
        "vm.",
        "dist.",
        "ccl.",
        "invoke",
        "closure",
        "print",
        "assert",
        "multinomial",
    )
    assert not [name for name in OPERATORS if any(part in name for part in called)]


def parameter(**changes: Any) -> dict[str, Any]:
    return {"name": "x", "dtype": "float32", "shape": [2, 3]} | changes


def binding(op: str = "relax.abs", **changes: Any) -> dict[str, Any]:
    return {"name": "y", "op": op, "args": [{"var": "x"}]} | changes


def graph(*bindings: Any, **changes: Any) -> str:
    return json.dumps({"parameters": [parameter()], "bindings": bindings or [binding()], "results": ["y"]} | changes)


def call(op: str, *arguments: Any, **attributes: Any) -> str:
    return graph(binding(op, args=[{"var": "x"}, *arguments], **({"attrs": attributes} if attributes else {})))


def constant(**changes: Any) -> str:
    value = {"dtype": "float32", "shape": [3], "data": "AAAAAAAAAAAAAAAA"} | changes
    return call("relax.add", {"constant": value})


def vast(name: str) -> dict[str, Any]:
    return binding("relax.broadcast_to", name=name, args=[{"var": "x"}, {"shape": [1 << 27, 2, 3]}])


def named_tuple(name: str, of: str) -> dict[str, Any]:
    return {"name": name, "value": {"tuple": [{"var": of}]}}


PAD = {"pad_width": [0, 0, 1, 1], "pad_value": 0.5, "pad_mode": "constant"}


def test_what_is_written_by_hand_is_read() -> None:
    results = {
        graph(): np.abs,
        constant(): lambda x: x,
        call("relax.nn.pad", **PAD): lambda x: np.pad(x, ((0, 0), (1, 1)), constant_values=0.5),
        call("relax.nn.pad", **PAD | {"pad_value": "-inf"}): lambda x: np.pad(
            x, ((0, 0), (1, 1)), constant_values=-np.inf
        ),
        call("relax.reshape", {"shape": [3, 2]}): lambda x: x.reshape(3, 2),
        graph(results=["x"]): lambda x: x,
    }
    x = np.array([[-1, 2, -3], [4, 5, -6]], np.float32)
    for text, expected in results.items():
        read_host_graph(text)
        np.testing.assert_array_equal(HostFunctions().run(text, [x])[0], expected(x))


def test_several_results_come_back_in_order() -> None:
    halves = binding("relax.split", name="t", attrs={"indices_or_sections": [1], "axis": 0})
    items = [{"name": n, "value": {"item": i, "of": {"var": "t"}}} for i, n in enumerate(["upper", "lower"])]
    text = graph(halves, *items, results=["lower", "upper"])
    lower, upper = HostFunctions().run(text, [np.arange(6, dtype=np.float32).reshape(2, 3)])
    np.testing.assert_array_equal(lower, [[3, 4, 5]])
    np.testing.assert_array_equal(upper, [[0, 1, 2]])


BAD = {
    "nothing": ("", "it is not JSON"),
    "a list": ("[]", "the host graph: expected an object"),
    "no keys": ("{}", "the host graph: the key 'parameters' is missing; the keys are parameters, bindings, results"),
    "another key": (graph(more=1), "there is no key 'more'"),
    "code": ('{"tvm": "{}"}', "holds code"),
    "no results": (graph(results=[]), "results: expected the name of a variable"),
    "a result that is not there": (graph(results=["z"]), "the name of a variable defined before; got 'z'"),
    "a variable before it is bound": (graph(binding(args=[{"var": "y"}])), r"binding 'y'.args.0: expected the name"),
    "a name twice": (graph(binding(name="x"), results=["x"]), "there is a variable 'x' already"),
    "no name": (graph(binding(name=3)), "binding 0.name: expected a string"),
    "an operator that nobody knows": (graph(binding("relax.nothing")), "binding 'y'.op: expected an operator"),
    "a packed function": (graph(binding("relax.call_pure_packed")), "expected an operator that a host graph may call"),
    "a function": (graph(binding("relax.call_tir")), "expected an operator that a host graph may call"),
    "memory": (graph(binding("relax.memory.view")), "expected an operator that a host graph may call"),
    "printing": (graph(binding("relax.print")), "expected an operator that a host graph may call"),
    "too few arguments": (graph(binding(args=[])), "binding 'y': .*expects 1 arguments"),
    "too many arguments": (graph(binding(args=[{"var": "x"}] * 2)), "binding 'y': .*expects 1 arguments"),
    "no argument": (graph(binding(args=[3])), "binding 'y'.args.0: expected an argument"),
    "an argument with two tags": (graph(binding(args=[{"var": "x", "int": 3}])), "there is no key 'int'"),
    "attributes where there are none": (graph(binding(attrs={})), "relax.abs has none"),
    "no attributes": (call("relax.nn.pad"), "the key 'pad_width' is missing"),
    "another attribute": (call("relax.nn.pad", **PAD, more=1), "there is no key 'more'"),
    "an attribute of another type": (call("relax.nn.pad", **PAD | {"pad_width": "0"}), "pad_width: expected a list"),
    "text for a number": (call("relax.nn.pad", **PAD | {"pad_value": "zero"}), "pad_value: expected a number"),
    "a number for text": (call("relax.nn.pad", **PAD | {"pad_mode": 3}), "pad_mode: expected a string"),
    "half a width": (call("relax.nn.pad", **PAD | {"pad_width": [0.5] * 4}), "pad_width: expected an integer"),
    "a truth value": (call("relax.nn.pad", **PAD | {"pad_width": [True] * 4}), "pad_width: expected an integer"),
    "another element type": (call("relax.astype", dtype="complex64"), "dtype: expected one of bool, float16"),
    "shapes that do not fit": (call("relax.reshape", {"shape": [4, 2]}), "binding 'y': "),
    "a shape below one": (call("relax.reshape", {"shape": [6, 0]}), "expected an integer of 1 to"),
    "many dimensions": (call("relax.reshape", {"shape": [1] * 17}), "expected at most 16 dimensions"),
    "a vast tensor": (call("relax.broadcast_to", {"shape": [1 << 32, 2, 3]}), "a tensor of 103079215104 bytes"),
    "a vast parameter": (graph(parameters=[parameter(shape=[1 << 20] * 3)]), "parameter 0: a tensor of"),
    "vast tensors": (graph(*(vast(f"v{i}") for i in range(9)), results=["x"]), "'v5': the tensors so far have"),
    "no base64": (constant(data="?"), "data: expected base64"),
    "data of another size": (constant(data="AAAA"), r"data: 3 bytes for float32\[3\]"),
    "no truth": (constant(dtype="bool", data="AAEC"), "expected 0 or 1 for a bool"),
    "tuples in tuples": (call("relax.concat", {"tuple": [{"tuple": []}]}), "args.1.0: the key 'constant' is missing"),
    "tuples of tuples": (graph(named_tuple("t", "x"), named_tuple("u", "t")), "binding 'u': .* no tuples in it"),
    "a long tuple": (call("relax.concat", {"tuple": [{"var": "x"}] * 1025}), "expected a tuple of at most 1024 parts"),
    "many bindings": (graph(*[binding()] * 16385), "there are 16385 bindings; the limit is 16384"),
    "a part of no tuple": (graph({"name": "y", "value": {"item": 0, "of": {"var": "x"}}}), "item: expected an integer"),
    "a tuple as a result": (graph({"name": "y", "value": {"tuple": []}}), "results: expected tensors; got 'y'"),
    "an integer beyond its type": (call("relax.full", {"int": 300, "dtype": "int8"}), "expected an integer of -128"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_graph_is_refused(name: str) -> None:
    text, message = BAD[name]
    with pytest.raises(InvalidProgram, match=message):
        read_host_graph(text)


def test_a_graph_that_does_not_compile_is_a_wrong_program() -> None:
    text = call("relax.nn.conv2d", {"var": "x"})
    with pytest.raises(SimulationError) as caught:
        HostFunctions().prepare(text)
    assert caught.value.kind == "host-step"


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("0", "4000"), ("1", "120", "run")])
def test_mutated_graphs_crash_nothing(arguments: tuple[str, ...]) -> None:
    check_mutations(*arguments)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("arguments", [("2", "100000"), ("3", "1500", "run")])
def test_many_mutated_graphs_crash_nothing(arguments: tuple[str, ...]) -> None:
    check_mutations(*arguments)


def check_mutations(*arguments: str) -> None:
    """In a process of its own, whose crash is then seen."""
    command = [sys.executable, "-m", "tests.helpers.programs.host_graph_mutations", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = json.loads(done.stdout)
    assert outcomes["read"] > outcomes["refused"] / 10
    assert outcomes["refused"] > 0
    assert "run" not in arguments or outcomes["ran"] > outcomes["read"] / 2
