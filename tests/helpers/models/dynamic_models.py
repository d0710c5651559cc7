"""Models with dynamic axes, as exporters write them."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def flattening(batch: str | None) -> onnx.ModelProto:
    """Image x [batch, 3, 4, 4], flattened with its batch read by Shape and Gather, times a matrix [48, 5]."""
    random = np.random.default_rng(2)
    constants = {
        "zero": np.array(0, np.int64),
        "axis": np.array([0], np.int64),
        "rest": np.array([-1], np.int64),
        "w": random.standard_normal((48, 5)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axis"], ["ns"]),
        helper.make_node("Concat", ["ns", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["flat"], name="flatten"),
        helper.make_node("MatMul", ["flat", "w"], ["y"], name="product"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (batch, 3, 4, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (batch, 5))],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
        value_info=[helper.make_tensor_value_info("flat", TensorProto.FLOAT, (batch, "floor(48*batch/batch)"))],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def convolving(height: str, width: str) -> onnx.ModelProto:
    """Image x [1, 3, height, width], convolved without padding."""
    weight = np.random.default_rng(3).standard_normal((6, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="conv")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, height, width))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 6, f"{height} - 2", f"{width} - 2"))],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
