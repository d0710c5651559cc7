"""Text to statements and back, and what is said of other text."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.errors import CyclopsError
from accel.expression.cost_expression import parse_cost
from accel.expression.element_types import ELEMENT_TYPES
from accel.expression.parser import parse_statement
from accel.expression.syntax_tree import (
    Access,
    Binary,
    Cast,
    Combiner,
    ExpressionError,
    Literal,
    Negate,
    Statement,
    walk,
    with_scalars,
)
from tests.helpers.documents.random_statements import expressions
from tests.helpers.marking import share

# every piece of the language, to be put together at random
PIECES = [
    *"[](),=+-*<>&|^/",
    "+=",
    "<<",
    "==",
    "C",
    "i",
    "min",
    "clip",
    "select",
    "i8",
    "rint",
    "a.b",
    "0",
    "1.5",
    "1e999",
]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("C[i,j]+=i32(A[i,k])*i32(B[k,j])", "C[i, j] += i32(A[i, k]) * i32(B[k, j])"),
        ("acc[b, o] = 0", "acc[b, o] = 0"),
        ("y[]=a[ ]", "y[] = a[]"),
        ("y[i] = a[i] - (b[i] - 1) - c", "y[i] = a[i] - (b[i] - 1) - c"),
        ("y[i] = (a + b) + c", "y[i] = a + b + c"),
        ("y[i] = (a * b) + c << 1 & 3", "y[i] = a * b + c << 1 & 3"),
        ("y[i] = - - 4 - -x", "y[i] = -(-4) - -x"),
        ("y[i] = -(1)", "y[i] = -(1)"),
        ("y[i] = .5 + 1e-3", "y[i] = 0.5 + 0.001"),
        ("y[0] =\n select(a<=b.c,1,2)", "y[0] = select(a <= b.c, 1, 2)"),
        ("y[i]=x[2*i+r+3]", "y[i] = x[2 * i + r + 3]"),
        ("y[i]=x[1*i+0]", "y[i] = x[i]"),
        ("y[i]=x[step*i+r]", "y[i] = x[step * i + r]"),
    ],
)
def test_text_and_canonical_text(text: str, canonical: str) -> None:
    statement = parse_statement(text)
    assert str(statement) == canonical
    assert parse_statement(canonical) == statement


def test_the_parts_of_a_statement() -> None:
    statement = parse_statement("C[i, j] += i32(A[i, k]) * i32(B[k, j]) >> n")
    assert statement.target == Access("C", ("i", "j"))
    assert (statement.operands, statement.scalars) == (("A", "B"), ("n",))
    assert (statement.axes, statement.reduced) == (("i", "j", "k"), ("k",))
    assert statement.updates
    assert statement.combiner == "+"
    assert parse_statement("C[i] max= A[i, k]").combiner == "max"
    assert parse_statement("C[i] min= A[i, k]").combiner == "min"
    assert not statement.reads_target
    assert parse_statement("C[i] = C[i] + D[i]").reads_target
    assert parse_statement("C[i] = C[i] + D[i]").operands == ("D",)


def test_a_sign_belongs_to_its_number() -> None:
    assert parse_statement("y[i] = -3").value == Literal(-3)
    assert parse_statement("y[i] = -(3)").value == Negate(Literal(3))
    assert parse_statement("y[i] = 1 - 3").value == Binary("-", Literal(1), Literal(3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: found the end; expected the target"),
        ("C = 1", r"column 3: found '='; expected '\['"),
        ("C[i] == 1", "column 6: found '=='; expected '=', '\\+=', 'max=' or 'min='"),
        ("C[i] max 1", "column 10: found '1'; expected '='"),
        ("C[i] = 1 // 2", "column 10: found '//'; expected an operator or the end"),
        ("C[i] = foo(1)", "column 8: found 'foo'; expected a function, one of abs, ceil, clip, erf"),
        ("C[i] = max(1)", r"column 13: found '\)'; expected ','"),
        ("C[i] = max", r"found the end; expected '\('"),
        ("C[i] = A[1.5]", "column 10: found '1.5'; expected an axis or an integer"),
        ("C[i] = A[-1]", "column 10: found '-'; expected an axis or an integer"),
        ("C[i] = A[max]", "column 10: found 'max'; expected an axis"),
        ("C[i] = A[i + i]", "column 14: found i again; expected each axis of an index once"),
        ("C[i] = A[0 * i]", "column 10: found the step 0; expected 1 to 65536"),
        ("C[i] = A[i * 2]", "column 14: found '2'; expected the axis that steps"),
        ("C[i] = A[1 + i]", "column 12: found '\\+'; expected ','"),
        ("C[i] = A[i - r]", "column 12: found '-'; expected ','"),
        ("i8[i] = 1", "column 1: found 'i8'; expected the target"),
        ("C[i] = é", "column 8: found 'é'; expected a name"),
        ("C[i] = a < b", "column 10: found '<'"),
        ("C[i] = 1e999", "column 8: the number 1e999 is out of range"),
        ("C[i] = " + "9" * 1900, "column 8: the number 9+ is out of range"),
        ("C[i] = " + "(" * 1900, "found more than 50 levels"),
        ("C[i] = " + "-" * 1900, "found more than 50 levels"),
        ("C[i] = " + "abs(" * 400, "found more than 50 levels"),
        ("C[i] = " + "a+" * 900 + "a", "found more than 50 levels"),
        ("C[i] = " + "a+(" * 600, "found more than 50 levels"),
        ("C[i] = " + " " * 2000 + "1", "2008 characters; expected at most 2000"),
    ],
)
def test_what_is_wrong_and_where(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message) as raised:
        parse_statement(text)
    assert isinstance(raised.value, CyclopsError)
    assert raised.value.type == "invalid-accelerator"


def test_fifty_levels_are_accepted_and_printed() -> None:
    for text in (
        "a" + " + a" * 49,
        "a - (" * 49 + "a" + ")" * 49,
        "abs(" * 49 + "a" + ")" * 49,
        "-(" * 49 + "a" + ")" * 49,
    ):
        statement = parse_statement(f"C[i] = {text}")
        assert parse_statement(str(statement)) == statement
    with pytest.raises(ExpressionError):
        parse_statement("C[i] = a" + " + a" * 50)


@pytest.mark.slow
@settings(max_examples=share(80), deadline=None)
@given(
    st.sampled_from(ELEMENT_TYPES).flatmap(lambda dtype: expressions(dtype, "pqrstv", 4)),
    st.sampled_from([None, "+", "max", "min"]),
)
def test_what_is_printed_parses_to_the_same(value: object, combiner: Combiner | None) -> None:
    statement = Statement(Access("target", ("i", 0)), combiner, value)
    again = parse_statement(str(statement))
    assert again == statement
    literals = [[type(node.value) for node in walk(tree) if isinstance(node, Literal)] for tree in (value, again.value)]
    assert literals[0] == literals[1]


@pytest.mark.slow
@settings(max_examples=share(500), deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=40).map(" ".join)))
def test_garbage_is_refused_or_read(text: str) -> None:
    for read in (parse_statement, parse_cost, lambda text: parse_statement(f"C[i] = {text}")):
        try:
            assert read(text)
        except ExpressionError as error:
            assert error.detail  # noqa: PT017


def test_a_cast_is_no_call() -> None:
    assert parse_statement("y[i] = i8(x[i])").value == Cast("i8", Access("x", ("i",)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y[i] = x[i] + (1 << n - 1) >> n", "y[i] = x[i] + (1 << 4 - 1) >> 4"),
        ("y[i] = clip(-n, i8(n), select(n < other, n, x[i]))", "y[i] = clip(-(4), i8(4), select(4 < other, 4, x[i]))"),
        ("y[n] = n[i] * m", "y[n] = n[i] * m"),
    ],
)
def test_a_number_stands_for_a_scalar_and_for_nothing_else(text: str, expected: str) -> None:
    statement = parse_statement(text)
    assert str(replace(statement, value=with_scalars(statement.value, {"n": 4}))) == expected
