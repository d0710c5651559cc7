"""Loads of several blocks of channels of a row: layers whose channels are no multiple of what a load takes."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.isa.gemmini.document.gemmini_document import gemmini_accelerator
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.program.program_model import Launch
from accel.program_files.open_program import open_program
from examples.single import Conv, Dense, conv_model, dense_model
from tests.integration.accel.lowering.partition.test_residual import block

MVIN, DIM = 2, 16
MODELS = {
    "5 blocks to 3": (conv_model(Conv(80, 40, 6, 7)), {1, 4}),
    "3 blocks to 6": (conv_model(Conv(48, 96, 5, 5, kernel=(1, 1), pads=(0, 0, 0, 0))), {2, 3, 4}),
    "a matrix": (dense_model(Dense(9, 112, 50)), {3, 4}),
    "an addition of one block": (block((1, 16, 6, 8), 3), {4}),
    "an addition of columns that are odd": (block((1, 16, 6, 7), 3), {1}),
}


def loaded(out: Path) -> set[int]:
    """Blocks that the loads of a program take."""
    words = np.asarray(open_program(out / "program.zip").words)
    columns = words[words[:, 0] == MVIN, 2] >> np.uint64(32) & np.uint64(0xFFFF)
    return {int(each) // DIM for each in columns}


@pytest.mark.parametrize("name", MODELS)
def test_loads_take_the_blocks_that_there_are(name: str, tmp_path: Path) -> None:
    """Catches a layout that host, constants and copies do not share, and a rest of blocks that is loaded whole."""
    model, blocks = MODELS[name]
    report = run_model(model.SerializeToString(), load_accelerator("gemmini"), Options(trace=False), tmp_path)
    assert report.verified
    assert blocks & loaded(tmp_path), loaded(tmp_path)
    assert max(loaded(tmp_path)) <= 4


@pytest.mark.slow
@pytest.mark.parametrize("nbytes", [16, 32, 128])
def test_so_they_do_with_longer_and_shorter_rows(nbytes: int, tmp_path: Path) -> None:
    """Where a row is one block channels lie block by block, and no load has more."""
    accelerator = gemmini_accelerator(GemminiParameters(dma_max_bytes=nbytes))
    for number, (model, _) in enumerate(MODELS.values()):
        out = tmp_path / str(number)
        out.mkdir()
        report = run_model(model.SerializeToString(), accelerator, Options(trace=False), out)
        assert report.verified
        assert max(loaded(out)) <= nbytes // DIM


def test_results_lie_as_they_are_read(tmp_path: Path) -> None:
    """Between two layers no host lays out anything: the first stores blocks side by side as the second loads them."""
    first, second = conv_model(Conv(32, 48, 6, 6)), conv_model(Conv(48, 32, 6, 6))
    model = onnx.compose.merge_models(
        first, second, io_map=[(first.graph.output[0].name, second.graph.input[0].name)], prefix1="a", prefix2="b"
    )
    report = run_model(model.SerializeToString(), load_accelerator("gemmini"), Options(trace=False), tmp_path)
    assert report.verified
    steps = [isinstance(step, Launch) for step in open_program(tmp_path / "program.zip").steps]
    assert steps.count(True) == 2
    assert steps.index(True) + 1 == len(steps) - 1 - steps[::-1].index(True)
