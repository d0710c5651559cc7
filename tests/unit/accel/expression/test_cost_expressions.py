"""Costs of instructions as arithmetic over their fields."""

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.expression.cost_expression import parse_cost
from accel.expression.syntax_tree import ExpressionError


def test_a_column_of_instructions() -> None:
    cost = parse_cost("max(8 + ceil(bytes / 16), 3) + dma.setup - elements // 4")
    assert cost.names == ("bytes", "dma.setup", "elements")
    columns = {"bytes": np.array([1, 100, 10_000]), "dma.setup": 10, "elements": np.array([3, 4, 5]), "unused": 0}
    assert cost.evaluate(columns).tolist() == [19.0, 24.0, 642.0]
    assert cost.evaluate(columns).dtype == np.float64


_NAMES = st.sampled_from(["a", "b", "c", "0", "3", "0.5", "16"])
_PAIRS = st.sampled_from(
    ["({} + {})", "({} - {})", "({} * {})", "({} / {})", "({} // {})", "min({}, {})", "max({}, {})"]
)
_TEXTS = st.recursive(
    _NAMES,
    lambda text: (
        st.builds(str.format, _PAIRS, text, text)
        | st.builds(str.format, st.sampled_from(["ceil({})", "floor({})"]), text)
    ),
    max_leaves=6,
)
_NUMBERS = st.floats(-1e3, 1e3) | st.integers(-50, 50) | st.sampled_from([0.0, 1e308, math.inf])


@given(_TEXTS, st.tuples(_NUMBERS, _NUMBERS, _NUMBERS))
def test_one_instruction_costs_what_it_does_among_many(text: str, numbers: tuple[float, float, float]) -> None:
    """Would catch Python's numbers where they are other ones than NumPy's, or what they take for finite."""

    def evaluated(columns: Mapping[str, object]) -> float | str:
        try:
            return float(np.asarray(parse_cost(text).evaluate(columns)).reshape(-1)[0])  # type: ignore[arg-type]
        except ExpressionError as error:
            return str(error)

    columns = dict(zip("abc", numbers, strict=True))
    assert evaluated(columns) == evaluated({name: np.array([number]) for name, number in columns.items()})


def test_a_constant_has_the_columns_shape() -> None:
    assert parse_cost("12").evaluate({"bytes": np.zeros(3)}).tolist() == [12.0] * 3
    assert parse_cost("12").evaluate({}).shape == ()
    assert parse_cost("12").evaluate({"bytes": np.zeros(0, np.int64)}).shape == (0,)


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 20))
def test_rounding_is_that_of_integers(a: int, b: int) -> None:
    columns = {"a": np.array([a]), "b": np.array([b])}
    assert parse_cost("ceil(a / b)").evaluate(columns)[0] == -(-a // b)
    assert parse_cost("a // b").evaluate(columns)[0] == a // b
    assert parse_cost("floor(-a / b)").evaluate(columns)[0] == math.floor(-a / b)


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("a + b", {"a": 1}, "found the name b; expected one of a"),
        ("1 / a", {"a": np.array([1, 2, 0])}, "divides by zero where a is 0$"),
        ("1 // (a - a)", {"a": 1}, "divides by zero where a - a is 0"),
        ("a * a", {"a": 1e200}, "is no finite number"),
        ("a", {"a": np.array([1.0, np.nan])}, "a is no finite number$"),
    ],
)
def test_what_has_no_value(text: str, columns: dict[str, object], message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        parse_cost(text).evaluate(columns)


def test_the_first_without_a_value_is_told() -> None:
    for text, column, row in (("1 / a", [1, 2, 0, 0], 2), ("a - 1", [1.0, np.nan], 1)):
        with pytest.raises(ExpressionError) as caught:
            parse_cost(text).evaluate({"a": np.array(column)})
        assert caught.value.row == row


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "1 / 0 divides by zero"),
        ("a // 0.0", "divides by zero"),
        ("", "column 1: found the end"),
        ("a[i]", "column 2"),
        ("i8(a)", "found 'i8'; expected a function, one of ceil, floor, max, min"),
        ("a >> 1", "column 3: found '>>'"),
        ("ceil(a, b)", "column 7"),
        ("max(a)", "column 6: found '\\)'; expected ','"),
    ],
)
def test_what_is_no_cost(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        parse_cost(text)


def test_canonical_text() -> None:
    assert str(parse_cost("( a+b )*max( 1,2 ,c)/3")) == "(a + b) * max(1, 2, c) / 3"
