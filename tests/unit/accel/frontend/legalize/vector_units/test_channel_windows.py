"""Sums over windows of channels, against onnxruntime's own."""

import numpy as np
import onnx
import pytest

from accel.frontend.legalize.vector_units.channel_windows import with_channel_windows
from examples.graph import Graph
from tests.reference.host import run_onnx


def norm(shape: tuple[int, ...], **attributes: float) -> onnx.ModelProto:
    graph = Graph("lrn")
    graph.output(graph.node("LRN", "lrn", [graph.input("x", shape)], **attributes), shape)
    return graph.model()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("shape", [(1, 6, 3, 4), (2, 3, 5, 1)])
def test_sums_of_slices_are_its_windows(shape: tuple[int, ...], size: int) -> None:
    """It would catch a window that begins elsewhere where its size is even, and one wider than the channels."""
    model = norm(shape, size=size, alpha=0.3, beta=0.6, bias=1.5)
    made = with_channel_windows(model)
    onnx.checker.check_model(made, full_check=True)
    assert "LRN" not in {node.op_type for node in made.graph.node}
    x = 3 * np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    sums = np.zeros(shape)
    for channel in range(shape[1]):  # as ONNX defines it; onnxruntime knows odd sizes alone
        first, last = max(0, channel - (size - 1) // 2), min(shape[1] - 1, channel + size // 2)
        sums[:, channel] = (x[:, first : last + 1].astype(np.float64) ** 2).sum(1)
    (found,) = run_onnx(made, {"x": x})
    np.testing.assert_allclose(found, x / (1.5 + 0.3 / size * sums) ** 0.6, rtol=1e-5)
    if size % 2:
        np.testing.assert_allclose(found, run_onnx(model, {"x": x})[0], rtol=1e-5)


def test_wide_windows_stay() -> None:
    """It would catch a graph of a thousand nodes for one."""
    model = norm((1, 600, 2, 2), size=501)
    assert with_channel_windows(model) is model
