"""A model of as many nodes as are accepted is imported in time that grows with them, and without recursion."""

import itertools
import time

import onnx
import pytest
from onnx import TensorProto, helper

from accel.frontend.integer_recovery.recover_integers import import_integer_model


def _model(nodes: list[onnx.NodeProto], last: str) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, [1, 4])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.slow
def test_a_run_of_relus_is_followed_once() -> None:
    names = ["x", *(f"y{index}" for index in range(2500))]
    nodes = [helper.make_node("Relu", [a], [b]) for a, b in itertools.pairwise(names)]
    began = time.process_time()
    import_integer_model(_model(nodes, names[-1]))
    assert time.process_time() - began < 30  # a second; following it from each relu took six minutes


@pytest.mark.slow
def test_a_run_of_sums_is_followed_without_recursion() -> None:
    names = ["x", *(f"y{index}" for index in range(1200))]
    nodes = [helper.make_node("Add", [a, "x"], [b]) for a, b in itertools.pairwise(names)]
    imported = import_integer_model(_model(nodes, names[-1]))
    assert len(imported.module["main"].body.blocks[0].bindings) == 1200
