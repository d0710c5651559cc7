"""Calibration on values near the largest float32 takes no more memory than on any others."""

import tracemalloc

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from accel.frontend.quantize.scale_grid import GRIDS, Scales
from tests.helpers.models.calibrated import losses_of


def identity() -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1000]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "huge", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("scales", ["power of two", "free"])
@pytest.mark.parametrize("largest", [3e38, 1e30, 1e18])
def test_the_histogram_of_huge_values_is_as_small_as_any_and_prefers_a_wide_scale(
    largest: float, scales: Scales
) -> None:
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    samples = [{"x": values}, {"x": np.where(np.arange(1000) % 7, values, -np.float32(largest))}]
    tracemalloc.start()
    loss = losses_of(identity(), {"x": GRIDS[scales]}, samples)["x"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 << 20  # bins up to 3e38 as narrow as the widest scale wants took 19 GB
    best = min(loss.errors, key=loss.errors.__getitem__)
    assert best >= GRIDS[scales].top(largest)  # nothing of the largest is clipped but what no scale holds
    assert np.isfinite([loss.energy, *loss.errors.values()]).all()
