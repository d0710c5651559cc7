"""The arithmetic of a run, on the accelerator and on the host."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from examples.networks import build


def test_a_layer_and_what_the_host_does_by_hand(tmp_path: Path) -> None:
    """It would catch arithmetic that is counted twice, or by nobody, where a layer goes over to the host."""
    x, y = (helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", (1, 16, 8, 8)), ("y", (1, 16, 64))))
    weight = np.random.default_rng(0).normal(size=(16, 16, 3, 3)).astype(np.float32)
    constants = {"w": weight, "b": np.ones(16, np.float32), "s": np.array([1, 16, 64])}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Reshape", ["c", "s"], ["r"], name="reshape"),
        helper.make_node("Softmax", ["r"], ["y"], name="softmax"),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(v, k) for k, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    report = run_model(model.SerializeToString(), load_accelerator("vta"), Options(trace=False), tmp_path)
    found = report.arithmetic
    assert found is not None
    assert found.accelerator == 2 * report.macs.total + 1024 * 2  # a bias, and a requantisation
    # x is quantised; the result is dequantised, and a softmax takes five of each element
    assert found.host == 1024 + 1024 + 5 * 1024
    assert (found.total, found.share) == (found.accelerator + found.host, found.accelerator / found.total)


@pytest.mark.slow
def test_a_transformer_on_a_vector_unit(tmp_path: Path) -> None:
    """It would catch arithmetic of BERT, or steps between launches, that go back to the host; and slower programs."""
    options = Options(trace=False, schedule="quick")
    report = run_model(build("bert_tiny").SerializeToString(), load_accelerator("npu"), options, tmp_path)
    assert report.verified is True
    assert report.arithmetic is not None
    assert report.macs.share == 1.0
    assert report.arithmetic.host == 0
    assert report.program.host_steps == 1  # the embedding's gather, and the mask, an input of int64
    assert report.cycles <= 1.01 * 191_178
