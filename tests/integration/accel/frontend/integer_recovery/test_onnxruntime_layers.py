"""Layers of any scales, zero points and types, as composites: within a step of onnxruntime."""

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.frontend.integer_recovery.recover_integers import ImportedModel, import_integer_model
from accel.frontend.integer_recovery.requantization import Requantize
from tests.helpers.marking import share
from tests.helpers.models.onnxruntime_layers import Kind, check_within_a_step, conv, dense, kinds
from tests.helpers.models.scaled_layers import composites
from tests.reference.host import draw_inputs, run_relax


def check(model: onnx.ModelProto, requantize: Requantize) -> ImportedModel:
    imported = import_integer_model(model, requantize)
    check_within_a_step(run_relax(imported, *draw_inputs(model).values()), model)
    return imported


def host_composites(imported: ImportedModel) -> list[str]:
    return [str(f.attrs["cause"]) for f in composites(imported).values() if f.attrs["op"] == "requantize"]


@pytest.mark.slow
@settings(max_examples=share(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(kind=kinds(), requantize=st.sampled_from(["shift", "scale", "multiply"]), dense_layer=st.booleans())
def test_any_layer_is_within_a_step(kind: Kind, requantize: Requantize, *, dense_layer: bool) -> None:
    check(dense(kind, 5, 40, 7) if dense_layer else conv(kind, 5, 7), requantize)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(("x", "y"), [("int8", "int8"), ("uint8", "uint8"), ("uint8", "int8"), ("int8", "uint8")])
def test_where_integers_multiply_nothing_is_left_to_requantise(x: str, y: str, *, per_channel: bool) -> None:
    kind = Kind(x, y, x_zero=100, y_zero=30, per_channel=per_channel)
    assert host_composites(check(conv(kind, 16, 8), "multiply")) == []
    assert host_composites(check(dense(kind, 4, 64, 8), "multiply")) == []


def test_a_float_scale_takes_a_zero_point_too() -> None:
    kind = Kind("uint8", "uint8", x_zero=100, y_zero=30)
    assert host_composites(check(conv(kind, 16, 8), "scale")) == []
    (cause,) = host_composites(check(conv(Kind(per_channel=True), 16, 8), "scale"))
    assert cause == "each channel has a scale of its own"


def test_a_zero_point_finer_than_the_sums_is_the_hosts() -> None:
    """A unit of the sums is 5 steps of the result, which 17 is no multiple of."""
    kind = Kind(y_zero=145, y_gain=5 * 74 * 40 / 30 * 4**0.5)
    assert host_composites(check(dense(kind, 4, 4, 8), "scale")) == [
        "the result's zero point is no whole number of accumulators"
    ]
    assert host_composites(check(dense(kind, 4, 4, 8), "multiply")) == []


@pytest.mark.parametrize("groups", [1, 8])
def test_channels_of_one_scale_have_an_immediate(groups: int) -> None:
    imported = check(conv(Kind(y_zero=9, bias=False), 8, 8, groups=groups), "multiply")
    (function,) = composites(imported).values()
    assert len(function.params) == 3  # data, weights, and the bias that rounds
    (function,) = composites(check(conv(Kind(per_channel=True), 8, 8, groups=groups), "multiply")).values()
    assert [str(parameter.name) for parameter in function.params] == ["x", "w", "b", "m"]


def test_the_accumulators_bound_decides_not_the_data_at_hand() -> None:
    """All weights and data at their extremes, where a sum wraps if one can."""
    kind = Kind(x_zero=0, y_zero=0, x_scale=0.5, y_gain=0.01)
    model = dense(kind, 2, 512, 4)
    for tensor in model.graph.initializer:
        if tensor.name == "w":
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.full((512, 4), 127, np.int8), "w"))
    imported = import_integer_model(model, "multiply")
    for value in (-128, 127):
        data = np.full((2, 512), value, np.int8)
        (result,) = run_relax(imported, data)
        wanted = 512 * 127 * (value + 128) * 0.5 * np.float32(kind.w_scale)
        assert np.abs(result.astype(int) - np.clip(wanted / _scale(model) - 128, -128, 127)).max() <= 2


def _scale(model: onnx.ModelProto) -> float:
    last = [node for node in model.graph.node if node.op_type == "QuantizeLinear"][-1]
    (tensor,) = (tensor for tensor in model.graph.initializer if tensor.name == last.input[1])
    return float(onnx.numpy_helper.to_array(tensor))


@pytest.mark.parametrize("kind", ["conv", "groups", "dense"])
@pytest.mark.parametrize("zero", [0, 119, 128, 255])
def test_uint8_weights_that_int8_cannot_hold_have_parts(kind: str, zero: int) -> None:
    layer = Kind("uint8", "uint8", "uint8", x_zero=100, y_zero=90, w_zero=zero)
    model = dense(layer, 3, 8, 8) if kind == "dense" else conv(layer, 8, 8, groups=8 if kind == "groups" else 1)
    imported = check(model, "multiply")
    assert host_composites(imported) == []
    assert list(imported.macs.values()) == [
        3 * 8 * 8 if kind == "dense" else 36 * 8 * 9 * (1 if kind == "groups" else 8)
    ]
    repeats = [cause for cause in imported.causes.values() if "come again" in cause]
    assert len(repeats) == (zero != 128)
