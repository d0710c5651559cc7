"""Maxima over windows of floats between two layers, on a machine with a vector unit."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options


def pooled(channels: int, image: tuple[int, int], **window: object) -> onnx.ModelProto:
    """A layer, its norm, the maximum of that over windows, squared, and another layer."""
    random = np.random.default_rng(0)
    shapes = {"w": (channels, channels, 1, 1), "v": (channels, channels, 1, 1), "g": (channels,), "b": (channels,)}
    stored = [
        numpy_helper.from_array(random.normal(size=size).astype(np.float32), name) for name, size in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first"),
        helper.make_node("Transpose", ["a"], ["c"], perm=[0, 2, 3, 1]),
        helper.make_node("LayerNormalization", ["c", "g", "b"], ["d"]),
        helper.make_node("Transpose", ["d"], ["e"], perm=[0, 3, 1, 2]),
        helper.make_node("MaxPool", ["e"], ["f"], **window),
        helper.make_node("Mul", ["f", "f"], ["h"]),
        helper.make_node("Conv", ["h", "v"], ["y"], "second"),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, *image]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
    ]
    graph = helper.make_graph(nodes, "pooled", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(
    ("channels", "image", "window"),
    [
        (64, (16, 16), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        (40, (9, 7), {"kernel_shape": [3, 2], "dilations": [2, 1], "pads": [0, 1, 0, 0]}),
        (32, (7, 7), {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    ],
)
def test_no_host_takes_maxima_of_floats(
    channels: int, image: tuple[int, int], window: dict[str, object], tmp_path: Path
) -> None:
    """Catches windows that go back to the host, and a border in DRAM that is no number."""
    model = pooled(channels, image, **window).SerializeToString()
    report = run_model(model, load_accelerator("npu"), Options(trace=False, schedule="quick"), tmp_path)
    assert report.verified
    assert {each.op for each in report.host_ops} <= {"QuantizeLinear", "DequantizeLinear"}
