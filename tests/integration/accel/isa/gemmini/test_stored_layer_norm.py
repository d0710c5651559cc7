"""Layer norm computed by stores: bit by bit as the RTL has it, written here again, and near the function."""

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
from accel.region.row_layer_norm import IntegerLayerNorm
from accel.report.documents.report_documents import Report
from examples.graph import Graph

_DATA, _RESULT = 0.03, 1 / 32


def _with_norms(**parameters: Any) -> Accelerator:
    return gemmini_accelerator(GemminiParameters(normalizations=True, **parameters))


def _model(
    shape: tuple[int, ...],
    scales: tuple[float, float] = (_DATA, _RESULT),
    zero_points: tuple[int, int] = (0, 0),
    *,
    axis: int = -1,
    epsilon: float = 1e-6,
    offset: float = 0.0,
) -> onnx.ModelProto:
    graph, points = Graph("norm"), [np.array(point, np.int8) for point in zero_points]
    x = graph.dequantize(graph.input("x", shape, onnx.TensorProto.INT8), scales[0], points[0])
    gains = graph.constant("gains", np.ones(shape[axis:], np.float32))
    offsets = graph.constant("offsets", np.full(shape[axis:], offset, np.float32))
    norm = graph.node("LayerNormalization", "norm", [x, gains, offsets], axis=axis, epsilon=epsilon)
    graph.quantize(norm, scales[1], points[1], "y")
    graph.output("y", shape, onnx.TensorProto.INT8)
    return graph.model()


def _run(model: onnx.ModelProto, x: Any, folder: Path, accelerator: Accelerator, **options: Any) -> tuple[Report, Any]:
    folder.mkdir(exist_ok=True)
    report = run_model(model.SerializeToString(), accelerator, Options(trace=False, **options), folder, inputs={"x": x})
    assert report.verified is not False  # None: nothing runs on the accelerator
    with np.load(folder / "outputs.npz") as outputs:
        return report, outputs["y"]


def _integers(model: onnx.ModelProto) -> IntegerLayerNorm:
    module = import_integer_model(model, "scale", stores=StoredFunctions(layer_norm=lambda *_: "")).module
    texts = [str(f.attrs[COMPOSITE]) for f in module.functions.values() if f.attrs is not None and COMPOSITE in f.attrs]
    (found,) = [each.norm for each in map(load_attributes, texts) if each.norm is not None]
    return found


def _cut(total: Any, count: int) -> Any:
    """A quotient towards 0 (Arithmetic.scala ``divider``), of integers."""
    return np.sign(total) * (np.abs(total) // count)


def _by_hand(x: Any, integers: IntegerLayerNorm) -> Any:
    """Normalizer.scala and AccumulatorScale.scala, of int64 that int32 holds."""
    x, columns = x.astype(np.int64), x.shape[-1]
    summed, stored = integers.summed * x, integers.stored * x
    below = summed - _cut(summed.sum(-1, keepdims=True), columns)
    squares = (below**2).sum(-1, keepdims=True)
    assert squares.max() < 2**31
    variance = squares // columns
    deviation = np.maximum(np.floor(np.sqrt(variance)).astype(np.int64), 1)
    assert ((deviation**2 <= variance) | (variance == 0)).all()
    assert (variance < (deviation + 1) ** 2).all()
    centred = stored - _cut(stored.sum(-1, keepdims=True), columns)
    by = np.float32(1) / deviation.astype(np.float32)
    return np.clip(np.rint(centred.astype(np.float32) * by), -128, 127)


def _norm(x: Any) -> Any:
    x = x.astype(np.float64)
    deviation = x.std(-1, keepdims=True)
    return (x - x.mean(-1, keepdims=True)) / np.where(deviation == 0, 1, deviation)


def _drawn(shape: tuple[int, ...], seed: int = 0, deviation: float = 30, mean: float = 7) -> Any:
    drawn = np.random.default_rng(seed).normal(mean, deviation, shape)
    return np.clip(np.rint(drawn), -128, 127).astype(np.int8)


@pytest.mark.parametrize(
    "shape",
    [
        (32, 64),
        (17, 33),
        (1, 16),
        (2, 7),
        (4, 20),
        (3, 5, 40),
        (1, 2, 19, 128),
        (5, 200),
        (197, 192),
        (9, 768),
        (3, 1024),
    ],
    ids=str,
)
def test_rows_of_int8(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Rows, groups and blocks that are not whole, several instructions a row, and rows that fill the accumulators."""
    model, x = _model(shape, (_DATA, _RESULT), (-5, 0)), _drawn(shape)
    x.reshape(-1, shape[-1])[0] = 3  # without a deviation
    report, found = _run(model, x, tmp_path, _with_norms())
    np.testing.assert_array_equal(found, _by_hand(x, _integers(model)))
    assert [layer.op for layer in report.layers] == ["layer_norm"]
    assert not report.host_ops
    assert not report.warnings
    wanted = np.clip(_norm(x) * 32, -128, 127)
    assert np.abs(found - wanted).max() <= 1.5


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (_model((8, 64), zero_points=(0, 4)), "leave 0 for 0, and the zero point of its result is 4"),
        (_model((8, 64), (_DATA, 1 / 300)), "are worth a quotient of weights, and a step of its result is 0.00333"),
        (_model((8, 64), epsilon=1e-3), "an epsilon of 0.001 is much for data worth 0.03"),
        (_model((8, 64), offset=0.5), "without gains and offsets of channels, and this one has some"),
        (_model((4, 8, 64), axis=-2), "stores compute it of rows, along the last axis"),
        (_model((3, 1025)), "rows of 1025 columns do not fit the accumulators"),
    ],
    ids=["zero point", "scale", "epsilon", "offsets", "axes", "long"],
)
def test_the_host_has_what_the_integers_or_the_stores_are_not(
    model: onnx.ModelProto, reason: str, tmp_path: Path
) -> None:
    shape = tuple(int(size.dim_value) for size in model.graph.input[0].type.tensor_type.shape.dim)
    report, _ = _run(model, _drawn(shape), tmp_path, _with_norms())
    assert not report.layers
    (told,) = [op.reason for op in report.host_ops if op.op == "LayerNormalization"]
    assert reason in told


def test_floats_and_other_documents_stay(tmp_path: Path) -> None:
    """Data that are never int8; documents without the store, which say what they have none of."""
    graph = Graph("norm")
    gains = graph.constant("gains", np.ones(64, np.float32))
    graph.node("LayerNormalization", "norm", [graph.input("x", (8, 64)), gains], "y")
    graph.output("y", (8, 64))
    data = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    for model, x, accelerator, reason in (
        (graph.model(), data, _with_norms(), "stores compute it of int8"),
        (
            _model((32, 64)),
            _drawn((32, 64)),
            load_accelerator("gemmini"),
            "no instruction for square roots or division",
        ),
    ):
        report, _ = _run(model, x, tmp_path, accelerator)
        assert not report.layers
        (told,) = [op.reason for op in report.host_ops if op.op == "LayerNormalization"]
        assert reason in told


@pytest.mark.parametrize("seed", range(16))
def test_any_rows_and_scales_on_any_design(seed: int, tmp_path: Path) -> None:
    """A tile, a group or a piece that is the last one, on other meshes and memories."""
    random = np.random.default_rng(seed)
    accelerator = _with_norms(dim=int(random.choice([8, 16])), accumulator_bytes=1 << int(random.integers(14, 18)))
    shape = (int(random.integers(1, 40)), int(random.integers(1, 300)))
    model = _model(
        shape, (float(random.uniform(0.01, 0.1)), float(random.uniform(0.01, 0.2))), (int(random.integers(-99, 99)), 0)
    )
    x = _drawn(shape, seed, float(random.uniform(2, 90)), float(random.uniform(-60, 60)))
    report, found = _run(model, x, tmp_path, accelerator)
    if not report.layers:
        (told,) = [op.reason for op in report.host_ops if op.op == "LayerNormalization"]
        assert "do not fit the accumulators" in told or "are worth a quotient of weights" in told
        return
    np.testing.assert_array_equal(found, _by_hand(x, _integers(model)))
    assert not report.warnings


def test_the_host_has_the_same_integers(tmp_path: Path) -> None:
    """A norm that the host shall run, which has become integers before that is asked."""
    model, x = _model((32, 64)), _drawn((32, 64))
    report, found = _run(model, x, tmp_path, _with_norms(), host_nodes=("norm",))
    assert not report.layers
    np.testing.assert_array_equal(found, _by_hand(x, _integers(model)))


def _block(*, post: bool) -> onnx.ModelProto:
    """Two dense layers around an addition, with a norm ahead of one, or behind the addition and before the other."""
    random, graph = np.random.default_rng(0), Graph("block")

    def dense(name: str, x: str) -> str:
        weight = graph.constant(f"{name}_weight", random.normal(0, 0.12, (64, 64)).astype(np.float32))
        bias = graph.constant(f"{name}_bias", random.normal(0, 0.1, 64).astype(np.float32))
        return graph.node("Add", f"{name}_add", [graph.node("MatMul", name, [x, weight]), bias])

    x = graph.input("x", (1, 20, 64))
    gains = graph.constant("gains", np.exp(random.normal(0, 0.4, 64)).astype(np.float32))
    offsets = graph.constant("offsets", random.normal(0, 0.1, 64).astype(np.float32))
    first = graph.node("Add", "first", [dense("before", x), x])
    normed = graph.node("LayerNormalization", "norm", [first, gains, offsets], axis=-1)
    last = graph.node("Add", "last", [dense("after", normed), normed if post else first])
    graph.node("Identity", "end", [last], "y")
    graph.output("y", (1, 20, 64))
    return graph.model()


@pytest.mark.parametrize("post", [False, True], ids=["pre-norm", "post-norm"])
def test_a_float_model_is_quantised_for_it(post: bool, tmp_path: Path) -> None:
    """Gains that a product has, and what an addition reads of a norm; no multiply-accumulates of the model are new."""
    x = np.random.default_rng(1).standard_normal((1, 20, 64)).astype(np.float32)
    reports = [
        _run(_block(post=post), x, tmp_path / name, accelerator)[0]
        for name, accelerator in (("norms", _with_norms()), ("plain", load_accelerator("gemmini")))
    ]
    assert all(report.verified for report in reports)
    wanted = ["dense", "add", "layer_norm", *(["dense"] if post else []), "dense", "add"]
    assert [layer.op for layer in reports[0].layers] == wanted
    assert "LayerNormalization" not in {op.op for op in reports[0].host_ops}
    assert reports[0].macs == reports[1].macs
    found, usual = (report.quantisation[0].sqnr_db for report in reports if report.quantisation is not None)
    assert found > usual - 1.5
