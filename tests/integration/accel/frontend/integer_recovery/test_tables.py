"""Functions of one int8 tensor as tables: every form that exporters write, bit by bit as onnxruntime has it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.errors import VerificationError
from accel.frontend.integer_recovery import composite_functions
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.util.arrays import Array
from examples.graph import Graph

_SHAPE = (1, 4, 8, 16)
_FLOAT_OPS = {"DequantizeLinear", "QuantizeLinear", "Sigmoid", "Mul", "Erf", "Tanh", "Div", "Pow", "HardSigmoid", "Exp"}


def _number(graph: Graph, name: str, value: float, *shape: int) -> str:
    return graph.constant(name, np.full(shape, value, np.float32))


def _silu(graph: Graph, x: str) -> str:
    return graph.node("Mul", "silu", [x, graph.node("Sigmoid", "gate", [x])])


def _silu_quantised_inside(graph: Graph, x: str) -> str:
    """As onnxruntime's quantiser leaves it: the result of Sigmoid has a scale of its own."""
    gate = graph.quantize(graph.node("Sigmoid", "gate", [x]), 1 / 256, np.array(-128, np.int8))
    return graph.node("Mul", "silu", [x, graph.dequantize(gate, 1 / 256, np.array(-128, np.int8))])


def _silu_spelled_out(graph: Graph, x: str) -> str:
    """x / (1 + exp(-x)), as old exporters write it."""
    below = graph.node(
        "Add", "below", [graph.node("Exp", "exp", [graph.node("Neg", "neg", [x])]), _number(graph, "one", 1)]
    )
    return graph.node("Div", "silu", [x, below])


def _gelu_erf(graph: Graph, x: str) -> str:
    """As torch up to opset 19: x / sqrt(2), Erf, + 1, x *, * 0.5."""
    erf = graph.node("Erf", "erf", [graph.node("Div", "div", [x, _number(graph, "root", 2**0.5)])])
    scaled = graph.node("Mul", "mul", [x, graph.node("Add", "add", [erf, _number(graph, "one", 1)])])
    return graph.node("Mul", "half", [scaled, _number(graph, "point5", 0.5, 1)])


def _gelu_tanh(graph: Graph, x: str) -> str:
    """As torch exports approximate="tanh"."""
    cube = graph.node(
        "Mul", "cube", [graph.node("Pow", "pow", [x, _number(graph, "three", 3)]), _number(graph, "c", 0.044715)]
    )
    inner = graph.node("Mul", "inner", [graph.node("Add", "sum", [x, cube]), _number(graph, "k", (2 / np.pi) ** 0.5)])
    gate = graph.node("Add", "gate", [graph.node("Tanh", "tanh", [inner]), _number(graph, "one", 1)])
    return graph.node("Mul", "gelu", [graph.node("Mul", "half", [x, _number(graph, "point5", 0.5)]), gate])


def _hard_swish(graph: Graph, x: str) -> str:
    return graph.node("Mul", "swish", [x, graph.node("HardSigmoid", "gate", [x], alpha=1 / 6, beta=0.5)])


def _hard_swish_spelled_out(graph: Graph, x: str) -> str:
    """x * clip(x + 3, 0, 6) / 6, as TensorFlow's models have it."""
    shifted = graph.node("Add", "shifted", [x, _number(graph, "three", 3)])
    clipped = graph.node("Clip", "clipped", [shifted, _number(graph, "zero", 0), _number(graph, "six", 6)])
    return graph.node("Div", "swish", [graph.node("Mul", "mul", [x, clipped]), _number(graph, "by", 6)])


def _where(graph: Graph, x: str) -> str:
    """A condition of the tensor itself, which is no float on the way."""
    above = graph.node("Greater", "above", [x, _number(graph, "half", 0.5)])
    return graph.node("Where", "chosen", [above, x, _number(graph, "otherwise", -0.25)])


def _single(op: str, **attributes: float) -> Callable[[Graph, str], str]:
    return lambda graph, x: graph.node(op, op.lower(), [x], **attributes)


_FORMS: dict[str, Callable[[Graph, str], str]] = {
    "silu": _silu,
    "silu quantised inside": _silu_quantised_inside,
    "silu spelled out": _silu_spelled_out,
    "gelu by erf": _gelu_erf,
    "gelu by tanh": _gelu_tanh,
    "hard swish": _hard_swish,
    "hard swish spelled out": _hard_swish_spelled_out,
    "where": _where,
    "Tanh": _single("Tanh"),
    "Elu": _single("Elu", alpha=0.7),
    "HardSwish": _single("HardSwish"),
    "Softplus": _single("Softplus"),
}


def _model(form: Callable[[Graph, str], str], dtype: type[np.int8 | np.uint8] = np.int8) -> onnx.ModelProto:
    """Quantise, dequantise, the function, quantise, dequantise."""
    graph = Graph("function")
    point = np.array(3 if dtype is np.int8 else 130, dtype)
    x = graph.dequantize(graph.quantize(graph.input("x", _SHAPE), 0.05, point), 0.05, point)
    made = graph.quantize(form(graph, x), 0.03, np.array(-7, np.int8))
    result = graph.dequantize(made, 0.03, np.array(-7, np.int8))
    graph.output(result, _SHAPE)
    return graph.model()


def _values() -> Array:
    """Every integer twice, and numbers beyond them."""
    return np.linspace(-7, 7, 512, dtype=np.float32).reshape(_SHAPE)


def _by_onnxruntime(model: onnx.ModelProto, x: Array) -> Array:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def _tables(model: onnx.ModelProto) -> list[str]:
    module = import_integer_model(model).module
    return [str(f.attrs["op"]) for f in module.functions.values() if f.attrs is not None and "op" in f.attrs]


@pytest.mark.parametrize("form", _FORMS)
def test_is_one_table_with_onnxruntimes_bits(form: str, tmp_path: Path) -> None:
    """A form that is not recognised, an entry in the wrong place, or a zero point forgotten."""
    model = _model(_FORMS[form])
    report = run_model(
        model.SerializeToString(), load_accelerator("vta"), Options(trace=False), tmp_path, inputs={"x": _values()}
    )
    assert _tables(model) == ["table"]
    assert not report.warnings
    with np.load(tmp_path / "outputs.npz") as outputs:
        np.testing.assert_array_equal(next(iter(outputs.values())), _by_onnxruntime(model, _values()))
    reasons = {op.reason for op in report.host_ops if op.op in _FLOAT_OPS - {"DequantizeLinear", "QuantizeLinear"}}
    assert all("a table of 256 entries" in reason for reason in reasons)


def test_reads_unsigned_integers(tmp_path: Path) -> None:
    """An index that is 128 off where the operand is uint8, as a model's input may be."""
    graph = Graph("unsigned")
    point = np.array(130, np.uint8)
    x = graph.dequantize(graph.input("x", _SHAPE, onnx.TensorProto.UINT8), 0.05, point)
    result = graph.quantize(_silu(graph, x), 0.03, np.array(7, np.uint8))
    graph.output(result, _SHAPE, onnx.TensorProto.UINT8)
    model = graph.model()
    x_values = np.arange(512).astype(np.uint8).reshape(_SHAPE)
    report = run_model(
        model.SerializeToString(), load_accelerator("vta"), Options(trace=False), tmp_path, inputs={"x": x_values}
    )
    assert not report.warnings
    with np.load(tmp_path / "outputs.npz") as outputs:
        np.testing.assert_array_equal(next(iter(outputs.values())), _by_onnxruntime(model, x_values))


def test_a_wrong_table_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference that reads the table itself, and so would agree with any."""
    right = composite_functions.table

    def wrong(nodes: list[str], x: list[int], dtype: str, entries: Array) -> object:
        changed = entries.copy()
        changed[140] += 1
        return right(nodes, x, dtype, changed)

    monkeypatch.setattr(composite_functions, "table", wrong)
    with pytest.raises(VerificationError):
        run_model(
            _model(_silu).SerializeToString(), load_accelerator("vta"), Options(), tmp_path, inputs={"x": _values()}
        )


def _of_two(graph: Graph, x: str) -> str:
    other = graph.input("y", _SHAPE)
    point = np.array(0, np.int8)
    y = graph.dequantize(graph.quantize(other, 0.05, point), 0.05, point)
    return graph.node("Mul", "product", [x, graph.node("Sigmoid", "gate", [y])])


def _by_channel(graph: Graph, x: str) -> str:
    slopes = graph.constant("slopes", np.linspace(0.1, 0.9, 4, dtype=np.float32).reshape(4, 1, 1))
    return graph.node("PRelu", "prelu", [x, slopes])


@pytest.mark.parametrize("form", [_of_two, _by_channel])
def test_what_is_no_function_of_one_integer_is_no_table(form: Callable[[Graph, str], str]) -> None:
    """A table of two tensors, or one for all channels that differ."""
    assert "table" not in _tables(_model(form))
