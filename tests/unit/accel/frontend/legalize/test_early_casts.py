"""Conversions of inputs ahead of their movement: the same numbers in onnxruntime, and nothing else changed."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.frontend.legalize.early_casts import cast_inputs_early


def masked(*, shared: bool) -> onnx.ModelProto:
    """A mask of int64 that is reshaped and expanded, and then a float; ``shared``: the integers are an output too."""
    nodes = [
        helper.make_node("Reshape", ["mask", "row"], ["as_row"], name="reshape"),
        helper.make_node("Expand", ["as_row", "wide"], ["expanded"], name="expand"),
        helper.make_node("Cast", ["expanded"], ["floats"], name="cast", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["floats", "x"], ["y"], name="y"),
        helper.make_node("Cast", ["mask"], ["plain"], name="plain", to=TensorProto.FLOAT),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 8])]
    outputs += [helper.make_tensor_value_info("plain", TensorProto.FLOAT, [1, 8])]
    outputs += [helper.make_tensor_value_info("expanded", TensorProto.INT64, [1, 4, 8])] if shared else []
    graph = helper.make_graph(
        nodes,
        "masked",
        [
            helper.make_tensor_value_info("mask", TensorProto.INT64, [1, 8]),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8]),
        ],
        outputs,
        [
            numpy_helper.from_array(np.array(extents), name)
            for name, extents in (("row", [1, 1, 8]), ("wide", [1, 4, 8]))
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("shared", [False, True])
def test_an_input_is_a_float_before_it_is_moved(*, shared: bool) -> None:
    """It would catch a Cast that moves past what others read, and nodes that stand before what they read."""
    model, changed = masked(shared=shared), masked(shared=shared)
    cast_inputs_early(changed.graph)
    onnx.checker.check_model(changed)
    given = {
        "mask": np.array([[0, 1, 1, 0, 7, 1, 0, 1]]),
        "x": np.linspace(-1, 1, 32, dtype=np.float32).reshape(1, 4, 8),
    }
    before, after = (
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, given)
        for each in (model, changed)
    )
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
    reads = {node.name: node.input[0] for node in changed.graph.node}
    assert reads["cast"] == ("expanded" if shared else "mask")
    assert reads["plain"] == "mask"
