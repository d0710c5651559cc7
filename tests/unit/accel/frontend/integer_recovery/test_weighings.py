"""Weights of additions against rational numbers: as near as the error says, for all of int8."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.frontend.integer_recovery.operators.addition_recovery import (
    LEVEL,
    WEIGHT_MAX,
    Weighing,
    dyadic_weighing,
    free_weighing,
)
from accel.region.shapes import LEVEL_BITS, split_weights

RATIOS = st.tuples(st.floats(2.0**-6, 2.0**3), st.floats(2.0**-6, 2.0**3))


def off(found: Weighing, ratios: tuple[float, float]) -> Fraction:
    """The most that the sum of two int8, each up to 255 from its zero point, is off by, in steps of the output."""
    unit = Fraction(found.unit)
    pairs = zip(found.factors, ratios, strict=True)
    return sum((255 * abs(unit * factor - Fraction(ratio)) for factor, ratio in pairs), Fraction(0))


@given(RATIOS)
def test_free_weights_are_int8_and_as_near_as_they_say(ratios: tuple[float, float]) -> None:
    found = free_weighing(ratios)
    if found is not None:
        assert 1 <= min(found.factors) <= max(found.factors) <= WEIGHT_MAX
        assert float(off(found, ratios)) <= found.error + 1e-9
        assert found.error <= 0.25


@given(RATIOS)
def test_weights_of_two_levels_are_near_enough_for_any_usual_ratio(ratios: tuple[float, float]) -> None:
    found = dyadic_weighing(ratios)
    assert found is not None or max(ratios) > 4
    if found is not None:
        assert float(off(found, ratios)) + LEVEL / 2 * found.unit <= found.error + 1e-9
        levels = split_weights(found.factors)
        assert levels is not None
        assert all(abs(weight) <= WEIGHT_MAX for level in levels for weight in level)


@given(st.tuples(st.integers(1, WEIGHT_MAX << LEVEL_BITS), st.integers(1, WEIGHT_MAX << LEVEL_BITS)))
def test_levels_are_what_their_sum_says(factors: tuple[int, int]) -> None:
    levels = split_weights(factors)
    assert levels is not None
    total = levels[0] if len(levels) == 1 else tuple(128 * h + low for h, low in zip(*levels, strict=True))
    assert total == factors


@pytest.mark.parametrize("ratios", [(0.5, 0.5), (0.9, 0.3), (1.0, 0.77), (0.061, 1.1)])
def test_usual_ratios_have_both(ratios: tuple[float, float]) -> None:
    assert free_weighing(ratios) is not None
    assert dyadic_weighing(ratios) is not None


def test_two_levels_do_not_reach_any_factor() -> None:
    assert split_weights((1 << 14, 1)) is None
