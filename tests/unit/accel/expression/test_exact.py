"""Products in their simplest form compute what they did; those that may lose a bit stay as they are."""

import numpy as np
import pytest

from accel.expression.element_types import TensorType
from accel.expression.parser import parse_statement
from accel.expression.simplify import simplify_product
from accel.expression.typecheck import Typed, check_statement
from tests.reference.compiled_statement import compile_statement

_CANONICAL = "C[i, j] += i32(A[i, k]) * i32(B[k, j])"


def typed(value: str, data: str = "int8", weights: str = "int8", target: str = "int32") -> Typed:
    tensors = {
        "C": TensorType(target, (2, 3)),
        "A": TensorType(data, (2, 5)),
        "B": TensorType(weights, (5, 3)),
    }
    return check_statement(parse_statement(f"C[i, j] += {value}"), tensors, {})


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ("i32(i16(A[i, k]) * i16(B[k, j]))", "int8"),
        ("i32(i16(A[i, k]) * i16(B[k, j]))", "uint8"),
        ("i32(i32(A[i, k]) * i32(B[k, j]))", "int8"),
        ("i32(i16(A[i, k])) * i32(i32(B[k, j]))", "int8"),
        ("i32(i32(i16(i16(A[i, k]) * i16(B[k, j]))))", "int8"),
    ],
)
def test_casts_that_change_nothing_go(value: str, data: str) -> None:
    before = typed(value, data)
    after = simplify_product(before)
    assert str(after.statement) == _CANONICAL
    rng = np.random.default_rng(7)
    low, high = np.iinfo(data).min, np.iinfo(data).max
    for _ in range(3):
        tensors = {
            "C": rng.integers(-(1 << 30), 1 << 30, (2, 3), np.int32),
            "A": rng.choice([low, high, 1, 0], (2, 5)).astype(data),
            "B": rng.choice([-128, 127, -1, 0], (5, 3)).astype(np.int8),
        }
        wanted = tensors["C"] + tensors["A"].astype(np.int64) @ tensors["B"].astype(np.int64)
        for made in (before, after):
            np.testing.assert_array_equal(compile_statement(made)(tensors, {}), wanted.astype(np.int32))


@pytest.mark.parametrize(
    ("value", "data", "weights"),
    [
        ("i32(A[i, k]) * i32(B[k, j])", "int8", "int8"),
        ("i32(A[i, k] * B[k, j])", "int8", "int8"),
        ("i32(u16(A[i, k]) * u16(B[k, j]))", "int8", "int8"),
        ("i32(i16(A[i, k]) * i16(B[k, j]))", "uint8", "uint8"),
        ("i32(i16(u8(A[i, k])) * i16(B[k, j]))", "int8", "int8"),
        ("i32(i8(A[i, k])) * i32(B[k, j])", "uint8", "int8"),
        ("i32(f32(A[i, k]) * f32(B[k, j]))", "int8", "int8"),
        ("i32(A[i, k]) + i32(B[k, j])", "int8", "int8"),
    ],
)
def test_what_may_lose_a_bit_stays(value: str, data: str, weights: str) -> None:
    before = typed(value, data, weights)
    assert simplify_product(before) is before
