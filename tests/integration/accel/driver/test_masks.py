"""Masks of a model's integer inputs on a machine with a vector unit."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from tests.reference.host import run_onnx

ROWS = 24


def masked_attention(least: float) -> onnx.ModelProto:
    """Scores of [1, 2, 24, 24] that a padding mask int64 [1, 24] and a causal one hide, as exporters write it."""
    constants = {
        "w": 0.1 * np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32),
        "heads": np.array([1, ROWS, 2, 32]),
        "four": np.array([1, 1, 1, ROWS]),
        "every": np.arange(ROWS).reshape(1, 1, 1, ROWS),
        "causal": np.tril(np.ones((1, 1, ROWS, ROWS), bool)),
        "zero": np.float32(0),
        "least": np.float32(least),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "project"),
        helper.make_node("Reshape", ["a", "heads"], ["b"], "heads"),
        helper.make_node("Transpose", ["b"], ["q"], "queries", perm=[0, 2, 1, 3]),
        helper.make_node("Transpose", ["b"], ["k"], "keys", perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["q", "k"], ["scores"], "scores"),
        helper.make_node("Cast", ["mask"], ["there"], "there", to=TensorProto.BOOL),
        helper.make_node("Flatten", ["there"], ["flat"], "flat", axis=2),
        helper.make_node("Gather", ["flat", "every"], ["gathered"], "gathered", axis=0),
        helper.make_node("Reshape", ["gathered", "four"], ["row"], "row"),
        helper.make_node("And", ["causal", "row"], ["seen"], "seen"),
        helper.make_node("Where", ["seen", "zero", "least"], ["bias"], "bias"),
        helper.make_node("Add", ["scores", "bias"], ["hidden"], "hidden"),
        helper.make_node("Softmax", ["hidden"], ["y"], "softmax", axis=-1),
    ]
    given = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, ROWS, 32]),
        helper.make_tensor_value_info("mask", TensorProto.INT64, [1, ROWS]),
    ]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, ROWS, ROWS])
    values = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "masked", given, [result], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("least", [-float("inf"), float(np.finfo(np.float32).min), -1e4])
def test_the_host_does_no_more_than_read_the_mask(least: float, tmp_path: Path) -> None:
    """Catches logic and movement of bools that stay with the host, and bounds that hide what is to be seen."""
    model, draws = masked_attention(least), np.random.default_rng(1)
    mask = np.ones((1, ROWS), np.int64)
    mask[:, ROWS - 5 :] = 0
    fed = {"x": draws.standard_normal((1, ROWS, 32)).astype(np.float32), "mask": mask}
    report = run_model(
        model.SerializeToString(), load_accelerator("npu"), Options(trace=False, schedule="quick"), tmp_path, inputs=fed
    )
    assert report.verified
    assert {each.node for each in report.host_ops} <= {"there", "x_quantized"}
    (expected,) = run_onnx(model, fed)
    with np.load(tmp_path / "outputs.npz") as found:
        assert ((found["y"] == 0) == (expected == 0)).all()
        assert np.abs(found["y"] - expected).max() < 0.2
