"""Average pooling as an integer sum, and what only moves integers, against numpy on the float side."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.frontend.integer_recovery.requantization import ratio_exponent
from accel.frontend.quantize.quantization_targets import find_targets
from accel.frontend.quantize.quantize_model import quantize_model
from accel.frontend.quantize.scale_constraints import reciprocal, scale_factors
from examples.graph import Graph
from tests.helpers.marking import rotated
from tests.reference.host import run_onnx

INT8 = np.array(0, np.int8)
Shape = tuple[int, ...]


def pooled(
    op: str,
    shapes: tuple[Shape, Shape],
    scales: tuple[float, float],
    zeros: tuple[Any, Any] = (INT8, INT8),
    **attributes: Any,
) -> onnx.ModelProto:
    """Dequantize, ``op``, quantize; the shapes, scales and zero points before and after."""
    graph = Graph("pooling")
    types = [TensorProto.UINT8 if zero.dtype == np.uint8 else TensorProto.INT8 for zero in zeros]
    x = graph.dequantize(graph.input("x", shapes[0], types[0]), scales[0], zeros[0])
    y = graph.quantize(graph.node(op, "pool", [x], **attributes), scales[1], zeros[1], "y")
    graph.output(y, shapes[1], types[1])
    return graph.model()


SCALE = 2.0**-5
# op, shapes, the ratio of the scales, attributes
POOLINGS: dict[str, tuple[str, tuple[Shape, Shape], float, dict[str, Any]]] = {
    "global, of a power of two": ("GlobalAveragePool", ((2, 40, 8, 8), (2, 40, 1, 1)), 0.5, {}),
    "global, of 49": ("GlobalAveragePool", ((1, 33, 7, 7), (1, 33, 1, 1)), 64 / 49 / 2, {}),
    "of four": ("AveragePool", ((1, 32, 8, 6), (1, 32, 4, 3)), 0.5, {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "overlapping, padded, counted": (
        "AveragePool", ((1, 5, 9, 8), (1, 5, 9, 8)), 16 / 9 / 4,
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    ),
    "a mean without its axes": ("ReduceMean", ((3, 24, 4, 4), (3, 24)), 0.5, {"axes": [2, 3], "keepdims": 0}),
}  # fmt: skip


@pytest.mark.parametrize(("name", "preset"), rotated(POOLINGS, ["vta", "gemmini", "mvin-mvout"]))
def test_averages_run_on_the_accelerator(name: str, preset: str, tmp_path: Path) -> None:
    op, shapes, ratio, attributes = POOLINGS[name]
    model = pooled(op, shapes, (SCALE, SCALE * ratio), **attributes)
    report = run_model(model.SerializeToString(), load_accelerator(preset), Options(trace=False), tmp_path)
    assert report.verified
    assert [layer.nodes for layer in report.layers] == [["pool"]]
    assert report.layers[0].macs == 0
    (got,) = np.load(tmp_path / "outputs.npz").values()
    inputs = dict(np.load(tmp_path / "inputs.npz"))
    (expected,) = run_onnx(model, inputs)
    assert np.abs(got.astype(int) - expected).max() <= 1
    if preset == "vta":
        assert report.host_ops == []


@pytest.mark.slow
@pytest.mark.parametrize("zeros", [(np.array(7, np.int8), INT8), (np.array(130, np.uint8), np.array(100, np.uint8))])
def test_zero_points_of_averages(zeros: tuple[Any, Any], tmp_path: Path) -> None:
    attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}
    model = pooled("AveragePool", ((1, 20, 6, 6), (1, 20, 6, 6)), (0.03, 0.02), zeros, **attributes)
    report = run_model(model.SerializeToString(), load_accelerator("vta"), Options(trace=False), tmp_path)
    assert report.verified
    (got,) = np.load(tmp_path / "outputs.npz").values()
    (expected,) = run_onnx(model, dict(np.load(tmp_path / "inputs.npz")))
    assert np.abs(got.astype(int) - expected).max() <= 1


@pytest.mark.parametrize(
    ("op", "shapes", "attributes"),
    [
        ("AveragePool", ((1, 16, 9, 9), (1, 16, 9, 9)), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ("AveragePool", ((1, 16, 9, 9), (1, 16, 5, 5)), {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
        ("ReduceMean", ((1, 16, 9, 9), (1, 1, 9, 9)), {"axes": [1], "keepdims": 1}),
    ],
)
def test_windows_of_other_sizes_stay_on_the_host(
    op: str, shapes: tuple[Shape, Shape], attributes: dict[str, Any], tmp_path: Path
) -> None:
    model = pooled(op, shapes, (SCALE, SCALE), **attributes)
    report = run_model(model.SerializeToString(), load_accelerator("vta"), Options(trace=False), tmp_path)
    assert [op.node for op in report.host_ops if op.node == "pool"] == ["pool"]
    (got,) = np.load(tmp_path / "outputs.npz").values()
    (expected,) = run_onnx(model, dict(np.load(tmp_path / "inputs.npz")))
    assert np.abs(got.astype(int) - expected).max() <= 1


MOVES: dict[str, tuple[str, Shape, dict[str, Any]]] = {
    "flatten": ("Flatten", (2, 315), {}),
    "transpose": ("Transpose", (2, 9, 7, 5), {"perm": [0, 2, 3, 1]}),
    "max pool": ("MaxPool", (2, 5, 5, 7), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    "dilated max pool": ("MaxPool", (2, 5, 7, 4), {"kernel_shape": [2, 2], "dilations": [2, 3]}),
}


@pytest.mark.parametrize(("name", "zero"), rotated(MOVES, [np.array(-3, np.int8), np.array(140, np.uint8)]))
def test_what_only_moves_integers_needs_no_float(name: str, zero: Any, tmp_path: Path) -> None:
    op, result, attributes = MOVES[name]
    model = pooled(op, ((2, 5, 9, 7), result), (0.02, 0.02), (zero, zero), **attributes)
    report = run_model(model.SerializeToString(), load_accelerator("vta"), Options(trace=False), tmp_path)
    assert {op.node for op in report.host_ops} <= {"pool"}
    (got,) = np.load(tmp_path / "outputs.npz").values()
    (expected,) = run_onnx(model, dict(np.load(tmp_path / "inputs.npz")))
    np.testing.assert_array_equal(got, expected)


def network(then_add: bool) -> onnx.ModelProto:
    """A convolution, an average of 49 and a dense layer; or an addition of what is averaged."""
    graph, random = Graph("network"), np.random.default_rng(0)
    weight = graph.constant("w", random.normal(0, 0.2, (16, 3, 3, 3)).astype(np.float32))
    x = graph.node("Conv", "conv", [graph.input("x", (1, 3, 9, 9)), weight])
    pool = graph.node("GlobalAveragePool", "pool", [x])
    if then_add:
        graph.output(graph.node("Add", "sum", [x, pool]), (1, 16, 7, 7))
        return graph.model()
    flat = graph.node("Flatten", "flat", [pool])
    weight = graph.constant("v", random.normal(0, 0.2, (16, 10)).astype(np.float32))
    graph.output(graph.node("MatMul", "dense", [flat, weight]), (1, 10))
    return graph.model()


@pytest.mark.slow
def test_an_average_has_a_scale_that_a_shift_makes_and_its_reader_takes_it_back(tmp_path: Path) -> None:
    report = run_model(network(then_add=False).SerializeToString(), load_accelerator("vta"), Options(), tmp_path)
    assert report.verified
    assert [layer.nodes for layer in report.layers] == [["conv"], ["pool"], ["dense"]]
    assert {op.op for op in report.host_ops} <= {"QuantizeLinear", "DequantizeLinear"}


def test_bases() -> None:
    found = scale_factors(find_targets(network(then_add=False)))
    assert found["pool"] == found["flat"] == pytest.approx(64 / 49)
    assert {found[name] for name in ("x", "conv", "dense")} == {1.0}
    assert set(scale_factors(find_targets(network(then_add=True))).values()) == {1.0}
    assert reciprocal(1.0) == 1.0
    assert reciprocal(64 / 49) == pytest.approx(49 / 32)
    quantize_model(network(then_add=True))


@pytest.mark.parametrize("power", [-20, -1, 0, 7])
def test_ratios_of_float32(power: int) -> None:
    third = float(np.float32(1 / 3))
    assert ratio_exponent(third * 2.0**power, 1 / 3) == power
    assert ratio_exponent(3 * 2.0**power, 2.99999) is None
