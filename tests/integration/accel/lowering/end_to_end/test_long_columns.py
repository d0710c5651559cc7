"""Products of activations over long sums on a machine that computes with floats: what a zero point adds to a column."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from examples.graph import Graph
from tests.helpers.marking import rest_slow

TERMS = 1500


def context(zero_point: int) -> onnx.ModelProto:
    """Attention's context over many keys: shares whose integers begin at -128, and a result with a zero point."""
    graph = Graph("context")
    shares, values = (
        graph.dequantize(graph.input(name, shape, onnx.TensorProto.INT8), scale, np.array(point, np.int8))
        for name, shape, scale, point in (
            ("shares", (1, 16, TERMS), 1 / 256, -128),
            ("values", (1, TERMS, 32), 0.02, 0),
        )
    )
    mixed = graph.node("MatMul", "mixed", [shares, values])
    graph.quantize(mixed, 0.9, np.array(zero_point, np.int8), "y")
    graph.output("y", (1, 16, 32), onnx.TensorProto.INT8)
    return graph.model()


@pytest.mark.parametrize("zero_point", rest_slow([-3, 0, 1, 77]))
def test_what_a_zero_point_adds_to_long_columns_is_summed_up_by_programs(zero_point: int, tmp_path: Path) -> None:
    """It would catch sums of 1,500 integers times 128, and what joins them, that the host adds up: over 2^24 in all."""
    random = np.random.default_rng(0)
    inputs = {
        "shares": random.integers(-128, 128, (1, 16, TERMS)).astype(np.int8),
        "values": random.integers(-128, 128, (1, TERMS, 32)).astype(np.int8),
    }
    npu, data = load_accelerator("npu"), context(zero_point).SerializeToString()
    report = run_model(data, npu, Options(trace=False), tmp_path, inputs=inputs)
    assert report.verified is True
    assert not report.host_ops
    with np.load(tmp_path / "outputs.npz") as outputs:
        found = outputs["y"].astype(np.int64)
    exact = ((inputs["shares"].astype(np.int64) + 128) @ inputs["values"].astype(np.int64)) / 256 * 0.02 / 0.9
    assert np.abs(found - np.clip(exact + zero_point, -128, 127)).max() <= 0.5 + 0.02
