"""Softmax computed by stores: bit by bit as I-BERT's integers have it, written here again, and near the function."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.frontend.integer_recovery.recover_integers import StoredFunctions, import_integer_model
from accel.isa.gemmini.document.gemmini_document import gemmini_accelerator
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.region.composite_attributes import COMPOSITE, load_attributes
from accel.region.row_softmax import IntegerSoftmax
from accel.report.documents.report_documents import Report
from examples.graph import Graph

_DATA = 0.047
_UNIT = 1 / 127


def _with_softmax(**parameters: Any) -> Accelerator:
    return gemmini_accelerator(GemminiParameters(normalizations=True, **parameters))


def _model(
    shape: tuple[int, ...],
    scales: tuple[float, float] = (_DATA, _UNIT),
    zero_points: tuple[int, int] = (0, 0),
    axis: int = -1,
) -> onnx.ModelProto:
    graph, points = Graph("softmax"), [np.array(point, np.int8) for point in zero_points]
    x = graph.dequantize(graph.input("x", shape, onnx.TensorProto.INT8), scales[0], points[0])
    graph.quantize(graph.node("Softmax", "softmax", [x], axis=axis), scales[1], points[1], "y")
    graph.output("y", shape, onnx.TensorProto.INT8)
    return graph.model()


def _run(model: onnx.ModelProto, x: Any, folder: Path, accelerator: Accelerator) -> tuple[Report, Any]:
    report = run_model(model.SerializeToString(), accelerator, Options(trace=False), folder, inputs={"x": x})
    assert report.verified is not False  # None: nothing runs on the accelerator
    with np.load(folder / "outputs.npz") as outputs:
        return report, outputs["y"]


def _integers(model: onnx.ModelProto) -> IntegerSoftmax:
    module = import_integer_model(model, "scale", stores=StoredFunctions(softmax=lambda *_: "")).module
    texts = [str(f.attrs[COMPOSITE]) for f in module.functions.values() if f.attrs is not None and COMPOSITE in f.attrs]
    (found,) = [each.softmax for each in map(load_attributes, texts) if each.softmax is not None]
    return found


def _exponential(q: Any, integers: IntegerSoftmax) -> Any:
    """AccumulatorScale.scala ``iexp``, of int64."""
    halvings = (-q * integers.inverse) >> 16
    assert halvings.max() < 32
    return ((q + halvings * integers.ln2 + integers.b) ** 2 + integers.c) >> halvings


def _by_hand(x: Any, integers: IntegerSoftmax) -> Any:
    q = integers.weight * x.astype(np.int64)
    below = q - q.max(-1, keepdims=True)
    total = _exponential(below - integers.octaves * integers.ln2, integers).sum(-1, keepdims=True)
    assert total.max() < 2**31
    by = np.float32(127) / total.astype(np.float32)
    return np.clip(np.rint(_exponential(below, integers).astype(np.float32) * by), -128, 127)


def _softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _drawn(shape: tuple[int, ...], seed: int = 0, deviation: float = 40) -> Any:
    drawn = np.random.default_rng(seed).normal(0, deviation, shape)
    return np.clip(np.rint(drawn), -128, 127).astype(np.int8)


@pytest.mark.parametrize(
    "shape", [(32, 64), (17, 33), (4, 20), (3, 5, 40), (1, 2, 19, 128), (5, 200), (2, 80), (1, 3, 197, 197)], ids=str
)
@pytest.mark.parametrize("octaves", [0, 3])
def test_rows_of_int8(shape: tuple[int, ...], octaves: int, tmp_path: Path) -> None:
    """Rows and blocks that are not whole, several instructions a row, and results that are worth less than 1/127."""
    model, x = _model(shape, (_DATA, _UNIT / 2**octaves), (-5, 0)), _drawn(shape)
    report, found = _run(model, x, tmp_path, _with_softmax())
    np.testing.assert_array_equal(found, _by_hand(x, _integers(model)))
    assert [layer.op for layer in report.layers] == ["softmax"]
    assert not report.host_ops
    wanted = np.clip(_softmax(x * _DATA) * 127 * 2**octaves, -128, 127)
    assert np.abs(found - wanted).max() <= 1.5


@pytest.mark.parametrize(
    ("shape", "scales", "zero_points", "reason"),
    [
        ((8, 64), (_DATA, _UNIT), (0, -128), "leave 0 for 0, and the zero point of its result is -128"),
        ((8, 64), (_DATA, 0.005), (0, 0), "are worth 1/127 times a power of two, and the scale of its result is 0.005"),
        ((8, 64), (0.1, _UNIT), (0, 0), "halve 31 times at most, which takes data worth up to 0.0843"),
        ((8, 64), (1e-6, _UNIT), (0, 0), "are beyond int32"),
        ((8, 16), (_DATA, _UNIT), (0, 0), "a row must have more than 16 columns"),
        ((2, 32), (_DATA, _UNIT), (0, 0), "not of 2 with 32 columns"),
        ((16, 2000), (_DATA, _UNIT), (0, 0), "rows of 2000 columns do not fit the accumulators"),
    ],
    ids=["zero point", "scale", "coarse", "fine", "short", "few", "long"],
)
def test_the_host_has_what_the_integers_or_the_stores_are_not(
    shape: tuple[int, ...], scales: tuple[float, float], zero_points: tuple[int, int], reason: str, tmp_path: Path
) -> None:
    """Rows of one block, whose maximum is stale, and a reason that is another's."""
    report, _ = _run(_model(shape, scales, zero_points), _drawn(shape), tmp_path, _with_softmax())
    assert not report.layers
    (told,) = [op.reason for op in report.host_ops if op.op == "Softmax"]
    assert reason in told


def test_floats_and_other_axes_and_other_documents_stay(tmp_path: Path) -> None:
    """A softmax over columns, integers where nothing computes them, and reasons that blame the hardware."""
    graph = Graph("softmax")
    graph.node("Softmax", "softmax", [graph.input("x", (8, 64))], "y")
    graph.output("y", (8, 64))
    data = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    for model, x, accelerator, reason in (
        (graph.model(), data, _with_softmax(), "stores compute it of int8"),
        (_model((32, 64), axis=0), _drawn((32, 64)), _with_softmax(), "along the last axis"),
        (_model((32, 64)), _drawn((32, 64)), load_accelerator("gemmini"), "has no instruction for exp or division"),
    ):
        report, _ = _run(model, x, tmp_path, accelerator)
        assert not report.layers
        (told,) = [op.reason for op in report.host_ops if op.op == "Softmax"]
        assert reason in told


@pytest.mark.parametrize("seed", range(16))
def test_any_rows_and_scales_on_any_design(seed: int, tmp_path: Path) -> None:
    """A tile, a group or a piece that is the last one, on other meshes and memories."""
    random = np.random.default_rng(seed)
    accelerator = _with_softmax(dim=int(random.choice([8, 16])), accumulator_bytes=1 << int(random.integers(15, 18)))
    shape = (int(random.integers(3, 40)), int(random.integers(33, 200)))
    octaves = int(random.integers(0, 5))
    model = _model(shape, (float(random.uniform(0.002, 0.07)), _UNIT / 2**octaves), (int(random.integers(-99, 99)), 0))
    x = _drawn(shape, seed, float(random.uniform(5, 90)))
    report, found = _run(model, x, tmp_path, accelerator)
    if not report.layers:
        (told,) = [op.reason for op in report.host_ops if op.op == "Softmax"]
        assert "do not fit the accumulators" in told or "beyond int32" in told
        return
    np.testing.assert_array_equal(found, _by_hand(x, _integers(model)))
    assert not report.warnings


@pytest.mark.parametrize("mask", [False, True])
def test_a_float_model_is_quantised_for_it(mask: bool, tmp_path: Path) -> None:
    """Scales that no integers have, a mask that leaves its scores no levels, and much worse numbers."""
    random, graph = np.random.default_rng(0), Graph("attention")
    q, k, v = (graph.input(name, (2, 40, 32)) for name in "qkv")
    scores = graph.node("MatMul", "scores", [q, graph.node("Transpose", "turned", [k], perm=[0, 2, 1])])
    scores = graph.node("Mul", "scaled", [scores, graph.constant("root", np.float32(32**-0.5))])
    if mask:
        hidden = np.triu(np.full((40, 40), np.finfo(np.float32).min, np.float32), 1)
        scores = graph.node("Add", "masked", [scores, graph.constant("mask", hidden)])
    weights = graph.node("Softmax", "softmax", [scores], axis=-1)
    graph.node("MatMul", "context", [weights, v], "y")
    graph.output("y", (2, 40, 32))
    data = {name: random.standard_normal((2, 40, 32)).astype(np.float32) for name in "qkv"}
    report = run_model(graph.model().SerializeToString(), _with_softmax(), Options(trace=False), tmp_path, inputs=data)
    assert report.verified
    assert [layer.op for layer in report.layers] == ["matmul", "softmax", "matmul"]
    assert report.quantisation is not None
    assert report.quantisation[0].sqnr_db > (27 if mask else 24)


@pytest.mark.parametrize("octaves", [0, 2])
def test_the_host_has_the_same_integers(octaves: int, tmp_path: Path) -> None:
    """A softmax that the host shall run, which has become integers before that is asked."""
    model, x = _model((32, 64), (_DATA, _UNIT / 2**octaves)), _drawn((32, 64))
    options = Options(trace=False, host_nodes=("softmax",))
    report = run_model(model.SerializeToString(), _with_softmax(), options, tmp_path, inputs={"x": x})
    assert not report.layers
    with np.load(tmp_path / "outputs.npz") as outputs:
        np.testing.assert_array_equal(outputs["y"], _by_hand(x, _integers(model)))
