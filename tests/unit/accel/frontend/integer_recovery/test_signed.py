"""Activations of uint8 become int8 where nothing but dequantize sees them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from accel.frontend.integer_recovery.signed_activations import with_signed_activations
from examples.graph import Graph
from tests.reference.host import draw_inputs, run_onnx

ZERO = np.array(37, np.uint8)
SHAPE = (1, 4, 6, 6)


def types(model: onnx.ModelProto) -> dict[str, int]:
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    return {value.name: value.type.tensor_type.elem_type for value in (*inferred.value_info, *inferred.output)}


def check(graph: Graph, opset: int = 17) -> dict[str, int]:
    """The results are the same, and the model is valid; the types of its tensors."""
    model = graph.model(opset)
    changed, inputs = with_signed_activations(model), draw_inputs(model)
    onnx.checker.check_model(changed, full_check=True)
    for result, expected in zip(run_onnx(changed, inputs), run_onnx(model, inputs), strict=True):
        np.testing.assert_array_equal(result, expected)
    return types(changed)


def test_a_tensor_between_quantize_and_dequantize() -> None:
    graph = Graph("between")
    x = graph.quantize(graph.input("x", SHAPE), 0.03, ZERO, "q")
    graph.output(graph.dequantize(x, 0.03, ZERO), SHAPE)
    assert check(graph)["q"] == TensorProto.INT8


@pytest.mark.parametrize("opset", [17, 21])
def test_without_a_zero_point_it_is_uint8(opset: int) -> None:
    graph = Graph("default")
    scale = graph.constant("scale", np.array(0.03, np.float32))
    x = graph.node("QuantizeLinear", "q", [graph.input("x", SHAPE), scale])
    graph.output(graph.node("DequantizeLinear", "y", [x, scale]), SHAPE)
    assert check(graph, opset)["q"] == TensorProto.INT8


def test_moves_between_them_move_int8() -> None:
    """As in models of quantised operators, whose pooling works on the integers."""
    graph = Graph("moves")
    x = graph.quantize(graph.input("x", SHAPE), 0.03, ZERO, "q")
    pooled = graph.node("MaxPool", "pool", [x], kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1])
    turned = graph.node("Transpose", "turned", [pooled], perm=[0, 2, 3, 1])
    joined = graph.node("Concat", "joined", [turned, turned], axis=3)
    graph.output(graph.dequantize(joined, 0.03, ZERO), (1, 4, 4, 8))
    found = check(graph)
    assert {found[name] for name in ("q", "pool", "turned", "joined")} == {TensorProto.INT8}


def test_what_the_user_sees_stays() -> None:
    graph = Graph("output")
    x = graph.quantize(graph.input("x", SHAPE), 0.03, ZERO, "q")
    graph.output(graph.node("Transpose", "turned", [x], perm=[0, 2, 3, 1]), (1, 6, 6, 4), TensorProto.UINT8)
    again = graph.quantize(graph.dequantize(x, 0.03, ZERO), 0.05, ZERO, "again")
    graph.output(graph.dequantize(again, 0.05, ZERO), SHAPE)
    found = check(graph)
    assert (found["q"], found["turned"], found["again"]) == (TensorProto.UINT8, TensorProto.UINT8, TensorProto.INT8)


def test_what_joins_the_users_uint8_stays() -> None:
    graph = Graph("joined")
    x = graph.quantize(graph.input("x", SHAPE), 0.03, ZERO, "q")
    joined = graph.node("Concat", "joined", [x, graph.input("u", SHAPE, TensorProto.UINT8)], axis=1)
    graph.output(graph.dequantize(joined, 0.03, ZERO), (1, 8, 6, 6))
    assert check(graph)["q"] == TensorProto.UINT8


def test_what_something_else_reads_stays() -> None:
    graph = Graph("read")
    x = graph.quantize(graph.input("x", SHAPE), 0.03, ZERO, "q")
    graph.output(graph.node("Cast", "cast", [x], to=TensorProto.FLOAT), SHAPE)
    graph.output(graph.dequantize(x, 0.03, ZERO), SHAPE)
    model = graph.model()
    assert with_signed_activations(model) is model


def test_models_without_uint8_stay() -> None:
    graph = Graph("int8")
    zero = np.array(3, np.int8)
    graph.output(graph.dequantize(graph.quantize(graph.input("x", SHAPE), 0.03, zero), 0.03, zero), SHAPE)
    model = graph.model()
    assert with_signed_activations(model) is model
