"""Operators covered as like ones were, by their numbers, against covers made with these numbers."""

from collections.abc import Callable

import pytest

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.expression.parser import parse_statement
from accel.expression.syntax_tree import Access
from accel.lowering.vector.covers import like_operators
from accel.lowering.vector.covers.covered_operators import CoveredOperator, cover_operator
from accel.lowering.vector.covers.like_operators import LikeOperators
from accel.lowering.vector.whole_floats import LegalOperator, LegalStatement, LegalTensor

NPU = Target(load_accelerator("npu"))


def operator(scale: float, offset: float) -> LegalOperator:
    """``y = x * scale + offset`` of 64 floats, as int8."""
    value = parse_statement(f"y[i0] = i8(clip(rint(x[i0] * {scale!r} + {offset!r}), -128.0, 127.0))").value
    tensors = {"x": LegalTensor((64,), "float32"), "y": LegalTensor((64,), "int8")}
    return LegalOperator(tensors, ("x",), "y", (LegalStatement(Access("y", ("i0",)), None, None, value, {"i0": 64}),))


@pytest.fixture
def covered(monkeypatch: pytest.MonkeyPatch) -> Callable[[LegalOperator], tuple[CoveredOperator, bool]]:
    """Covers an operator where that of 0.3 and 0.7 is known, and says whether it was searched."""
    searched: list[LegalOperator] = []

    def search(given: LegalOperator, target: Target, home: str) -> CoveredOperator:
        searched.append(given)
        return cover_operator(given, target, home)

    monkeypatch.setattr(like_operators, "cover_operator", search)
    like = LikeOperators(NPU, "v")
    like.cover(operator(0.3, 0.7))

    def cover(given: LegalOperator) -> tuple[CoveredOperator, bool]:
        searched.clear()
        return like.cover(given), bool(searched)

    return cover


@pytest.mark.parametrize("numbers", [(0.017, 1e3 / 7), (12.0, 0.3), (0.7, 0.3)])
def test_a_like_operator_is_covered_as_if_it_were_searched(
    covered: Callable[[LegalOperator], tuple[CoveredOperator, bool]], numbers: tuple[float, float]
) -> None:
    """Would catch a number that is left, put in another one's place, or replaced twice."""
    found, searched = covered(operator(*numbers))
    assert not searched
    assert found == cover_operator(operator(*numbers), NPU, "v")


@pytest.mark.parametrize(
    "numbers",
    [(0.25, 0.7), (0.3, 0.0), (-0.3, 0.7), (0.9, 0.9), (0.3, 127.0)],
    ids=["power of two", "zero", "sign", "equal numbers", "a number of an instruction"],
)
def test_numbers_that_something_knows_are_searched(
    covered: Callable[[LegalOperator], tuple[CoveredOperator, bool]], numbers: tuple[float, float]
) -> None:
    """Would catch an operator that is taken for one which other instructions do."""
    found, searched = covered(operator(*numbers))
    assert searched
    assert found == cover_operator(operator(*numbers), NPU, "v")
