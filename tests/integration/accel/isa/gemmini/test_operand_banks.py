"""Operands of a product lie in different banks of the scratchpad: read from the words of compiled programs."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.program_files.open_program import open_program
from examples.networks import build
from examples.single import Conv, Dense, conv_model, dense_model

PRELOAD, COMPUTES, NOWHERE = 6, (4, 5), 0xFFFFFFFF
MODELS = {
    "3x3": conv_model(Conv(32, 48, 12, 10)),
    "pointwise": conv_model(Conv(64, 64, 9, 9, kernel=(1, 1), pads=(0, 0, 0, 0))),
    "depthwise": conv_model(Conv(40, 40, 8, 8, groups=40)),
    "dense": dense_model(Dense(7, 100, 70)),
    "attention": build("attention"),
}


def pairs(words: np.ndarray) -> list[tuple[int, int]]:
    """Rows of the scratchpad where the operands of each product begin: what the mesh holds, what goes through it."""
    found, held = [], NOWHERE
    for function, first, _ in words.tolist():
        if function == PRELOAD:
            below = first & NOWHERE
            held = held if below == NOWHERE else below
        elif function in COMPUTES and first & NOWHERE != NOWHERE:
            found.append((held, first & NOWHERE))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_operands_of_a_product_are_in_different_banks(name: str, tmp_path: Path) -> None:
    """A bank has one port: of two operands in one bank each row waits for the other's."""
    check(MODELS[name], "gemmini", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["gemmini-8", "gemmini-32"])
def test_so_they_are_in_other_designs(preset: str, tmp_path: Path) -> None:
    check(MODELS["3x3"], preset, tmp_path)


def check(model: onnx.ModelProto, preset: str, out: Path) -> None:
    accelerator = load_accelerator(preset)
    memory = accelerator.memories[0]
    bank = memory.depth // memory.banks
    report = run_model(model.SerializeToString(), accelerator, Options(trace=False), out)
    assert report.verified
    found = pairs(np.asarray(open_program(out / "program.zip").words))
    assert len(found) > 3
    assert all(held // bank != through // bank for held, through in found)
