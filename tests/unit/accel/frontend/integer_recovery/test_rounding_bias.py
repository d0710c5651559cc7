"""Mean errors of rounding that are foretold, against those of every integer; and what balances them."""

import numpy as np
import pytest

from accel.frontend.integer_recovery.requantization import (
    Accumulator,
    Form,
    Multiplier,
    Narrowing,
    Output,
    epilogue_of,
    multiplier,
)
from accel.frontend.integer_recovery.rounding_bias import ROUNDED, Rounding, RoundingSides, product_tie_bias, tie_bias

SUMS = np.arange(-20000, 20000, dtype=np.int64)


@pytest.mark.parametrize(("shift", "grain"), [(1, 1), (2, 1), (3, 2), (5, 4), (9, 1), (0, 1), (2, 4)])
def test_ties_of_every_integer(shift: int, grain: int) -> None:
    sums = SUMS[: len(SUMS) // (1 << shift) * (1 << shift)] * grain
    rounded = (sums + (1 << shift >> 1)) >> shift
    assert (rounded - sums / 2**shift).mean() == pytest.approx(tie_bias(shift, grain), abs=1e-9)


@pytest.mark.parametrize("shift", [1, 2, 5, 7])
def test_ties_of_every_product(shift: int) -> None:
    a, b = np.meshgrid(np.arange(-128, 128), np.arange(-128, 128))
    products = (a * b).ravel()
    errors = ((products + (1 << shift >> 1)) >> shift) - products / 2**shift
    assert errors.mean() == pytest.approx(product_tie_bias(shift), abs=2e-3)


def requantised(found: Multiplier, sums: np.ndarray, zero_point: int) -> np.ndarray:
    value = ((sums + found.addend) >> found.before) * found.factors
    half = 0 if found.joined or not found.shift else 1 << found.shift - 1
    return ((value + half) >> found.shift) + (zero_point if found.form == "apart" else 0)


@pytest.mark.parametrize("forms", [("joined", "apart"), ("joined",), ("rounded",)])
@pytest.mark.parametrize(("ratio", "zero_point"), [(0.0123, 7), (0.093, 0), (0.31, -19), (0.5, 3), (0.703, -64)])
def test_multipliers_are_off_by_what_is_foretold(forms: tuple[Form, ...], ratio: float, zero_point: int) -> None:
    found = multiplier(np.asarray(ratio), np.asarray(20000), zero_point, (-128, 127), forms)
    assert found is not None
    worth = float(found.factors) * 2.0 ** -(found.shift + found.before)  # a long way from zero the ratio's error counts
    errors = requantised(found, SUMS, zero_point) - (SUMS * worth + zero_point)
    assert errors.mean() == pytest.approx(float(found.bias(np.asarray(ratio), zero_point, 1)), abs=5e-3)


def test_few_channels_take_the_multiplication_that_is_not_biased() -> None:
    def bias(channels: int) -> float:
        acc = Accumulator(np.asarray(0.093), np.asarray(2000), channels=channels)
        found = epilogue_of(acc, Output(1.0, 0, (-128, 127)), "multiply")
        assert isinstance(found, Narrowing)
        return found.rounding.mean

    assert bias(64) > 0.02  # a constant of each channel balances it, for two operations less
    assert bias(1) < 1e-3


def test_channels_take_turns_and_swap() -> None:
    half = Rounding(np.asarray(0.25), np.asarray(0.5))
    np.testing.assert_array_equal(half.offsets(5), [0, -1, 0, -1, 0])
    np.testing.assert_array_equal(half.offsets(5, turn=1), [-1, 0, -1, 0, -1])
    assert half.left(64) == 0
    assert half.left(5) == pytest.approx(0.25 / 5)
    nearly = Rounding(np.asarray(0.25), np.asarray(0.5 - 1e-8))  # of scales whose quotient float32 has rounded
    np.testing.assert_array_equal(nearly.offsets(5), half.offsets(5))
    np.testing.assert_array_equal(nearly.offsets(5, turn=1), half.offsets(5, turn=1))


@pytest.mark.parametrize("bias", [-0.35, -0.07, 0.03, 0.21])
def test_a_part_of_a_unit_is_taken_by_a_part_of_the_channels(bias: float) -> None:
    some = Rounding(np.asarray(bias), np.asarray(0.7), step=128)
    offsets = some.offsets(1000)
    assert set(np.unique(offsets)) <= {-128, 0, 128}
    assert (offsets / 128 * 0.7).mean() == pytest.approx(-bias, abs=1e-3)


@pytest.mark.parametrize("bias", [-0.3, -0.1, 0.2, 0.3])
def test_few_channels_are_left_with_half_a_unit_at_most(bias: float) -> None:
    for channels in (1, 2, 3):
        assert Rounding(np.asarray(bias), np.asarray(0.7)).left(channels) <= 0.35 / channels + 1e-9


@pytest.mark.parametrize(
    ("shape", "laid_out"),
    [
        ([1, 16, 3, 3], [1, 16, 3, 3]),
        ([1, 13, 3, 3], [1, 13, 3, 3]),  # a 13th of a quarter is little enough
        ([2, 3, 4, 4], [2, 6, 1, 8]),
        ([2, 1, 3, 5], [2, 15, 1, 1]),
        ([6, 7], [3, 14]),
        ([1, 3], [1, 3]),
    ],
)
def test_few_channels_are_laid_out_as_more(shape: list[int], laid_out: list[int]) -> None:
    half = Rounding(np.asarray(0.25), np.asarray(0.5))
    assert RoundingSides(ROUNDED).shape("addition", shape, half) == laid_out
    assert RoundingSides(()).shape("addition", shape, half) == shape


def test_what_is_left_is_noted() -> None:
    half = Rounding(np.asarray(0.25), np.asarray(0.5))
    sides = RoundingSides(frozenset({"layer"}))
    assert not sides.offsets("elementwise", half, 16, "relu").any()
    sides.offsets("layer", half, 16, "wide")
    sides.offsets("layer", half, 3, "few")
    assert {name: (round(bias.error, 3), bias.balanced) for name, bias in sides.biases.items()} == {
        "relu": (0.25, False),
        "few": (0.083, True),
    }
