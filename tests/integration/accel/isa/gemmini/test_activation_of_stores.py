"""The activation that each store of a program finds, by the RTL's registers and by libgemmini's.

A config_st without an activation leaves softmax in libgemmini, and clears all three bits in the RTL
(``StoreController.scala``); the highest one is config_norm's, which libgemmini only sets.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from accel.catalog.derive_accelerator import derive_accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.program_files.open_program import open_program
from examples.networks import build


def _activations(words: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Of each mvout its command, and the activation in the RTL and in libgemmini."""
    rtl = library = 0
    for funct, rs1, rs2 in words.tolist():
        if funct == rocc.CONFIG and rs1 & 3 == rocc.CONFIG_ST:
            given = rs1 >> 2 & 3
            rtl, library = given, given or (rocc.SOFTMAX if library == rocc.SOFTMAX else 0)
        elif funct == rocc.CONFIG and rs1 & 3 == rocc.CONFIG_NORM and not rs1 >> 17 & 1:
            high = (rs1 >> 16 & 1) << 2
            rtl, library = high | rtl & 3, high | library
        elif funct == rocc.MVOUT:
            yield rs2 >> 26 & 7 if rs2 & rocc.ACCUMULATOR else rocc.RESET, rtl, library


@pytest.mark.parametrize("name", ["gemmini", "gemmini-lean"])
def test_both_find_the_same(name: str, tmp_path: Path) -> None:
    """A layer behind a softmax that has its activation still, in one of the two; one that has another's."""
    accelerator = derive_accelerator(load_accelerator(name), {"normalizations": True}, "normalising")
    model = build("bert_tiny", 0).SerializeToString()
    report = run_model(model, accelerator, Options(trace=False), tmp_path)
    assert report.verified
    assert not report.warnings
    assert {"softmax", "layer_norm", "elementwise"} <= {layer.op for layer in report.layers}
    program = open_program(tmp_path / "program.zip")
    found = list(_activations(program.words))
    assert all(rtl == library for command, rtl, library in found if command == rocc.RESET)
    stored = {rtl for command, rtl, _ in found if command == rocc.RESET}
    assert {rocc.NONE, rocc.IGELU, rocc.LAYERNORM, rocc.SOFTMAX} <= stored
    assert {command for command, *_ in found} == set(range(8))
