"""Integer multipliers against rational numbers: within a step for every sum, and nowhere beyond int32."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.frontend.integer_recovery.requantization import MULTIPLIER_MAX, Multiplier, multiplier
from tests.helpers.marking import share

INT32_MAX = 2**31 - 1


def wanted(acc: int, ratio: float, zero_point: int, limits: tuple[int, int]) -> int:
    """ONNX's QuantizeLinear in exact numbers; ``round`` of a Fraction rounds half to even."""
    return min(max(round(acc * Fraction(ratio)) + zero_point, limits[0]), limits[1])


def int32(value: int) -> int:
    assert -INT32_MAX - 1 <= value <= INT32_MAX
    return value


def shifted_last(acc: int, found: Multiplier, channel: int) -> int:
    """What the accelerator shifts last, in the order of its steps."""
    factors, addends = (np.broadcast_to(value, 3) for value in (found.factors, found.addend))
    value = int32(int32(acc) + int(addends[channel])) >> found.before
    value = int32(value * int(factors[channel]))
    return value if found.joined or not found.shift else int32(value + (1 << found.shift - 1))


def computed(acc: int, found: Multiplier, channel: int, zero_point: int, limits: tuple[int, int]) -> int:
    """What the accelerator does."""
    value = (shifted_last(acc, found, channel) >> found.shift) + (0 if found.joined else zero_point)
    return min(max(value, limits[0]), limits[1])


def off(acc: int, found: Multiplier, channel: int, ratio: float, zero_point: int) -> Fraction:
    """How far what is shifted last is from the exact number, in steps of the output."""
    rounds = Fraction(1, 2) if found.joined or found.shift else 0
    exact = acc * Fraction(ratio) + rounds + (zero_point if found.joined else 0)
    return abs(Fraction(shifted_last(acc, found, channel), 1 << found.shift) - exact)


def sums(magnitude: int, ratio: float, around: tuple[int, ...]) -> list[int]:
    """Sums where results change, and the ends."""
    edges = [round(step / Fraction(ratio)) for step in around]
    near = [edge + offset for edge in edges for offset in (-1, 0, 1)]
    return [max(-magnitude, min(magnitude, acc)) for acc in (*near, -magnitude, magnitude, 0)]


@pytest.mark.slow
@settings(deadline=None, max_examples=share(100))
@given(
    exponents=st.lists(st.floats(-24, 1.5), min_size=3, max_size=3),
    bits=st.lists(st.floats(3, 30.9), min_size=3, max_size=3),
    scalar=st.booleans(),
    zero_point=st.integers(-128, 127),
    low=st.integers(-128, 0),
    steps=st.lists(st.integers(-300, 300), min_size=4, max_size=8),
    halves=st.booleans(),
)
def test_every_sum_is_within_a_step(
    exponents: list[float],
    bits: list[float],
    zero_point: int,
    low: int,
    steps: list[int],
    *,
    scalar: bool,
    halves: bool,
) -> None:
    ratio = np.exp2(np.array(exponents[0] if scalar else exponents))
    magnitude = np.exp2(np.array(bits[0] if scalar else bits)).astype(np.int64)
    limits = (low, 127)
    found = multiplier(ratio, magnitude, zero_point, limits)
    if found is None:
        return
    assert found.error <= 0.5
    assert found.factors.max() <= MULTIPLIER_MAX
    around = tuple(Fraction(2 * step + halves, 2) for step in steps)
    for channel in range(1 if scalar else 3):
        r, m = (np.atleast_1d(value)[channel] for value in (ratio, magnitude))
        for acc in sums(int(m), float(r), around):
            got, want = computed(acc, found, channel, zero_point, limits), wanted(acc, float(r), zero_point, limits)
            assert abs(got - want) <= 1, (acc, got, want)
            if abs(acc * r) <= max(abs(limit - zero_point) for limit in limits):
                assert off(acc, found, channel, float(r), zero_point) <= found.error + 1e-9


@pytest.mark.slow
@given(exponent=st.floats(-16, -4), headroom=st.floats(0, 5), zero_point=st.integers(-128, 127))
def test_a_layer_whose_sums_are_a_few_times_what_can_be_seen_has_one(
    exponent: float, headroom: float, zero_point: int
) -> None:
    """So no usual layer is left to the host: sums up to 32 times the range of int8, of a ratio below 1/16."""
    ratio = np.asarray(2.0**exponent)
    found = multiplier(ratio, np.asarray(round(256 * 2**headroom / ratio)), zero_point, (-128, 127))
    assert found is not None
    assert found.error < 0.1


def test_the_bias_takes_the_rounding_where_sums_are_finer_than_steps() -> None:
    found = multiplier(np.asarray(0.001), np.asarray(200_000), 7, (-128, 127))
    assert found is not None
    assert found.joined
    assert int(found.addend) == pytest.approx(7500, abs=2**found.before)


def test_the_rounding_stays_apart_where_sums_are_as_coarse_as_steps() -> None:
    found = multiplier(np.asarray(0.77), np.asarray(128), 7, (-128, 127))
    assert found is not None
    assert (found.joined, found.before, int(found.addend)) == (False, 0, 0)


def test_channels_of_very_different_scales_share_a_shift_while_that_is_fine_enough() -> None:
    ratio = np.array([1e-3, 1e-5])
    found = multiplier(ratio, np.array([200_000, 200_000]), 0, (-128, 127))
    assert found is not None
    assert found.factors[0] > 90 * found.factors[1]


def test_none_is_found_where_int32_is_too_short() -> None:
    assert multiplier(np.asarray(2.0), np.asarray(2**31 - 1), 0, (-128, 127)) is None


@pytest.mark.parametrize("ratio", [2.0**-34, 1e-12])
def test_sums_that_all_round_to_nothing_are_multiplied_by_something(ratio: float) -> None:
    """Would catch a factor of 0: a loop nest that reads no sum has no products to put on an accelerator."""
    found = multiplier(np.array(ratio), np.array(1 << 12), 5, (-128, 127))
    assert found is not None
    assert found.factors.any()
    for acc in (-(1 << 12), -1, 0, 1, 1 << 12):
        assert computed(acc, found, 0, 5, (-128, 127)) == wanted(acc, ratio, 5, (-128, 127)) == 5
