import contextlib
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from accel.errors import (
    CyclopsError,
    ExternalData,
    InvalidModel,
    ModelTooLarge,
    UnsupportedOperator,
    UnsupportedShape,
    UnsupportedType,
)
from accel.frontend.onnx_model.model_limits import ModelLimits
from accel.frontend.quantize.quantize_model import quantize_model
from accel.frontend.read.load_model import load_model
from accel.frontend.read.model_inspection import inspect_model
from examples.conv224 import conv224
from examples.graph import Graph
from examples.resnet8 import resnet8
from tests.helpers.marking import share


def matmul() -> onnx.ModelProto:
    """x [2, 3] times w [3, 4]."""
    weight = numpy_helper.from_array(np.ones((3, 4), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_it_describes_resnet8() -> None:
    info = inspect_model(resnet8().SerializeToString())
    assert info.format == "float"
    assert info.opset == 17
    assert [tensor.model_dump() for tensor in info.inputs] == [
        {"name": "image", "dtype": "float32", "shape": (1, 3, 32, 32)}
    ]
    assert [tensor.model_dump() for tensor in info.outputs] == [
        {"name": "softmax", "dtype": "float32", "shape": (1, 10)}
    ]
    assert info.operators["Conv"] == 9
    assert info.nodes == sum(info.operators.values())
    assert info.macs == 12_501_632
    assert info.parameters == sum(numpy_helper.to_array(t).size for t in resnet8().graph.initializer)


@pytest.mark.slow
def test_macs_are_the_same_after_quantisation() -> None:
    info = inspect_model(quantize_model(resnet8()).SerializeToString())
    assert info.format == "qdq"
    assert info.macs == 12_501_632


def test_macs_of_convolution_and_matrix_product() -> None:
    assert inspect_model(conv224().SerializeToString()).macs == 224 * 224 * 16 * 16 * 9
    assert inspect_model(matmul().SerializeToString()).macs == 2 * 3 * 4


def test_shapes_that_depend_on_computed_vectors_are_found() -> None:
    model = matmul()
    node = model.graph.node
    node.insert(0, helper.make_node("Shape", ["w"], ["shape"]))
    node.append(helper.make_node("Reshape", ["y2", "shape"], ["z"]))
    model.graph.initializer.append(numpy_helper.from_array(np.ones((4, 6), np.float32), "v"))
    node.insert(2, helper.make_node("MatMul", ["y", "v"], ["y2"]))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["rows", "columns"]))
    assert inspect_model(model.SerializeToString()).outputs[0].shape == (3, 4)


Edit = Callable[[onnx.ModelProto], object]


def set_input(*dimensions: int | str, dtype: int = TensorProto.FLOAT) -> Edit:
    return lambda m: m.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", dtype, dimensions))


def set_node(*arguments: object, **attributes: object) -> Edit:
    return lambda m: m.graph.node[0].CopyFrom(helper.make_node(*arguments, name="odd", **attributes))


def external(model: onnx.ModelProto) -> None:
    tensor = model.graph.initializer[0]
    onnx.external_data_helper.set_external_data(tensor, location="../../../etc/passwd")
    tensor.ClearField("raw_data")


def external_attribute(model: onnx.ModelProto) -> None:
    tensor = numpy_helper.from_array(np.ones(3, np.float32), "inside")
    onnx.external_data_helper.set_external_data(tensor, location="elsewhere")
    model.graph.node.insert(0, helper.make_node("Constant", [], ["c"], name="constant", value=tensor))


def doubling(model: onnx.ModelProto) -> None:
    """Vectors that would take 2^60 elements if shape inference computed them."""
    model.graph.node.append(helper.make_node("Shape", ["x"], ["s0"]))
    for step in range(60):
        model.graph.node.append(helper.make_node("Concat", [f"s{step}"] * 2, [f"s{step + 1}"], axis=0))


def branching(model: onnx.ModelProto) -> None:
    body = helper.make_graph([], "body", [], [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])])
    model.graph.node.append(helper.make_node("If", ["x"], ["z"], name="branch", then_branch=body, else_branch=body))


def split_in_other_parts(model: onnx.ModelProto) -> None:
    """onnx's shape inference would end the process."""
    model.opset_import[0].version = 18
    model.graph.node.append(helper.make_node("Split", ["x"], ["a", "b"], name="parts", num_outputs=1))


def in_segments(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].segment.end = 1


def untyped_output(model: onnx.ModelProto) -> None:
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.UNDEFINED


def nested(depth: int) -> Edit:
    """Graphs in attributes of nodes, in one another."""

    def edit(model: onnx.ModelProto) -> None:
        graph = helper.make_graph([], "innermost", [], [])
        for _ in range(depth):
            graph = helper.make_graph([helper.make_node("Loop", ["x"], ["z"], name="deep", body=graph)], "g", [], [])
        model.graph.node.append(graph.node[0])

    return edit


def flood_of_nodes(model: onnx.ModelProto) -> None:
    for index in range(20_000):
        model.graph.node.add(op_type="Relu", input=["x"], output=[f"r{index}"])


def flood_of_inputs(model: onnx.ModelProto) -> None:
    model.graph.node.add(op_type="Concat", name="wide", input=["x"] * 200_000, output=["wide"])


def flood_of_constants(model: onnx.ModelProto) -> None:
    for _ in range(150_000):
        model.graph.initializer.add()


FAULTS: list[tuple[str, Edit, type[CyclopsError], str]] = [
    ("in segments", in_segments, InvalidModel, "initializer:w"),
    ("an output without a type", untyped_output, UnsupportedType, "output:y"),
    ("no nodes", lambda m: m.graph.ClearField("node"), InvalidModel, "model"),
    ("no inputs", lambda m: m.graph.ClearField("input"), InvalidModel, "model"),
    ("opset too old", lambda m: m.opset_import[0].CopyFrom(helper.make_opsetid("", 8)), InvalidModel, "model"),
    ("opset too new", lambda m: m.opset_import[0].CopyFrom(helper.make_opsetid("", 29)), InvalidModel, "model"),
    ("sparse constants", lambda m: m.graph.sparse_initializer.add(), UnsupportedType, "initializer:"),
    ("long name", lambda m: m.graph.node[0].output.append("y" * 1000), InvalidModel, "model"),
    ("undefined input", set_node("MatMul", ["x", "nobody"], ["y"]), InvalidModel, "model"),
    ("contradicting shapes", set_input(2, 5), InvalidModel, "node:product"),
    ("data too short", lambda m: m.graph.initializer[0].dims.append(9), InvalidModel, "initializer:w"),
    ("external data", external, ExternalData, "initializer:w"),
    ("external data of an attribute", external_attribute, ExternalData, "node:constant"),
    ("no shape", lambda m: m.graph.input[0].type.tensor_type.ClearField("shape"), UnsupportedShape, "input:x"),
    ("negative input", set_input(-2, 3), UnsupportedShape, "input:x"),
    ("empty input", set_input(0, 3), UnsupportedShape, "input:x"),
    ("absurd input", set_input(2**20, 2**20), UnsupportedShape, "input:x"),
    ("overflowing input", set_input(2**62, 2**62), UnsupportedShape, "input:x"),
    ("too many dimensions", set_input(*[1] * 9), UnsupportedShape, "input:x"),
    ("negative constant", lambda m: m.graph.initializer[0].dims.__setitem__(0, -3), UnsupportedShape, "initializer:w"),
    ("doubling vectors", doubling, UnsupportedShape, "node:Concat_"),
    ("eighths of floats", set_input(2, 3, dtype=TensorProto.FLOAT8E5M2), UnsupportedType, "input:x"),
    ("strings", set_input(2, 3, dtype=TensorProto.STRING), UnsupportedType, "input:x"),
    ("sequence", lambda m: m.graph.input[0].type.sequence_type.elem_type.SetInParent(), UnsupportedType, "input:x"),
    ("unknown type", lambda m: setattr(m.graph.initializer[0], "data_type", 999), UnsupportedType, "initializer:w"),
    ("unknown operator", set_node("Nonsense", ["x"], ["y"]), UnsupportedOperator, "node:odd"),
    ("other domain", set_node("MatMul", ["x", "w"], ["y"], domain="evil"), UnsupportedOperator, "node:odd"),
    ("random operator", set_node("RandomNormal", [], ["y"], shape=[2, 4]), UnsupportedOperator, "node:odd"),
    ("equation without an end", set_node("Einsum", ["x"], ["y"], equation="i.j->i"), InvalidModel, "node:odd"),
    ("equation as a number", set_node("Einsum", ["x"], ["y"], equation=3), InvalidModel, "node:odd"),
    ("split in other parts", split_in_other_parts, InvalidModel, "node:parts"),
    ("20,000 nodes", flood_of_nodes, ModelTooLarge, "model"),
    ("200,000 inputs of a node", flood_of_inputs, ModelTooLarge, "model"),
    ("150,000 constants", flood_of_constants, ModelTooLarge, "model"),
    ("graphs in graphs", nested(20), ModelTooLarge, "model"),
    ("control flow", branching, UnsupportedOperator, "node:branch"),
]


@pytest.mark.parametrize(
    ("edit", "error", "field"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
def test_a_faulty_model_is_refused_at_once(edit: Edit, error: type[CyclopsError], field: str) -> None:
    model = matmul()
    edit(model)
    data = model.SerializeToString()
    began = time.process_time()
    with pytest.raises(CyclopsError) as caught:
        inspect_model(data)
    assert time.process_time() - began < 0.5
    assert type(caught.value) is error, caught.value.detail
    assert (caught.value.field or "").startswith(field)


@pytest.mark.parametrize("data", [b"", b"not a model at all", b"\x08", bytes(1000)])
def test_what_is_not_onnx_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidModel):
        inspect_model(data)


def field_of(number: int, data: bytes) -> bytes:
    """A field of protobuf's wire format, of bytes."""
    length, size = b"", len(data)
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


def test_a_node_of_a_million_inputs_is_not_parsed() -> None:
    node = field_of(4, b"Concat") + b"\x0a\x00" * 1_000_000
    began = time.process_time()
    with pytest.raises(ModelTooLarge, match="more than"):
        inspect_model(b"\x08\x08" + field_of(7, field_of(1, node)))
    assert time.process_time() - began < 0.5


def test_a_file_nested_a_thousand_deep_is_refused() -> None:
    graph = field_of(2, b"g")
    for _ in range(1000):
        attribute = field_of(1, b"body") + field_of(6, graph)
        graph = field_of(1, field_of(4, b"Loop") + field_of(5, attribute))
    with pytest.raises(InvalidModel, match="not ONNX"):
        inspect_model(b"\x08\x08" + field_of(7, graph))


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_a_scale_that_is_no_positive_number_is_refused(scale: float) -> None:
    model = quantize_model(matmul())
    (tensor,) = [t for t in model.graph.initializer if t.name == "x_scale"]
    tensor.CopyFrom(numpy_helper.from_array(np.array(scale, np.float32), "x_scale"))
    with pytest.raises(InvalidModel) as caught:
        inspect_model(model.SerializeToString())
    assert caught.value.field == "initializer:x_scale"


def test_a_name_that_is_not_text_is_refused() -> None:
    with pytest.raises(InvalidModel, match="UTF-8"):
        inspect_model(matmul().SerializeToString().replace(b"MatMul", b"Mat\xfful"))


@pytest.mark.slow
@settings(max_examples=share(15), deadline=None)
@given(st.data())
def test_a_damaged_file_never_escapes_as_another_error(data: st.DataObject) -> None:
    whole = bytearray(quantize_model(matmul()).SerializeToString())
    del whole[data.draw(st.integers(0, len(whole)), label="cut") :]
    for _ in range(data.draw(st.integers(0, 4), label="changes")):
        if whole:
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CyclopsError):
        inspect_model(bytes(whole))


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        (ModelLimits(file_bytes=10), ModelTooLarge),
        (ModelLimits(nodes=3), ModelTooLarge),
        (ModelLimits(parts=20), ModelTooLarge),
        (ModelLimits(tensor_elements=1000), UnsupportedShape),
        (ModelLimits(total_bytes=10_000), UnsupportedShape),
        (ModelLimits(macs=1000), UnsupportedShape),
    ],
)
def test_every_limit_is_checked(limits: ModelLimits, error: type[CyclopsError]) -> None:
    with pytest.raises(error):
        inspect_model(resnet8().SerializeToString(), limits)


@pytest.mark.slow
def test_five_megabytes_and_two_thousand_nodes_take_less_than_a_second() -> None:
    model = matmul()
    model.graph.initializer.append(numpy_helper.from_array(np.ones(5 * 2**18, np.float32), "ballast"))
    for index in range(2000):
        model.graph.node.append(helper.make_node("Relu", [f"r{index - 1}" if index else "y"], [f"r{index}"]))
    data = model.SerializeToString()
    began = time.process_time()
    assert inspect_model(data).nodes == 2001
    assert time.process_time() - began < 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process that has been replaced is Linux's to tell")
def test_a_large_model_takes_less_than_four_times_its_size(tmp_path: Path) -> None:
    """Of memory, the file itself included."""
    model = matmul()
    for index in range(4):
        ballast = numpy_helper.from_array(np.ones(2**22, np.float32), f"ballast{index}")
        model.graph.initializer.append(ballast)
    file = tmp_path / "large.onnx"
    file.write_bytes(model.SerializeToString())
    code = (
        "import pathlib, sys\n"
        "from accel.frontend.read.model_inspection import inspect_model\n"
        "inspect_model(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "print(pathlib.Path('/proc/self/status').read_text())\n"
    )
    done = subprocess.run([sys.executable, "-c", code, file], stdout=subprocess.PIPE, text=True, check=True)
    (peak,) = (int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("VmHWM:"))
    assert peak * 1024 < 4 * file.stat().st_size


def test_an_output_may_lack_its_shape() -> None:
    model = matmul()
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert inspect_model(model.SerializeToString()).outputs[0].shape == (2, 4)
    output = load_model(model.SerializeToString()).model.graph.output[0]
    assert [size.dim_value for size in output.type.tensor_type.shape.dim] == [2, 4]


def test_inspection_loads_neither_compiler_nor_runtime() -> None:
    code = "import sys, accel.frontend.read.model_inspection; sys.exit(bool({'tvm', 'onnxruntime'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("version", [3, 8])
def test_initializers_that_are_inputs_too_are_constants(version: int) -> None:
    graph = Graph("defaults")
    weight = graph.constant("weight", np.ones((4, 4), np.float32))
    graph.output(graph.node("MatMul", "product", [graph.input("x", (2, 4)), weight]), (2, 4))
    model = graph.model(opset=11)
    model.ir_version = version
    model.graph.input.append(onnx.helper.make_tensor_value_info("weight", onnx.TensorProto.FLOAT, (4, 4)))
    assert [tensor.name for tensor in inspect_model(model.SerializeToString()).inputs] == ["x"]
    loaded = load_model(model.SerializeToString()).model
    assert [tensor.name for tensor in loaded.graph.input] == ["x"]
    onnx.checker.check_model(quantize_model(loaded))
