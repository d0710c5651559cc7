"""The graph of a model: who gives what to whom, without what depends on constants alone."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from accel.frontend.read.load_model import load_model
from accel.report.model_graph import describe_graph
from examples.graph import Graph


def described(model: onnx.ModelProto):
    loaded = load_model(model.SerializeToString())
    return describe_graph(loaded.model, loaded.types)


def test_edges_shapes_and_constants() -> None:
    graph = Graph("g")
    x = graph.input("x", (1, 4))
    weight = graph.constant("w", np.zeros((4, 8), np.float32))
    doubled = graph.node("Add", "double", [weight, weight])
    y = graph.node("MatMul", "product", [x, doubled])
    z = graph.node("Add", "sum", [y, y], "z")
    graph.output(z, (1, 8))
    found = described(graph.model())
    assert [(node.name, node.op, node.inputs, node.outputs) for node in found.nodes] == [
        ("product", "MatMul", ["x"], ["product"]),
        ("sum", "Add", ["product"], ["z"]),
    ]
    assert [node.constants for node in found.nodes] == [4 * 8 * 4, 0]
    assert (found.inputs, found.outputs) == (["x"], ["z"])
    tensor = found.tensors["product"]
    assert (tensor.shape, tensor.type, tensor.bytes) == ([1, 8], "float32", 32)


def test_what_a_branch_reads_is_read_by_its_node() -> None:
    """Catches an edge that is lost because only the graph within an attribute names its tensor."""

    def branch(name: str) -> onnx.GraphProto:
        node = helper.make_node("Identity", ["hidden"], [name])
        return helper.make_graph([node], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])])

    nodes = [
        helper.make_node("Relu", ["x"], ["hidden"], "relu"),
        helper.make_node("If", ["c"], ["y"], "if", then_branch=branch("a"), else_branch=branch("b")),
    ]
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
            [numpy_helper.from_array(np.array(True), "c")],
        )
    )
    found = describe_graph(model, {})
    assert [node.inputs for node in found.nodes] == [["x"], ["hidden"]]
    assert found.tensors["hidden"].shape is None
