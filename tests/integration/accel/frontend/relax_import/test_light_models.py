"""Whole networks of Caffe's time, opset 9: they import, and compute on the host what they do in onnxruntime."""

import numpy as np
import pytest

from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.read.load_model import load_model
from accel.frontend.read.model_inspection import inspect_model
from accel.verify.output_comparison import reference_outputs
from tests.helpers.models.light_models import LIGHT, light_model
from tests.reference.host import draw_inputs, run_onnx

# their operators are those of test_habits.py
MARKS = {
    "squeezenet": [pytest.mark.all],
    **{name: [pytest.mark.slow, pytest.mark.all] for name in ("bvlc_alexnet", "resnet50", "zfnet512")},
    **{name: [pytest.mark.long] for name in ("vgg19", "densenet121")},
}
NAMES = [pytest.param(name, marks=MARKS.get(name, [pytest.mark.slow])) for name in LIGHT]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", NAMES)
def test_a_network_computes_what_onnxruntime_does(name: str) -> None:
    model = light_model(name)
    data = model.SerializeToString()
    info, inputs = inspect_model(data), draw_inputs(model)
    loaded = load_model(data).model
    assert [tensor.name for tensor in info.inputs] == list(inputs)
    assert {node.name for node in loaded.graph.node} >= {node.name for node in model.graph.node if node.name}
    (result,) = reference_outputs(import_integer_model(loaded), list(inputs.values()))
    (expected,) = run_onnx(model, inputs)
    assert result.shape == expected.shape == info.outputs[0].shape
    scale = float(np.abs(expected).max())
    assert scale > 1e-3
    np.testing.assert_allclose(result, expected, atol=1e-4 * scale)
