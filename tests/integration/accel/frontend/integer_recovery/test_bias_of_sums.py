"""What channels of a sum are off by on average, and the layers behind it that make up for that."""

import numpy as np
import onnx
import pytest

from accel.frontend.integer_recovery.operators import contraction_recovery
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.integer_recovery.rounding_bias import ROUNDED
from accel.verify.output_comparison import reference_outputs
from examples.graph import Graph
from tests.helpers.marking import rest_all
from tests.reference.host import Array

_STEP, _WEIGHT, _RESULT = 2.0**-4, 2.0**-6, 2.0**-6
_ZERO = np.array(0, np.int8)
_INPUTS = 24


def _network(weights: Array, *, relu: bool, mean: bool, dense: bool, again: bool) -> onnx.ModelProto:
    """Two integer tensors, their sum in twice their step, and a layer that reads it, or its mean, or another sum."""
    graph = Graph("sums")
    shape = (64, _INPUTS) if dense else (1, _INPUTS, 16, 16)
    a, b = (graph.dequantize(graph.input(name, shape, onnx.TensorProto.INT8), _STEP, _ZERO) for name in ("a", "b"))
    for name, step in (("sum", 2 * _STEP), ("again", 4 * _STEP))[: 2 if again else 1]:
        total = graph.node("Add", name, [a, b])
        a = graph.node("Relu", f"{name}_relu", [total]) if relu else total
        a = graph.dequantize(graph.quantize(a, step, _ZERO), step, _ZERO)
        if again and name == "sum":
            b = graph.dequantize(graph.input("c", shape, onnx.TensorProto.INT8), step, _ZERO)
    if mean:
        step *= 1 / 16
        a = graph.node("GlobalAveragePool", "mean", [a])
        a = graph.dequantize(graph.quantize(a, step, _ZERO), step, _ZERO)
    kernel = weights.T if dense else weights[..., None, None]
    integers = graph.constant("w", np.ascontiguousarray(kernel))
    values = graph.dequantize(integers, _WEIGHT, _ZERO)
    bias = graph.dequantize(graph.constant("bias", np.zeros(16, np.int32)), step * _WEIGHT, np.array(0, np.int32))
    layer = graph.node("Gemm" if dense else "Conv", "layer", [a, values, bias])
    graph.output(graph.quantize(layer, _RESULT, _ZERO), (64, 16) if dense else _result(mean), onnx.TensorProto.INT8)
    return graph.model()


def _result(mean: bool) -> tuple[int, ...]:
    return (1, 16, 1, 1) if mean else (1, 16, 16, 16)


def _errors(model: onnx.ModelProto, weights: Array, *, relu: bool, mean: bool, again: bool) -> Array:
    """The mean error of each channel of the layer, in units of its result, over random data."""
    imported = import_integer_model(model, "shift", balances=ROUNDED)
    random, errors = np.random.default_rng(1), []
    for _ in range(12):
        given = [
            random.integers(-30, 31, [d.dim_value for d in info.type.tensor_type.shape.dim])
            for info in model.graph.input
        ]
        exact = (given[0] + given[1]) * _STEP
        exact = np.maximum(exact, 0) if relu else exact
        exact = exact + given[2] * 2 * _STEP if again else exact
        exact = exact.mean((2, 3), keepdims=True) if mean else exact
        found = reference_outputs(imported, [each.astype(np.int8) for each in given])[0].astype(np.float64)
        wanted = np.einsum("oi,ni...->no...", weights * _WEIGHT, exact) / _RESULT
        inside = np.abs(wanted) < 126
        errors.append(np.where(inside, found - wanted, 0).mean(tuple(axis for axis in range(wanted.ndim) if axis != 1)))
    return np.mean(errors, 0)


@pytest.mark.parametrize(
    ("form", "accepted"),
    rest_all(
        [
            ({}, 0.25),
            ({"relu": True}, 0.5),
            ({"mean": True}, 0.5),
            ({"dense": True}, 0.25),
            ({"again": True}, 0.5),
        ]
    ),
)
def test_layers_make_up_for_what_channels_of_a_sum_are_off_by(
    form: dict[str, bool], accepted: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would catch errors of the wrong sign or scale, of the wrong channels, and those that a mean or a sum loses."""
    kinds = dict.fromkeys(("relu", "mean", "dense", "again"), False) | form
    weights = np.random.default_rng(0).integers(-6, 7, (16, _INPUTS)).astype(np.int8)
    weights[:, ::2] = np.abs(weights[:, ::2])  # or what one channel is off by and the next one would cancel
    weights[:, 1::2] = -np.abs(weights[:, 1::2])
    model = _network(weights, **kinds)
    kinds.pop("dense")
    made_up = np.abs(_errors(model, weights, **kinds)).max()
    monkeypatch.setattr(contraction_recovery, "sums_of", lambda *_: 0.0)
    as_it_was = np.abs(_errors(model, weights, **kinds)).max()
    assert made_up < accepted * as_it_was
