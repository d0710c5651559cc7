"""Names that others chose: what exporters write is taken, and nothing leads out of an archive."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.errors import InvalidModel, InvalidTensors
from accel.frontend.read.model_inspection import inspect_model
from accel.util.safe_names import name_fault, tensor_fault
from accel.verify.input_tensors import save_tensors

GOOD = (
    "input",
    "/fc/Gemm_output_0",
    "serving_default_x:0",
    "a/b",
    "model/conv1:0",
    "onnx::Conv_12",
    "a b",
    "..x",
    "x..",
    "a..b/c",
    "größe",
    "卷积",
    ".",
)
INNER = ("/model.0/..x/Relu", "C:/x", "a\\b", *GOOD)
NOWHERE = ("../../y", "a/../../y", "..", "a/..", "..\\y", "a\0b", "a\nb", "\x1b[2J", "a\x7f", "a\u2028b")
NO_TENSOR = ("", "/", "//x", "/../x", "/c:/x", "\\x", "a\\b", "C:\\x", "c:/x", "x" * 3000, *NOWHERE)


def model(given: str = "x", made: str = "y", inner: str = "t", node: str = "n") -> bytes:
    """given [2, 3] times w [3, 4], then Relu."""
    weight = numpy_helper.from_array(np.ones((3, 4), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", [given, "w"], [inner], name=node), helper.make_node("Relu", [inner], [made])],
        "../graph",
        [helper.make_tensor_value_info(given, TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info(made, TensorProto.FLOAT, [2, 4])],
        [weight],
    )
    made_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert isinstance(made_model, onnx.ModelProto)
    return made_model.SerializeToString()


@pytest.mark.parametrize("name", GOOD)
def test_what_exporters_write_is_taken(name: str) -> None:
    assert tensor_fault(name) is None
    assert [tensor.name for tensor in inspect_model(model(given=name)).inputs] == [name]
    assert [tensor.name for tensor in inspect_model(model(made=name)).outputs] == [name]


@pytest.mark.parametrize("name", INNER)
def test_what_exporters_write_inside_is_taken(name: str) -> None:
    assert name_fault(name) is None
    assert inspect_model(model(inner=name, node=name)).nodes == 2


@pytest.mark.parametrize("name", NO_TENSOR)
@pytest.mark.parametrize("kind", ["given", "made"])
def test_inputs_and_outputs_that_could_be_paths_are_refused(name: str, kind: str) -> None:
    with pytest.raises(InvalidModel) as caught:
        inspect_model(model(**{kind: name}))
    assert len(caught.value.detail) < 300
    assert caught.value.detail.isprintable()
    assert str(caught.value.field).isprintable()


@pytest.mark.parametrize("name", NOWHERE)
@pytest.mark.parametrize("make", [lambda name: model(inner=name), lambda name: model(node=name)])
def test_nodes_and_tensors_that_could_be_paths_are_refused(name: str, make: Callable[[str], bytes]) -> None:
    with pytest.raises(InvalidModel) as caught:
        inspect_model(make(name))
    assert caught.value.detail.isprintable()


@pytest.mark.parametrize("name", NO_TENSOR)
def test_no_archive_has_such_a_member(name: str, tmp_path) -> None:
    with pytest.raises(InvalidTensors):
        save_tensors(tmp_path / "tensors.npz", {"x": np.zeros(1), name: np.zeros(1)})
