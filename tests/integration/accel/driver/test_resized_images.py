"""Images that are resized between two layers, on a machine with a vector unit."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options


def resized(channels: int, extent: int, extents: tuple[int, int], coordinates: str) -> onnx.ModelProto:
    """A Resize between two layers of 32 channels on either side."""
    random = np.random.default_rng(0)
    kernels = {"w": (channels, 32, 1, 1), "v": (32, channels, 1, 1)}
    stored = [
        numpy_helper.from_array(random.normal(size=size).astype(np.float32), name) for name, size in kernels.items()
    ]
    stored.append(numpy_helper.from_array(np.array([1, channels, *extents]), "sizes"))
    linear = {"mode": "linear", "coordinate_transformation_mode": coordinates}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first"),
        helper.make_node("Resize", ["a", "", "", "sizes"], ["b"], "resize", **linear),
        helper.make_node("Conv", ["b", "v"], ["y"], "second"),
    ]
    result = [1, 32, *extents]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 32, extent, extent]), ("y", result))
    ]
    graph = helper.make_graph(nodes, "resized", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(
    ("channels", "extent", "extents", "coordinates"),
    [
        (32, 14, (56, 56), "half_pixel"),  # whose tiles all read one row: none may be computed in its place
        (32, 6, (18, 6), "half_pixel"),
        (3, 5, (10, 10), "pytorch_half_pixel"),
        (40, 4, (8, 32), "asymmetric"),
        (32, 8, (4, 12), "half_pixel"),  # reduced, and by a fraction
        (32, 6, (12, 7), "align_corners"),
    ],
)
def test_no_host_resizes_what_a_vector_unit_can(
    channels: int, extent: int, extents: tuple[int, int], coordinates: str, tmp_path: Path
) -> None:
    """Catches interpolation that goes back to the host, and floats that are quantised or stored elsewhere."""
    model = resized(channels, extent, extents, coordinates)
    options = Options(trace=False, schedule="quick")
    report = run_model(model.SerializeToString(), load_accelerator("npu"), options, tmp_path)
    assert report.verified
    assert {each.node for each in report.host_ops} <= {"x_quantized", "y_dequantize"}
    assert all(quality.float_cosine is not None and quality.float_cosine > 0.99 for quality in report.quantisation)
