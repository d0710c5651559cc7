"""Integers as floats: as far as float32 holds them."""

import numpy as np
import pytest

from accel.expression.syntax_tree import Access, Binary, Literal
from accel.lowering.vector.whole_floats import FLOAT, LegalOperator, LegalStatement, LegalTensor, as_floats

MOST = 190_500  # the sum of 1,500 elements of int8


def scaled(factor: int) -> LegalOperator:
    """``y = x * factor``, of int32."""
    tensors = {name: LegalTensor((6, 64), "int32") for name in ("x", "y")}
    y, x = (Access(name, ("a0", "a1")) for name in ("y", "x"))
    value = Binary("*", x, Literal(factor))
    return LegalOperator(tensors, ("x",), "y", (LegalStatement(y, None, None, value, {"a0": 6, "a1": 64}),))


@pytest.mark.parametrize("factor", [128, -128, 64, 1 << 13])
def test_a_power_of_two_times_what_float32_holds_is_held_beyond_24_bits(factor: int) -> None:
    """It would catch sums of columns, times the zero point of a softmax, that go to the host."""
    found = as_floats(scaled(factor), [(-MOST, MOST)])
    assert found.tensors["y"].dtype == FLOAT
    assert found.range == (-MOST * abs(factor), MOST * abs(factor))
    held = np.array([MOST, MOST - 1, 12_345, -MOST + 7], np.int64)
    assert (held.astype(np.float32) * np.float32(factor) == held * factor).all()


@pytest.mark.parametrize(("factor", "why"), [(100, "more digits than 24 bits"), (1 << 14, "no int32 holds it")])
def test_other_products_stay_integers(factor: int, why: str) -> None:
    assert as_floats(scaled(factor), [(-MOST, MOST)]) == scaled(factor), why


def test_what_is_beyond_24_bits_is_not_added_to() -> None:
    """It would catch a sum whose last digits float32 lacks."""
    first = scaled(128).statements[0]
    plus = Binary("+", first.value, Literal(1))
    operator = scaled(128)
    more = LegalOperator(
        operator.tensors, ("x",), "y", (LegalStatement(first.target, None, None, plus, first.extents),)
    )
    assert as_floats(more, [(-MOST, MOST)]) == more
