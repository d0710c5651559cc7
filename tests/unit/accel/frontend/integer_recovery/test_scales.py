import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.frontend.integer_recovery.requantization import INT32_MAX, exact_exponent, requantisation_fits


@given(st.integers(-120, 120))
def test_powers_of_two_have_an_exponent(power: int) -> None:
    assert exact_exponent(2.0**power) == power


@pytest.mark.parametrize("scale", [0.0, -0.5, 0.3, 3.0, float(np.float32(0.1)), np.inf, np.nan])
def test_other_numbers_have_none(scale: float) -> None:
    assert exact_exponent(scale) is None


@given(st.integers(0, 2**33), st.integers(-40, 40))
def test_what_fits_never_leaves_int32(magnitude: int, shift: int) -> None:
    steps = [magnitude, magnitude + 2 ** (shift - 1)] if shift > 0 else [magnitude * 2**-shift]
    fits = max(steps) <= INT32_MAX and abs(shift) < 31
    if shift == 31:  # shifting right by 31 is defined, by more is not
        fits = max(steps) <= INT32_MAX
    assert requantisation_fits(magnitude, shift) == fits
