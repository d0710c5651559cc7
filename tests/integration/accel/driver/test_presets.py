"""The same networks on machines that differ in kind, through the same front end and the same passes."""

from itertools import cycle
from pathlib import Path

import numpy as np
import onnx
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.report.documents.report_documents import Report
from examples.autoencoder import autoencoder
from examples.resnet8 import resnet8
from examples.single import Conv, Dense, conv_model, dense_model
from tests.helpers.marking import others_all, rest_slow, rotated

PRESETS = ("vta", "gemmini", "mvin-mvout", "output-stationary", "vector")
LAYERS = {
    "3x3": conv_model(Conv(20, 24, 9, 7)),
    "strided": conv_model(Conv(40, 24, 17, 9, kernel=(5, 3), strides=(2, 2), relu=True)),
    "pointwise": conv_model(Conv(33, 17, 6, 10, kernel=(1, 1), pads=(0, 0, 0, 0), bias=False)),
    "dilated": conv_model(Conv(8, 8, 14, 14, dilations=(2, 3), pads=(2, 1, 0, 3))),
    "batched": conv_model(Conv(3, 5, 8, 8, batch=3, limit=100)),
    "depthwise": conv_model(Conv(40, 40, 8, 8, groups=40)),
    "depthwise, doubled": conv_model(Conv(24, 48, 9, 8, groups=24, kernel=(2, 3), strides=(2, 1))),
    "grouped": conv_model(Conv(64, 128, 7, 7, groups=4)),
    "small groups": conv_model(Conv(35, 21, 5, 6, groups=7)),
    "large groups": conv_model(Conv(160, 96, 4, 4, groups=2, kernel=(1, 1), pads=(0, 0, 0, 0))),
    "dense": dense_model(Dense(5, 70, 33)),
    "one row": dense_model(Dense(1, 100, 10, relu=True)),
}


def run(model: onnx.ModelProto, preset: str, out: Path) -> Report:
    report = run_model(model.SerializeToString(), load_accelerator(preset), Options(trace=False), out)
    assert report.verified is True
    return report


@pytest.mark.parametrize(("layer", "preset"), rotated(LAYERS, PRESETS))
def test_layers_of_every_kind(layer: str, preset: str, tmp_path: Path) -> None:
    check_layer(layer, preset, tmp_path)


@pytest.mark.slow
@pytest.mark.all
@pytest.mark.parametrize(("layer", "preset"), list(zip(LAYERS, cycle(PRESETS[2:] + PRESETS[:2]))))
def test_layers_of_every_kind_on_one_more(layer: str, preset: str, tmp_path: Path) -> None:
    check_layer(layer, preset, tmp_path)


def check_layer(layer: str, preset: str, tmp_path: Path) -> None:
    report = run(LAYERS[layer], preset, tmp_path)
    assert report.macs.share == 1.0
    assert all(entry.cycles >= entry.lower_bound > 0 for entry in report.layers)


# on vta it is the network of test_run.py
@pytest.mark.slow
@pytest.mark.parametrize("preset", others_all(PRESETS, ["gemmini", "mvin-mvout"]))  # the others' are run elsewhere
def test_resnet8(preset: str, tmp_path: Path) -> None:
    report = run(resnet8(), preset, tmp_path)
    assert report.macs.accelerator == 12_501_632  # all of them
    assert all(quality.cosine > 0.9 for quality in report.quantisation)
    if preset in ("gemmini", "output-stationary"):  # their scales are free
        assert all(quality.sqnr_db > 25 for quality in report.quantisation)


@pytest.mark.parametrize("preset", rest_slow(PRESETS))
def test_an_autoencoder(preset: str, tmp_path: Path) -> None:
    report = run(autoencoder(), preset, tmp_path)
    assert report.macs.share == 1.0
    assert np.isfinite([layer.utilisation for layer in report.layers]).all()


def test_the_machine_without_an_alu_leaves_the_rest_to_the_host(tmp_path: Path) -> None:
    report = run(LAYERS["3x3"], "mvin-mvout", tmp_path)
    (op,) = [op for op in report.host_ops if op.node == "conv"]
    assert op.reason == "mvin/mvout, 4x4x8 has no store that narrows its accumulators to int8"


def test_its_scratchpads_are_addresses_and_never_host_memory(tmp_path: Path) -> None:
    run(LAYERS["3x3"], "mvin-mvout", tmp_path)
    texts = {path.stem: path.read_text() for path in sorted((tmp_path / "tir").glob("*.txt"))}
    before = next(text for name, text in texts.items() if name.endswith("flatten"))
    after = next(text for name, text in texts.items() if name.endswith("allocate"))
    assert '"pragma_mvin"' in before
    assert "local.a" in before
    assert '"mvin_a", "tile",' in after
    assert "alloc" not in after
    assert 'scope="local' not in after
