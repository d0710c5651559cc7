"""Requantisations that change no integer are no operators: a factor that is a part of the scale alone."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from accel.frontend.integer_recovery.recover_integers import import_integer_model
from examples.graph import Graph
from tests.helpers.models.scaled_layers import composites
from tests.reference.host import run_onnx, run_relax

_INTEGERS = np.arange(-128, 128, dtype=np.int8).reshape(1, 16, 16)


def scaled(factor: float, scale: float, zero_point: int) -> onnx.ModelProto:
    """Integers of scale 0.5 times a factor, quantised with a scale."""
    graph = Graph("scaled")
    given = graph.dequantize(graph.input("x", _INTEGERS.shape, TensorProto.INT8), 0.5, np.array(3, np.int8))
    product = graph.node("Mul", "mul", [given, graph.constant("factor", np.array(factor, np.float32))])
    graph.quantize(product, scale, np.array(zero_point, np.int8), "y")
    graph.output("y", _INTEGERS.shape, TensorProto.INT8)
    return graph.model()


@pytest.mark.parametrize(
    ("factor", "scale", "zero_point", "changes"),
    [
        (0.7, 0.35, 3, False),
        (0.7, 0.35000002, 3, False),
        (0.7, 0.348, 3, True),
        (0.7, 0.35, 4, True),
        (-0.7, 0.35, 3, True),
    ],
)
def test_a_factor_of_the_scale_alone_is_no_operator(
    factor: float, scale: float, zero_point: int, *, changes: bool
) -> None:
    """Of all integers at once: a step that was left out wrongly would show in one of them."""
    model = scaled(factor, scale, zero_point)
    imported = import_integer_model(model, requantize="scale")
    assert bool(composites(imported)) == changes
    (result,) = run_relax(imported, _INTEGERS)
    np.testing.assert_allclose(result, run_onnx(model, {"x": _INTEGERS})[0], atol=changes)
