"""Powers of two, factors in float32, and what fits in an int32 accumulator."""

import math

import numpy as np
import numpy.typing as npt

INT32_MAX = 2**31 - 1
_ROUNDING = 4 * 2.0**-24  # of two scales of data, one of weights, and a division


def exponent(scale: float) -> int | None:
    """The e such that ``scale`` is exactly 2**e, else None."""
    mantissa, power = math.frexp(scale)
    return power - 1 if mantissa == 0.5 else None


def ratio_exponent(scale: float, of: float) -> int | None:
    """The e such that ``scale / of`` is 2**e, as far as the rounding of the float32 that made them lets one say.

    None if there is none. A rounding of each is at most 2**-24 of it.
    """
    ratio = math.log2(scale / of)
    e = round(ratio)
    return e if abs(math.expm1((ratio - e) * math.log(2))) <= _ROUNDING else None


def factor(scale: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """``scale``, of any shape, as a float32 that is never infinite: zero times it must stay zero."""
    return np.minimum(scale, np.finfo(np.float32).max).astype(np.float32)


def requantisation_fits(magnitude: int, shift: int) -> bool:
    """Whether int32 holds every step of shifting a value of at most ``magnitude`` right by ``shift``, rounded."""
    if not -31 < shift < 32:
        return False
    return (magnitude << max(-shift, 0)) + (1 << shift >> 1 if shift > 0 else 0) <= INT32_MAX
