"""GELU computed by stores: bit by bit as I-BERT's integers have it, written here again, and near the function."""

import math
from collections.abc import Callable
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
from accel.region.composite_attributes import COMPOSITE, CompositeAttributes, load_attributes
from accel.report.documents.report_documents import Report
from examples.graph import Graph

_DATA, _RESULT = 0.047, 0.031  # scales


def _with_gelu() -> Accelerator:
    return gemmini_accelerator(GemminiParameters(normalizations=True))


def _erf_form(graph: Graph, x: str) -> str:
    root, one, half = (
        graph.constant(name, np.float32(value)) for name, value in (("root", 2**0.5), ("one", 1), ("half", 0.5))
    )
    erf = graph.node("Erf", "erf", [graph.node("Div", "div", [x, root])])
    return graph.node("Mul", "halved", [graph.node("Mul", "mul", [x, graph.node("Add", "plus", [erf, one])]), half])


def _model(
    shape: tuple[int, ...],
    zero_points: tuple[int, int] = (0, 0),
    scales: tuple[float, float] = (_DATA, _RESULT),
    layer: Callable[[Graph, str], str] | None = None,
    function: Callable[[Graph, str], str] = _erf_form,
) -> onnx.ModelProto:
    """The function of int8, or of what a ``layer`` makes of int8, as int8."""
    graph, points = Graph("gelu"), [np.array(point, np.int8) for point in zero_points]
    x = graph.input("x", shape, onnx.TensorProto.INT8)
    if layer is not None:
        x = graph.quantize(layer(graph, x), scales[0], points[0])
    behind = function(graph, graph.dequantize(x, scales[0], points[0]))
    result = graph.quantize(behind, scales[1], points[1], "y")
    made = (shape[0], 24, *shape[2:]) if layer is not None else shape
    graph.output(result, made, onnx.TensorProto.INT8)
    return graph.model()


def _integers(shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int8]]:
    """Every int8, as often as there is room."""
    return np.resize(np.arange(-128, 128), math.prod(shape)).astype(np.int8).reshape(shape)


def _run(model: onnx.ModelProto, x: Any, folder: Path, accelerator: Accelerator) -> tuple[Report, Any]:
    report = run_model(model.SerializeToString(), accelerator, Options(trace=False), folder, inputs={"x": x})
    assert report.verified is not False  # None: nothing runs on the accelerator
    with np.load(folder / "outputs.npz") as outputs:
        return report, outputs["y"]


def _attributes(model: onnx.ModelProto) -> CompositeAttributes:
    """Those of the composite that has a GELU."""
    module = import_integer_model(model, "scale", stores=StoredFunctions(gelu=True)).module
    texts = [str(f.attrs[COMPOSITE]) for f in module.functions.values() if f.attrs is not None and COMPOSITE in f.attrs]
    (found,) = [each for each in map(load_attributes, texts) if each.scaling is not None and each.scaling.gelu]
    return found


def _by_hand(sums: Any, attributes: CompositeAttributes) -> Any:
    """AccumulatorScale.scala ``igelu`` on int32, then its scale."""
    assert attributes.scaling is not None
    assert attributes.scaling.gelu is not None
    qb, qc = np.int32(attributes.scaling.gelu.qb), np.int32(attributes.scaling.gelu.qc)
    q = np.asarray(sums, np.int32)
    bent = np.minimum(np.abs(q), -qb) + qb
    product = q * (np.where(q < 0, np.int32(-1), np.int32(1)) * (bent * bent + qc) + qc)
    return np.clip(np.rint(product.astype(np.float32) * np.float32(attributes.scaling.scale)), -128, 127)


def _gelu(x: Any) -> Any:
    return x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


@pytest.mark.parametrize("shape", [(37, 50), (1, 20, 5, 7), (2, 9, 33), (256,)], ids=str)
@pytest.mark.parametrize("zero_point", [0, -21])
def test_a_function_of_int8(shape: tuple[int, ...], zero_point: int, tmp_path: Path) -> None:
    """A zero point forgotten, or one for the wrong axis; rows and blocks that are not whole."""
    model, x = _model(shape, (zero_point, 0)), _integers(shape)
    report, found = _run(model, x, tmp_path, _with_gelu())
    attributes = _attributes(model)
    sums = attributes.weights[0] * (x.astype(np.int32) - zero_point)
    np.testing.assert_array_equal(found, _by_hand(sums, attributes))
    assert [layer.op for layer in report.layers] == ["elementwise"]
    assert not report.host_ops
    wanted = np.clip(_gelu((x.astype(float) - zero_point) * _DATA) / _RESULT, -128, 127)
    assert np.abs(found - wanted).max() <= 1 + 0.02 / _RESULT


def _dense(graph: Graph, x: str) -> str:
    weights = np.random.default_rng(0).integers(-3, 4, (24, 8)).astype(np.int8)
    w = graph.dequantize(graph.constant("w", weights), 0.2, np.array(0, np.int8))
    return graph.node("Gemm", "fc", [graph.dequantize(x, 0.25, np.array(3, np.int8)), w], transB=1)


def _convolution(graph: Graph, x: str) -> str:
    weights = np.random.default_rng(0).integers(-3, 4, (24, 8, 1, 1)).astype(np.int8)
    w = graph.dequantize(graph.constant("w", weights), 0.2, np.array(0, np.int8))
    return graph.node("Conv", "conv", [graph.dequantize(x, 0.25, np.array(3, np.int8)), w], kernel_shape=[1, 1])


@pytest.mark.parametrize(("layer", "shape"), [(_dense, (21, 8)), (_convolution, (1, 8, 5, 9))], ids=["dense", "conv"])
def test_the_store_of_a_layer(layer: Callable[[Graph, str], str], shape: tuple[int, ...], tmp_path: Path) -> None:
    """A layer whose own rounding to int8 is still there, or whose store has another function."""
    x = np.random.default_rng(1).integers(-20, 20, shape).astype(np.int8)
    model = _model(shape, layer=layer)
    report, found = _run(model, x, tmp_path, _with_gelu())
    assert [layer.op for layer in report.layers] == ["dense" if layer is _dense else "conv2d"]
    weights = np.random.default_rng(0).integers(-3, 4, (24, 8))
    centred = x.astype(np.int32) - 3
    sums = centred @ weights.T if layer is _dense else np.einsum("nchw,oc->nohw", centred, weights)
    np.testing.assert_array_equal(found, _by_hand(sums, _attributes(model)))
    wanted = np.clip(_gelu(sums * 0.05) / _RESULT, -128, 127)
    assert np.abs(found - wanted).max() <= 1 + 0.02 / _RESULT


def test_sums_that_int32_may_not_hold_become_int8_first(tmp_path: Path) -> None:
    """Sums that are worth little: their third power is not within int32."""
    x = np.random.default_rng(1).integers(-128, 128, (21, 8)).astype(np.int8)

    def fine(graph: Graph, x: str) -> str:
        weights = np.random.default_rng(0).integers(-127, 128, (24, 8)).astype(np.int8)
        w = graph.dequantize(graph.constant("w", weights), 0.004, np.array(0, np.int8))
        return graph.node("Gemm", "fc", [graph.dequantize(x, 0.02, np.array(0, np.int8)), w], transB=1)

    report, _ = _run(_model((21, 8), layer=fine), x, tmp_path, _with_gelu())
    assert [layer.op for layer in report.layers] == ["dense", "elementwise"]
    assert not report.host_ops


def test_functions_that_are_matrices_by_now_are_no_gelu(tmp_path: Path) -> None:
    """A square of three axes before a layer, as RMS norms have: it would catch one that is no node's any more."""
    graph, zero = Graph("squares"), np.array(0, np.int8)
    x = graph.dequantize(graph.input("x", (1, 8, 32), onnx.TensorProto.INT8), 0.05, zero)
    square = graph.quantize(graph.node("Mul", "square", [x, x]), 0.2, zero)
    weights = np.random.default_rng(0).integers(-99, 100, (32, 16)).astype(np.int8)
    w = graph.dequantize(graph.constant("w", weights), 0.01, zero)
    layer = graph.node("MatMul", "layer", [graph.dequantize(square, 0.2, zero), w])
    graph.quantize(layer, 0.5, zero, "y")
    graph.output("y", (1, 8, 16), onnx.TensorProto.INT8)
    data = np.random.default_rng(0).integers(-128, 128, (1, 8, 32)).astype(np.int8)
    report, found = _run(graph.model(), data, tmp_path, _with_gelu())
    assert report.verified is True
    squares = np.clip(np.rint((data * 0.05) ** 2 / 0.2), -128, 127)
    assert np.abs(found - np.clip(squares @ weights * (0.2 * 0.01 / 0.5), -128, 127)).max() <= 0.51


def test_a_result_that_is_read_elsewhere_stays(tmp_path: Path) -> None:
    """An output of the model that is gone, as it is in the store of a layer."""
    graph, point = Graph("gelu"), np.array(0, np.int8)
    x = graph.input("x", (21, 8), onnx.TensorProto.INT8)
    sums = graph.quantize(_dense(graph, x), _DATA, point, "sums")
    graph.quantize(_erf_form(graph, graph.dequantize(sums, _DATA, point)), _RESULT, point, "y")
    for name in ("y", "sums"):
        graph.output(name, (21, 24), onnx.TensorProto.INT8)
    data = np.random.default_rng(1).integers(-20, 20, (21, 8)).astype(np.int8)
    report, _ = _run(graph.model(), data, tmp_path, _with_gelu())
    assert [layer.op for layer in report.layers] == ["dense", "elementwise"]


def _reasons(model: onnx.ModelProto, folder: Path, accelerator: Accelerator) -> set[str]:
    shape = tuple(int(size.dim_value) for size in model.graph.input[0].type.tensor_type.shape.dim)
    report, _ = _run(model, _integers(shape), folder, accelerator)
    assert not report.layers
    return {op.reason for op in report.host_ops}


@pytest.mark.parametrize(
    ("zero_point", "scales", "reason"),
    [
        (-40, (_DATA, _RESULT), "leave 0 for 0, and the zero point of its result is -40; the host looks it up"),
        (0, (0.0005, 0.0003), "are beyond int32; the host looks it up"),
    ],
    ids=["zero point", "fine"],
)
def test_the_host_has_what_the_integers_are_not(
    zero_point: int, scales: tuple[float, float], reason: str, tmp_path: Path
) -> None:
    """A result that is shifted, or of numbers that wrap, and a reason that is another's."""
    (told,) = _reasons(_model((40, 16), (0, zero_point), scales), tmp_path, _with_gelu())
    assert reason in told


def _silu(graph: Graph, x: str) -> str:
    return graph.node("Mul", "silu", [x, graph.node("Sigmoid", "gate", [x])])


def test_other_functions_and_other_documents_have_tables(tmp_path: Path) -> None:
    """A sigmoid taken for GELU, and integers where nothing computes them."""
    for model, accelerator in (
        (_model((40, 16), function=_silu), _with_gelu()),
        (_model((40, 16)), load_accelerator("gemmini")),
    ):
        (told,) = _reasons(model, tmp_path, accelerator)
        assert "has no instruction that looks up a table" in told


def _tanh_form(graph: Graph, x: str) -> str:
    """As GPT-2 has it; its sum is otherwise quantised."""
    three, c, k, one, half = (
        graph.constant(name, np.float32(value))
        for name, value in (("n", 3), ("c", 0.044715), ("k", (2 / math.pi) ** 0.5), ("one", 1), ("half", 0.5))
    )
    cube = graph.node("Mul", "cube", [graph.node("Pow", "pow", [x, three]), c])
    inner = graph.node("Mul", "inner", [graph.node("Add", "sum", [x, cube]), k])
    gate = graph.node("Add", "gate", [graph.node("Tanh", "tanh", [inner]), one])
    return graph.node("Mul", "product", [graph.node("Mul", "halved", [x, half]), gate])


@pytest.mark.parametrize("form", [_erf_form, _tanh_form])
def test_a_float_model_is_quantised_for_it(form: Callable[[Graph, str], str], tmp_path: Path) -> None:
    """A result of GELU with a zero point, which would leave it to the host; and much worse numbers."""
    random, graph = np.random.default_rng(0), Graph("mlp")
    x = graph.input("x", (2, 20, 32))
    for number, (name, (k, n)) in enumerate((("up", (32, 64)), ("down", (64, 32)))):
        weights = graph.constant(f"w_{name}", random.normal(0, k**-0.5, (k, n)).astype(np.float32))
        x = graph.node("MatMul", "y" if number else name, [x, weights])
        x = x if number else form(graph, x)
    graph.output(x, (2, 20, 32))
    data = random.standard_normal((2, 20, 32)).astype(np.float32)
    report, _ = _run(graph.model(), data, tmp_path, _with_gelu())
    assert [layer.op for layer in report.layers] == ["dense", "elementwise", "dense"]
    assert {op.op for op in report.host_ops} == {"QuantizeLinear", "DequantizeLinear"}
    assert report.quantisation is not None
    assert report.quantisation[0].sqnr_db > 28
