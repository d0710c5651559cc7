"""Softmaxes that are quantised at both ends: which of a model they are, and the scales that they get."""

import math

import numpy as np
import onnx
import pytest

from accel.frontend.integer_recovery.softmax_integers import octaves_of, softmax_of_integers
from accel.frontend.quantize.quantization_targets import find_targets
from accel.frontend.quantize.quantize_model import quantize_model
from accel.frontend.quantize.scale_grid import Scheme
from accel.frontend.quantize.stored_functions.softmax_rows import SoftmaxRows, find_softmaxes
from examples.graph import Graph

_COLUMNS = (17, 512)
_SCHEME = Scheme("free", zero_points="all", softmax_columns=_COLUMNS)


def _attention(columns: int = 40, axis: int = -1, beside: str = "", spread: float = 1.0) -> onnx.ModelProto:
    graph = Graph("attention")
    x, v = graph.input("x", (2, columns, columns)), graph.input("v", (2, columns, 8))
    scores = graph.node("Mul", "scores", [x, graph.constant("spread", np.float32(spread))])
    graph.node("MatMul", "context", [graph.node("Softmax", "softmax", [scores], axis=axis), v], "y")
    graph.output("y", (2, columns, 8))
    if beside == "output":
        graph.output(scores, (2, columns, columns))
    elif beside:
        graph.node(beside, "beside", [scores], "z")
        graph.output("z", (2, columns, columns))
    return graph.model()


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (_attention(), True),
        (_attention(axis=2), True),
        (_attention(axis=1), False),
        (_attention(columns=16), False),
        (_attention(columns=513), False),
        (_attention(beside="Relu"), False),
        (_attention(beside="output"), False),
    ],
    ids=["last", "by number", "columns", "short", "long", "read elsewhere", "output"],
)
def test_softmaxes_of_a_model(model: onnx.ModelProto, found: bool) -> None:
    """Scores that something else reads as floats, and rows that no store takes."""
    (softmax,) = [node for node in model.graph.node if node.op_type == "Softmax"]
    wanted = (SoftmaxRows(str(softmax.input[0]), str(softmax.output[0])),) if found else ()
    assert find_softmaxes(model, find_targets(model), _COLUMNS) == wanted


def _scales(model: onnx.ModelProto) -> list[tuple[float, int]]:
    """The scale and the zero point of the data and of the result of the softmax of a quantised model."""
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    (softmax,) = [node for node in model.graph.node if node.op_type == "Softmax"]
    ends = [
        next(node for node in model.graph.node if node.op_type == op and name in of(node))
        for op, name, of in (
            ("DequantizeLinear", softmax.input[0], lambda node: node.output),
            ("QuantizeLinear", softmax.output[0], lambda node: node.input),
        )
    ]
    return [(float(constants[node.input[1]]), int(constants[node.input[2]])) for node in ends]


@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0, 30.0])
def test_scales_are_those_of_the_integers(spread: float) -> None:
    """Data of any spread, whose scale has no integers, or results whose scale has none."""
    data, result = _scales(quantize_model(_attention(spread=spread), scheme=_SCHEME))
    octaves = octaves_of(*result)
    assert isinstance(octaves, int)
    assert not isinstance(softmax_of_integers(data[0], 40, octaves), str)
    assert 127 * result[0] * 2**octaves == pytest.approx(1, rel=1e-6)


def test_a_mask_leaves_levels_for_scores() -> None:
    """A range that ends at the lowest float."""
    model, lowest = _attention(), np.finfo(np.float32).min
    random = np.random.default_rng(0)
    x = random.standard_normal((8, 2, 40, 40)).astype(np.float32)
    hidden = np.where(np.triu(np.ones((40, 40)), 1) > 0, lowest, np.float32(0)).astype(np.float32)
    values = {"x": np.maximum(x + hidden, lowest), "v": random.standard_normal((8, 2, 40, 8)).astype(np.float32)}
    (scale, zero_point), _ = _scales(quantize_model(model, values, scheme=_SCHEME))
    largest = float(values["x"].max())
    assert scale <= 24 * math.log(2) / 255
    assert (127 - zero_point) * scale >= largest - scale
