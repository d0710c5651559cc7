"""Equalised channels: the network computes what it did, and int8 keeps more of it."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.numpy_helper import to_array

from accel.frontend.onnx_model.channel_factors import channel_factors
from accel.frontend.quantize.channel_equalisation import ChannelEqualisation
from accel.frontend.quantize.quantize_model import quantize_model
from accel.frontend.quantize.sample_runs import count_values
from examples.graph import Graph
from tests.reference.host import Array

_SHAPE = (1, 8, 12, 12)
_SPREAD = np.geomspace(0.03, 1, 16).astype(np.float32)  # how large the channels between two layers are


def _network(between: str, *, groups: int = 1) -> onnx.ModelProto:
    """Two layers; ``between``: what keeps factors, or does not."""
    graph, random = Graph("between"), np.random.default_rng(3)
    x = graph.input("x", _SHAPE)
    weight = random.normal(0, 0.3, (16, 8, 3, 3)).astype(np.float32) * _SPREAD.reshape(-1, 1, 1, 1)
    bias = random.normal(0, 0.3, 16).astype(np.float32) * _SPREAD
    x = graph.node("Conv", "first", [x, graph.constant("w1", weight), graph.constant("b1", bias)], pads=[1] * 4)
    if between == "Clip":
        bounds = [graph.constant(name, np.float32(value)) for name, value in (("low", 0), ("high", 0.9))]
        x = graph.node("Clip", "mid", [x, *bounds])
    elif between == "MaxPool":
        x = graph.node("MaxPool", "mid", [graph.node("Relu", "relu", [x])], kernel_shape=[3, 3], pads=[1] * 4)
    elif between:
        x = graph.node(between, "mid", [x])
    weight = random.normal(0, 0.2, (16, 16 // groups, 3, 3)).astype(np.float32)
    y = graph.node("Conv", "second", [x, graph.constant("w2", weight)], pads=[1] * 4, group=groups)
    graph.output(y, (1, 16, 12, 12))
    return graph.model()


def _samples(count: int = 4) -> list[dict[str, Array]]:
    random = np.random.default_rng(5)
    return [{"x": random.standard_normal(_SHAPE).astype(np.float32)} for _ in range(count)]


def _run(model: onnx.ModelProto, samples: list[dict[str, Array]]) -> Array:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.stack([session.run(None, sample)[0] for sample in samples])


def _equalised(model: onnx.ModelProto) -> onnx.ModelProto:
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    equalisation = ChannelEqualisation(changed, len(_samples()))
    count_values(changed, list(equalisation.axes), _samples(), equalisation.add)
    equalisation.apply()
    return changed


@pytest.mark.parametrize("groups", [1, 4, 16])
@pytest.mark.parametrize("between", ["Relu", "LeakyRelu", "Clip", "MaxPool", ""])
def test_computes_what_it_did(between: str, groups: int) -> None:
    """It would catch a factor that is not taken back, or by another channel, and clips that clip others than before."""
    model = _network(between, groups=groups)
    changed = _equalised(model)
    factors = channel_factors(changed)
    assert factors
    assert all(np.ptp(each) > 0.1 for each in factors.values())
    np.testing.assert_allclose(_run(changed, _samples()), _run(model, _samples()), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("between", ["Sigmoid", "HardSwish", "Tanh"])
def test_leaves_what_keeps_no_factors(between: str) -> None:
    assert not channel_factors(_equalised(_network(between)))


def test_leaves_what_others_read() -> None:
    """It would catch a factor that gets into an output, or into an operator that does not take it back."""
    model = _network("Relu")
    model.graph.output.append(onnx.helper.make_tensor_value_info("mid", onnx.TensorProto.FLOAT, (1, 16, 12, 12)))
    assert not channel_factors(_equalised(model))


def _decibels(found: Array, expected: Array) -> float:
    return float(10 * np.log10(np.square(expected, dtype=np.float64).sum() / np.square(found - expected).sum()))


def test_int8_keeps_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would catch factors that are of no use."""
    model, given = _network("Relu"), {"x": np.stack([sample["x"] for sample in _samples()])}
    expected = _run(model, _samples())
    equal = _decibels(_run(quantize_model(model, given), _samples()), expected)
    monkeypatch.setattr(ChannelEqualisation, "apply", lambda _: {})
    usual = _decibels(_run(quantize_model(model, given), _samples()), expected)
    assert equal > usual + 2


@pytest.mark.parametrize(("between", "groups"), [("Relu", 1), ("Clip", 4), ("MaxPool", 16)])
def test_samples_that_are_run_once_tell_what_they_tell_run_again(
    between: str, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would catch tensors that are observed without their factors, or with those of other channels."""
    model, given = _network(between, groups=groups), {"x": np.stack([sample["x"] for sample in _samples(3)])}
    once = quantize_model(model, given)
    monkeypatch.setattr("accel.frontend.quantize.quantize_model._MOST_WAITING", 0)
    again = quantize_model(model, given)
    assert channel_factors(again)
    assert list(once.graph.node) == list(again.graph.node)
    for one, other in zip(once.graph.initializer, again.graph.initializer, strict=True):
        if one.data_type == onnx.TensorProto.FLOAT or one.name.endswith("zero_point"):
            assert one == other
        else:  # what lies between two integers may be rounded otherwise, and steps of biases are narrow
            off = np.abs(to_array(one).astype(np.int64) - to_array(other))
            assert off.max(initial=0) <= 1
            assert off.mean() < 0.01 or to_array(one).dtype == np.int32
