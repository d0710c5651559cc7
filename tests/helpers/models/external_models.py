"""Models that keep their weights in other files, as exporters write them."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FILE = "f.onnx.data"


def two_weights() -> onnx.ModelProto:
    """x [1, 4] times a [4, 8] times b [8, 3], plus a constant of a node."""
    random = np.random.default_rng(5)
    constants = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("a", (4, 8)), ("b", (8, 3)))
    ]
    added = numpy_helper.from_array(random.standard_normal((1, 3)).astype(np.float32), "added")
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "a"], ["xa"], name="first"),
            helper.make_node("MatMul", ["xa", "b"], ["xab"], name="second"),
            helper.make_node("Constant", [], ["c"], name="constant", value=added),
            helper.make_node("Add", ["xab", "c"], ["y"], name="add"),
        ],
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3))],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def tensors_of(model: onnx.ModelProto) -> list[TensorProto]:
    """The initializers, and the constant of the node."""
    return [*model.graph.initializer, model.graph.node[2].attribute[0].t]


def move_out(tensor: TensorProto, **said: object) -> bytes:
    """Take the elements out of the tensor, which then says that they are kept so; gives them."""
    elements = bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in said.items():
        tensor.external_data.add(key=key, value=str(value))
    return elements


def in_one_file(model: onnx.ModelProto, location: str = FILE, gap: int = 0) -> tuple[bytes, bytes]:
    """The model and its one file of data, in which ``gap`` zeros stand before each tensor."""
    data = b""
    for tensor in tensors_of(model):
        data += bytes(gap)
        size = len(tensor.raw_data)
        data += move_out(tensor, location=location, offset=len(data), length=size)
    return model.SerializeToString(), data


def in_a_file_each(model: onnx.ModelProto, folder: str) -> tuple[bytes, dict[str, bytes]]:
    """The model and its files, which are in ``folder``; none says an offset or a length."""
    files = {}
    for tensor in tensors_of(model):
        location = f"{folder}{tensor.name}.bin"
        files[location] = move_out(tensor, location=location)
    return model.SerializeToString(), files


def write(folder: Path, model: bytes, files: dict[str, bytes], name: str = "f.onnx") -> Path:
    """The model in ``folder``, with its files where it says; gives its path."""
    for location, data in files.items():
        (folder / location).parent.mkdir(parents=True, exist_ok=True)
        (folder / location).write_bytes(data)
    (folder / name).write_bytes(model)
    return folder / name
