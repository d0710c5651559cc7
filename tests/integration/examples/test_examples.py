import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from examples.conv224 import conv224
from examples.resnet8 import resnet8
from examples.single import Conv, Dense, conv_model, dense_model
from tests.reference import dyadic
from tests.reference.host import draw_inputs, run_onnx

LAYERS = [
    Conv(3, 16, 32, 32),
    Conv(16, 16, 56, 56),
    Conv(64, 64, 14, 14),
    Conv(130, 33, 9, 9, kernel=(1, 1), pads=(0, 0, 0, 0)),
    Conv(1, 24, 20, 20, kernel=(7, 7), pads=(3, 3, 3, 3), strides=(2, 2)),
    Conv(24, 24, 20, 20, groups=24),
    Dense(8, 256, 100),
    Dense(60, 3, 40, bias=False),
]


def check_lively(model: onnx.ModelProto, seed: int) -> None:
    result = dyadic.run(model, draw_inputs(model, seed))["y"]
    assert len(np.unique(result)) >= 32
    assert np.isin(result, (-128, -127, 127)).mean() < 0.05


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("layer", LAYERS)
def test_single_layers_are_lively(layer: Conv | Dense, seed: int) -> None:
    model = conv_model(layer, seed) if isinstance(layer, Conv) else dense_model(layer, seed)
    check_lively(model, seed + 10)


@pytest.mark.slow
def test_conv224_is_lively() -> None:
    check_lively(conv224(), 0)


@pytest.mark.slow
def test_resnet8_is_seeded_and_depends_on_the_image() -> None:
    assert resnet8(3).SerializeToString() == resnet8(3).SerializeToString()
    assert resnet8(3).SerializeToString() != resnet8(4).SerializeToString()
    one, two = (run_onnx(resnet8(), draw_inputs(resnet8(), seed))[0] for seed in (0, 1))
    assert np.abs(one - two).max() > 1e-3


@pytest.mark.parametrize("name", ["resnet8", "conv224"])
def test_generators_run_from_the_command_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    subprocess.run([sys.executable, "-m", f"examples.{name}", str(path)], check=True)
    onnx.checker.check_model(onnx.load(path), full_check=True)
