"""Statements of a vector unit against what TVM makes of float operators of networks."""

from collections.abc import Callable
from typing import Any

import pytest
from tvm import relax, tirx
from tvm.ir import TensorLoad
from tvm_ffi import structural_walk

from accel.expression.element_types import TensorType
from accel.expression.parser import parse_statement
from accel.expression.typecheck import check_statement
from accel.expression.unify import Binding, unify

ROWS, COLUMNS = 8, 48
WHOLE, ROW, GAIN = (TensorType("float32", shape) for shape in ((ROWS, COLUMNS), (ROWS,), (COLUMNS,)))
TENSORS = {"X": WHOLE, "E": WHOLE, "Y": WHOLE, "m": ROW, "s": ROW, "g": GAIN}
OPERATORS: dict[str, Callable[..., Any]] = {
    "softmax": lambda x, _: relax.op.nn.softmax(x, -1),
    "rms_norm": lambda x, gain: relax.op.nn.rms_norm(x, gain, [-1], 1e-5),
    "gelu": lambda x, _: relax.op.nn.gelu(x),
    "silu": lambda x, _: relax.op.nn.silu(x),
    "tanh": lambda x, _: relax.op.tanh(x),
    "floor": lambda x, _: relax.op.floor(x),
    "ceil": lambda x, _: relax.op.ceil(x),
    "exp": lambda x, _: relax.op.exp(x),
    "log": lambda x, _: relax.op.log(x),
    "sqrt": lambda x, _: relax.op.sqrt(x),
    "min": lambda x, _: relax.op.min(x, axis=[-1]),
}


def stores(operator: str) -> list[tirx.BufferStore]:
    """Every store of the operator's functions."""
    x = relax.Var("x", relax.TensorType([ROWS, COLUMNS], "float32"))
    gain = relax.Var("gain", relax.TensorType([COLUMNS], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, gain]):
        with builder.dataflow():
            result = builder.emit_output(OPERATORS[operator](x, gain))
        builder.emit_func_output(result)
    found: list[tirx.BufferStore] = []
    for function in relax.transform.LegalizeOps()(builder.get()).functions.values():
        if isinstance(function, tirx.PrimFunc):
            structural_walk(function.body, (tirx.BufferStore, found.append), order="pre")
    return found


def anything(_name: str, _load: TensorLoad) -> bool:
    return True


@pytest.mark.parametrize(
    ("operator", "text"),
    [
        ("softmax", "m[r] max= X[r, l]"),
        ("softmax", "E[r, l] = exp(X[r, l] - m[r])"),
        ("softmax", "s[r] += E[r, l]"),
        ("softmax", "Y[r, l] = E[r, l] / s[r]"),
        ("rms_norm", "Y[r, l] = X[r, l] * E[r, l]"),
        ("rms_norm", "s[r] += X[r, l]"),
        ("rms_norm", "m[r] = rsqrt(s[r] / n + epsilon)"),
        ("gelu", "Y[r, l] = erf(X[r, l])"),
        ("gelu", "Y[r, l] = X[r, l] + c"),
        ("silu", "Y[r, l] = sigmoid(X[r, l])"),
        ("min", "m[r] min= X[r, l]"),
        *((name, f"Y[r, l] = {name}(X[r, l])") for name in ("tanh", "floor", "ceil", "exp", "log", "sqrt")),
    ],
)
def test_a_store_of_the_operator_is_one_of_the_statement(operator: str, text: str) -> None:
    statement = check_statement(parse_statement(text), TENSORS, dict.fromkeys(["n", "epsilon", "c"], "float32"))
    found = [unify(statement, store, anything) for store in stores(operator)]
    assert any(isinstance(way, Binding) for way in found), found


def test_a_maximum_is_no_sum_and_no_minimum() -> None:
    for text in ("m[r] min= X[r, l]", "m[r] = X[r, l]"):
        statement = check_statement(parse_statement(text), TENSORS, {})
        maxima = [store for store in stores("softmax") if isinstance(store.value, tirx.Max)]
        assert len(maxima) == 1
        assert not isinstance(unify(statement, maxima[0], anything), Binding)
