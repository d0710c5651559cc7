"""Layers whose results are clipped within int8 where the machine's stores clip to all of it."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.report.documents.report_documents import Report
from examples.single import Conv, conv_model
from tests.reference.host import run_onnx

QUICK = Options(trace=False, schedule="quick")


def ran(model: onnx.ModelProto, preset: str, out: Path) -> Report:
    report = run_model(model.SerializeToString(), load_accelerator(preset), QUICK, out)
    assert report.verified
    return report


def two_layers(bounds: tuple[float, float], kind: str) -> onnx.ModelProto:
    """Two layers of float weights with a Clip between them, whose bounds calibration finds a scale for."""
    random, image = np.random.default_rng(0), [1, 32, 6, 6]
    shape = (32, 32, 1, 1) if kind == "Conv" else (32, 32)
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), f"w{number}") for number in (0, 1)
    ]
    limits = [numpy_helper.from_array(np.float32(each), f"limit{number}") for number, each in enumerate(bounds)]
    nodes = [
        helper.make_node(kind, ["x", "w0"], ["a"], "first"),
        helper.make_node("Clip", ["a", "limit0", "limit1"], ["b"], "between"),
        helper.make_node(kind, ["b", "w1"], ["y"], "second"),
    ]
    whole = image if kind == "Conv" else [40, 32]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, whole) for name in "xy"]
    graph = helper.make_graph(nodes, "clipped", ends[:1], ends[1:], weights + limits)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("preset", ["npu", "gemmini", "output-stationary"])
@pytest.mark.parametrize("limit", [1, 50])
def test_a_clip_of_its_own_gives_the_same_integers(preset: str, limit: int, tmp_path: Path) -> None:
    """Against onnxruntime: catches bounds that are lost or applied to what is not rounded yet."""
    model = conv_model(Conv(32, 40, 9, 9, limit=limit, relu=limit == 1))
    ran(model, preset, tmp_path)
    with np.load(tmp_path / "inputs.npz") as given, np.load(tmp_path / "outputs.npz") as found:
        (expected,) = run_onnx(model, dict(given))
        assert np.abs(expected).max() == limit
        assert (found["y"] == expected).all()


@pytest.mark.parametrize("kind", ["Conv", "MatMul"])
@pytest.mark.parametrize("bounds", [(-0.3, 5.0), (-9.0, 4.0), (0.0, 2.0)])
def test_no_host_is_between_two_layers_that_a_vector_unit_can_clip(
    kind: str, bounds: tuple[float, float], tmp_path: Path
) -> None:
    """Catches sums of int32 that the host brings to int8 because its bounds are none of a store's."""
    assert ran(two_layers(bounds, kind), "npu", tmp_path).host_ops == []


def test_without_a_vector_unit_the_host_clips_int8_alone(tmp_path: Path) -> None:
    """Catches sums that leave as int32, four times the bytes, for the host to requantise."""
    report = ran(two_layers((-0.3, 5.0), "Conv"), "gemmini", tmp_path)
    assert "between" in {each.node for each in report.host_ops}
    assert "first" not in {each.node for each in report.host_ops}
