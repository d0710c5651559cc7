"""Recurrent layers from model to report: verified, their products on the accelerator, one node in graph and report."""

import json
from pathlib import Path
from typing import Any

import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from tests.helpers.marking import rest_all
from tests.helpers.models.recurrent import recurrent_model

SIZES = {"batch": 1, "inputs": 16, "hidden": 16}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("LSTM", {"steps": 4, **SIZES}),
    "gru": ("GRU", {"steps": 3, "batch": 2, "inputs": 8, "hidden": 16, "direction": "bidirectional",
                    "lengths": [2, 3], "states": True, "linear_before_reset": 1}),
    "rnn": ("RNN", {"steps": 3, "layout": 1, **SIZES}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("case", "preset"), rest_all([("rnn", "vta-8"), ("lstm", "vta"), ("gru", "gemmini")], keep=2))
def test_it_verifies_with_its_products_on_the_accelerator(case: str, preset: str, tmp_path: Path) -> None:
    op, options = CASES[case]
    model = recurrent_model(op, **options)
    report = run_model(model.SerializeToString(), load_accelerator(preset), Options(trace=False), tmp_path)
    assert report.verified
    # the first step's product with a state of zeros is none
    assert report.macs.share >= 1 - 1 / options["steps"]
    assert {node for layer in report.layers for node in layer.nodes} == {"cell"}
    assert [(op.node, op.op) for op in report.host_ops if op.node.startswith("cell")] == [("cell", op)]
    graph = json.loads((tmp_path / "graph.json").read_text())
    assert [(node["name"], node["op"]) for node in graph["nodes"]] == [("cell", op)]
    for quality in report.quantisation:
        assert quality.cosine > 0.995


@pytest.mark.slow
def test_bounds_begin_at_what_a_program_reads(tmp_path: Path) -> None:
    """It would catch a check that goes on from what onnxruntime rounded between: its tanh is an ulp beside this one."""
    model = recurrent_model("LSTM", steps=2, batch=1, inputs=32, hidden=64)
    report = run_model(model.SerializeToString(), load_accelerator("npu"), Options(trace=False), tmp_path)
    assert report.verified
    assert all(found.independent for found in report.floats)
