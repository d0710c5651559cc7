"""Convolutions of volumes: on the accelerator, with the integers that onnxruntime has for the same QDQ model."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.frontend.legalize.depth_folding import with_depth_folded
from accel.frontend.legalize.explicit_padding import make_padding_explicit
from accel.frontend.quantize.quantize_model import quantize_model
from accel.frontend.read.load_model import load_model
from tests.helpers.marking import rotated

CASES: dict[str, dict[str, Any]] = {
    "padded": {"pads": [1] * 6},
    "strided, dilated, grouped": {"strides": [2, 1, 2], "dilations": [1, 2, 1], "group": 2, "batch": 2},
    "depthwise": {"group": 4, "outputs": 4, "auto_pad": "SAME_UPPER"},
    "pointwise": {"kernel": (1, 1, 1), "bias": False},
    "depth strided alone": {"kernel": (1, 3, 3), "strides": [2, 1, 1]},
    "transposed": {"op": "ConvTranspose", "strides": [2, 2, 2], "output_padding": [1, 1, 0], "pads": [1] * 6},
    "transposed, dilated, grouped": {"op": "ConvTranspose", "group": 2, "dilations": [2, 1, 1]},
}


def volume_model(
    op: str = "Conv",
    *,
    channels: int = 4,
    outputs: int = 8,
    kernel: tuple[int, ...] = (3, 3, 3),
    volume: tuple[int, ...] = (5, 6, 7),
    group: int = 1,
    batch: int = 1,
    bias: bool = True,
    **attributes: Any,
) -> onnx.ModelProto:
    """A convolution with a relu behind it."""
    drawn = np.random.default_rng(0)
    shape = (outputs, channels // group) if op == "Conv" else (channels, outputs // group)
    tensors = [numpy_helper.from_array(drawn.normal(size=(*shape, *kernel)).astype(np.float32), "w")]
    if bias:
        tensors.append(numpy_helper.from_array(drawn.normal(size=outputs).astype(np.float32), "b"))
    nodes = [
        helper.make_node(op, ["x", "w", *(["b"] * bias)], ["c"], name="conv", group=group, **attributes),
        helper.make_node("Relu", ["c"], ["y"], name="relu"),
    ]
    graph = helper.make_graph(
        nodes,
        "volume",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, channels, *volume])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, list("ncdhw"))],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(model: onnx.ModelProto, data: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": data})[0]


@pytest.mark.parametrize("case", CASES)
def test_images_give_what_the_volume_does(case: str) -> None:
    model = load_model(volume_model(**CASES[case]).SerializeToString()).model
    qdq = quantize_model(model)
    make_padding_explicit(qdq)
    images, macs = with_depth_folded(qdq)
    assert list(macs) == ["conv"]
    (conv,) = [node for node in images.graph.node if node.name == "conv"]
    assert len({a.name: a for a in conv.attribute}["strides"].ints if "strides" in CASES[case] else (1, 1)) == 2
    shape = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]
    data = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    expected = run(qdq, data)
    step = np.unique(np.abs(expected))[1]  # sums are exact in float32, so a result on a tie alone may differ
    assert np.abs(run(images, data) - expected).max() <= step * 1.001
    assert (run(images, data) == expected).mean() > 0.999


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "preset"), rotated(["padded", "strided, dilated, grouped", "transposed"], ["vta", "gemmini"])
)
def test_the_accelerator_has_all_of_its_products(case: str, preset: str, tmp_path: Path) -> None:
    model = volume_model(**CASES[case])
    report = run_model(model.SerializeToString(), load_accelerator(preset), Options(trace=False), tmp_path)
    assert report.verified
    assert report.macs.share == 1.0
    (layer,) = report.layers
    assert list(layer.nodes)[:1] == ["conv"]
    (quality,) = report.quantisation
    assert quality.sqnr_db > 25


def test_zero_points_are_what_lies_outside(tmp_path: Path) -> None:
    model = quantize_model(load_model(volume_model(pads=[1] * 6).SerializeToString()).model)
    zero = next(t for t in model.graph.initializer if t.name == "x_zero_point")
    zero.CopyFrom(numpy_helper.from_array(np.array(-20, np.int8), zero.name))
    report = run_model(model.SerializeToString(), load_accelerator("gemmini"), Options(trace=False), tmp_path)
    assert report.verified
    assert report.macs.share == 1.0
    assert report.quantisation[0].cosine > 0.99999  # to onnxruntime on the same QDQ model
