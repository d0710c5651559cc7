"""Expressions that are said otherwise: equal in double precision, wherever both are numbers."""

from typing import Any

import numpy as np
import pytest

from accel.expression.parser import parse_statement
from accel.expression.syntax_tree import Access, Binary, Call, Expression, Literal, Negate, Select
from accel.lowering.vector.covers.equal_expressions import equal_expressions

_POINTS = np.array([-3.5, -1.0, -0.0, 0.0, 0.25, 2.0, 9.0])
_FUNCTIONS: dict[str, Any] = {
    "recip": lambda x: 1 / x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "abs": np.abs,
    "exp": np.exp,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "max": np.maximum,
    "min": np.minimum,
}
_BINARY: dict[str, Any] = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
_COMPARED: dict[str, Any] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


def value(expression: Expression, known: dict[str, Any]) -> Any:
    match expression:
        case Literal(number):
            return np.float64(number)
        case Access(name):
            return known[name]
        case Negate(inner):
            return -value(inner, known)
        case Binary(sign, left, right):
            return _BINARY[sign](value(left, known), value(right, known))
        case Call(function, arguments):
            return _FUNCTIONS[function](*(value(each, known) for each in arguments))
        case Select(comparison, left, right, then, otherwise):
            chosen = _COMPARED[comparison](value(left, known), value(right, known))
            return np.where(chosen, value(then, known), value(otherwise, known))
    raise AssertionError(expression)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "x[i] - y[i]",
            "x[i] / y[i]",
            "x[i] / 8.0",
            "1.0 / y[i]",
            "-x[i]",
            "recip(x[i])",
            "sqrt(x[i])",
            "rsqrt(x[i])",
        ),
        *("abs(x[i])", "sigmoid(x[i])", "tanh(x[i])", "floor(x[i])", "ceil(x[i])", "max(x[i], y[i])", "min(x[i], 0.5)"),
        *("select(x[i] > 0.0, x[i], x[i] * y[i])", "select(0.0 < x[i], x[i], y[i] * x[i])"),
        *("select(x[i] >= 0.0, x[i] * 0.1, x[i])", "select(x[i] < 0.0, x[i] * 0.1, x[i])"),
    ],
)
def test_an_expression_said_otherwise_is_equal(text: str) -> None:
    """It would catch a sign, a side of a selection, and a constant that is rounded."""
    first = parse_statement(f"z[i] = {text}").value
    known = dict(zip("xy", np.meshgrid(_POINTS, _POINTS), strict=True))
    others = list(equal_expressions(first))
    assert others
    with np.errstate(all="ignore"):
        wanted = value(first, known)
        for other in others:
            found = value(other, known)
            numbers = np.isfinite(wanted) & np.isfinite(found)
            assert numbers.sum() >= numbers.size / 3
            assert np.allclose(np.broadcast_to(found, wanted.shape)[numbers], wanted[numbers], rtol=1e-14, atol=0)


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "==", "!="])
@pytest.mark.parametrize("ends", ["x[i], y[i]", "1.0, 0.0", "y[i], x[i] * 0.1"])
def test_a_selection_by_another_comparison_selects_the_same(sign: str, ends: str) -> None:
    """It would catch an end that is taken of a NaN where the other is, and sides that change places."""
    first = parse_statement(f"z[i] = select(x[i] {sign} y[i], {ends})").value
    points = np.array([*_POINTS, np.nan, np.inf])
    known = dict(zip("xy", np.meshgrid(points, points), strict=True))
    others = list(equal_expressions(first))
    assert all(isinstance(other, Select) and other != first for other in others)
    assert len(others) == (1 if ends == "1.0, 0.0" else 2)
    for other in others:
        np.testing.assert_array_equal(value(other, known), value(first, known))


@pytest.mark.parametrize(
    "text", ["x[i] / 3.0", "exp(x[i])", "select(x[i] > 0.0, x[i], y[i])", "select(x[i] > 1.0, x[i], x[i] * 0.1)"]
)
def test_what_would_need_a_constant_that_is_rounded_or_differs_stays(text: str) -> None:
    """It would catch 1 / 3 as a factor, whose rounding no bound knows, and sums for other selections."""
    others = equal_expressions(parse_statement(f"z[i] = {text}").value)
    assert {str(other) for other in others if not isinstance(other, Select)} <= {"x[i] * recip(3.0)"}
