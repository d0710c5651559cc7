"""Types and shapes of statements, and what is said where they do not fit."""

import pytest

from accel.expression.element_types import TensorType
from accel.expression.parser import parse_statement
from accel.expression.syntax_tree import ExpressionError
from accel.expression.typecheck import Typed, TypedExpression, check_statement

TENSORS = {
    "A": TensorType("int8", (4, 8)),
    "B": TensorType("int8", (8, 4)),
    "C": TensorType("int32", (4, 4)),
    "F": TensorType("float32", (16,)),
    "U": TensorType("uint8", (16,)),
    "X": TensorType("int32", (16,)),
    "Y": TensorType("int8", (16,)),
    "s": TensorType("int32", ()),
}
FIELDS = {"imm": "int16", "scale": "float32", "n": "int32"}


def checked(text: str) -> Typed:
    return check_statement(parse_statement(text), TENSORS, FIELDS)


def types(node: TypedExpression) -> list[str]:
    return [f"{node.expression}: {node.dtype}", *(line for child in node.children for line in types(child))]


def test_a_contraction() -> None:
    typed = checked("C[i, j] += i32(A[i, k]) * i32(B[k, j])")
    assert typed.extents == {"i": 4, "j": 4, "k": 8}
    assert set(typed.tensors) == {"A", "B", "C"}
    assert typed.dtype == "int32"


def test_literals_and_integer_scalars_take_the_type_of_their_place() -> None:
    typed = checked("Y[i] = max(Y[i] + imm, -128) >> imm")
    assert types(typed.value)[1:] == [
        "max(Y[i] + imm, -128): int8",
        "Y[i] + imm: int8",
        "Y[i]: int8",
        "imm: int8",
        "-128: int8",
        "imm: int16",
    ]
    assert "imm: int16" in types(checked("X[i] = i32(imm)").value)
    assert "imm: int32" in types(checked("X[i] = imm + 70000").value)
    assert "0: int16" in types(checked("F[i] = select(imm > 0, F[i], 1)").value)
    assert "1: float32" in types(checked("F[i] = select(imm > 0, F[i], 1)").value)


@pytest.mark.parametrize(
    "text",
    [
        "X[i] = s[]",
        "X[0] = 3",
        "s[] = X[i]",
        "C[i, j] = X[k]",
        "C[i, j] = s[]",
        "C[0, j] = C[0, j] + 1",
        "F[i] = F[i] * scale + 1.5",
        "X[i] = X[i] >> Y[i]",
        "U[i] = u8(F[i])",
        "Y[i] = -Y[i]",
    ],
)
def test_it_means_something(text: str) -> None:
    assert checked(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Q[i] = 0", "found the tensor Q; expected one of A, B"),
        ("X[i] = q", "found the scalar q; expected one of imm, scale, n"),
        ("X[i] = s", r"found s, but it is a tensor; expected s\[\]"),
        ("X[i] = imm[]", "imm is a scalar; expected no brackets"),
        ("X[i, j] = 0", "has 2 indices; expected 1"),
        ("X[] = 0", "has 0 indices; expected 1"),
        ("X[16] = 0", "index 16; expected at most 15"),
        ("C[i, j] = i32(A[j, i])", r"axis i of A\[j, i\] is 8; expected 4"),
        ("C[i, i] = 0", "repeats an axis"),
        ("X[i] = X[i] + i32(Y[j]) + X[j]", r"found X\[j\] beside X\[i\]|reads its own target"),
        ("C[i, j] = C[j, i]", r"found C\[j, i\] beside C\[i, j\]"),
        ("X[i] = i32(A[0, k]) + i32(A[1, k])", "expected the same indices everywhere"),
        ("X[i] += X[i]", "'\\+=' reads X already"),
        ("X[i] = X[i] + i32(A[k, j])", "the sum over k, j reads its own target X"),
        ("C[i, j] += A[i, k] * B[k, j]", r"is int8; expected int32: cast it or its parts with i32\(\)"),
        ("Y[i] = X[i]", r"X\[i\] is int32; expected int8: cast it with i8\(\)"),
        ("X[i] = X[i] + i32(U[i] + Y[i])", "Y\\[i\\] is int8 and U\\[i\\] is uint8; expected equal types"),
        ("X[i] = i32(imm + n)", "mixes scalars of int16 and int32"),
        ("F[i] = F[i] + imm", r"imm is int16; expected float32: cast it with f32\(\)"),
        ("F[i] = F[i] & 1", "float32; expected integers for '&'"),
        ("X[i] = X[i] << 1.5", "float32; expected integers for '<<'"),
        ("X[i] = X[i] >> F[i]", "float32; expected integers for '>>'"),
        ("X[i] = rint(X[i])", "rint|float32"),
        ("X[i] = scale", "scale is float32; expected int32"),
        ("Y[i] = 128", "found 128 as int8; expected an integer from -128 to 127"),
        ("U[i] = -1", "found -1 as uint8"),
        ("Y[i] = 0.5", "0.5 is float32; expected int8"),
        ("F[i] = 16777217", "expected an integer that it holds, or a decimal point"),
        ("F[i] = 1e39", r"found 1e\+39 as float32; expected a number that is in range"),
    ],
)
def test_it_means_nothing(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        checked(text)


def test_tensors_and_scalars_of_other_types_are_refused() -> None:
    with pytest.raises(ExpressionError, match="a tensor of uint64"):
        TensorType("uint64", (1,))
    with pytest.raises(ExpressionError, match="positive extents"):
        TensorType("int8", (4, 0))
    with pytest.raises(ExpressionError, match="the scalar n is uint64"):
        check_statement(parse_statement("X[i] = n"), TENSORS, {"n": "uint64"})


def test_strides_are_row_major() -> None:
    assert TensorType("int8", (2, 3, 4)).strides() == (12, 4, 1)
    assert TensorType("int8", ()).strides() == ()
