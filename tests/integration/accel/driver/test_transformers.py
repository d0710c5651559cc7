"""Transformers on machines of every kind: every multiply-accumulate of attention runs on the accelerator, verified.

Each network comes written out, as torch exports it, and with ONNX's own operators of opset 24.
"""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import onnx
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from examples.networks import build
from examples.transformers.decoders import gpt2_block, llama_block
from examples.transformers.encoders import bert, vit, whisper_encoder
from examples.transformers.images import convnext, mlp_mixer, mobilevit
from tests.helpers.marking import others_all

PRESETS = ("vta", "gemmini", "mvin-mvout", "output-stationary", "vector")
SMALL: dict[str, Callable[..., onnx.ModelProto]] = {
    "bert": lambda opset: bert(opset=opset, layers=1, width=32, heads=2, tokens=12),
    "vit": lambda opset: vit(opset=opset, layers=1, width=48, heads=2, image=48),
    "whisper": lambda opset: whisper_encoder(opset=opset, layers=1, width=32, heads=2, frames=22),
    "gpt2": lambda opset: gpt2_block(opset=opset, width=48, heads=4, tokens=9),
    "llama": lambda opset: llama_block(opset=opset, width=64, heads=4, groups=2, tokens=9),
    "llama, one token": lambda opset: llama_block(opset=opset, width=64, heads=4, groups=1, tokens=1, past=7),
    "llama, more tokens": lambda opset: llama_block(opset=opset, width=64, heads=4, groups=2, tokens=3, past=5),
    "convnext": lambda opset: convnext(opset=opset, depths=(1, 1), widths=(16, 32), image=32),
    "mixer": lambda opset: mlp_mixer(opset=opset, layers=1, width=32, image=32, patch=8),
}
OPSETS = (17, 24)
# each of them on one preset, as one opset has it
OFTEN = [((name, OPSETS[at % 2]), PRESETS[at % len(PRESETS)]) for at, name in enumerate(SMALL)]
VECTOR_OFTEN = [("llama", 17)]  # of nine that take half a minute each on a vector unit
LEAST = 20.0  # dB: of an int8 network whose scales are the calibration's; a wrong head or mask leaves below 10


def check(model: onnx.ModelProto, preset: str, out: Path) -> None:
    report = run_model(model.SerializeToString(), load_accelerator(preset), Options(trace=False), out)
    assert report.verified is True
    assert report.macs.share == 1.0, [host for host in report.host_ops if host.macs]
    assert report.quantisation
    assert all(figure.sqnr_db is None or figure.sqnr_db > LEAST for figure in report.quantisation)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "preset"), others_all(product(product(SMALL, OPSETS), PRESETS), OFTEN))
def test_every_product_of_a_transformer(case: tuple[str, int], preset: str, tmp_path: Path) -> None:
    name, opset = case
    check(SMALL[name](opset), preset, tmp_path)


# what moves elements, converts them at a border or looks them up, and layers whose data or result the host lays out
MOVES = {"Cast", "Concat", "Expand", "Gather", "Pad", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"}
LAID_OUT = {"Attention", "Conv", "Gemm", "MatMul", "RotaryEmbedding"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "opset"), others_all(((name, OPSETS[at % 2]) for at, name in enumerate(SMALL)), VECTOR_OFTEN)
)
def test_a_vector_unit_leaves_movement_to_the_host(name: str, opset: int, tmp_path: Path) -> None:
    """It would catch an operator that is no longer covered, and a result that ONNX's evaluator finds elsewhere."""
    model = SMALL[name](opset)
    report = run_model(model.SerializeToString(), load_accelerator("npu"), Options(trace=False), tmp_path)
    assert report.verified is True
    assert report.macs.share == 1.0
    left = [node for node in report.host_ops if not node.reason.startswith("the host has a part of it")]
    assert {node.op for node in left} <= MOVES | LAID_OUT, left
    assert report.floats
    assert all(found.independent for found in report.floats)


@pytest.mark.all
@pytest.mark.parametrize("preset", PRESETS)
def test_a_network_of_convolutions_and_attention(preset: str, tmp_path: Path) -> None:
    check(mobilevit(image=64), preset, tmp_path)


@pytest.mark.all
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", ["bert_tiny", "gpt2_block", "llama_block", "llama_decode"])
def test_blocks_at_their_size(name: str, preset: str, tmp_path: Path) -> None:
    check(build(name), preset, tmp_path)
