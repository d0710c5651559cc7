"""Powers of two, factors in float32, and what fits in an int32 accumulator."""

import math

import numpy as np
import numpy.typing as npt

INT32_MAX = 2**31 - 1


def exponent(scale: float) -> int | None:
    """The e such that ``scale`` is exactly 2**e, else None."""
    mantissa, power = math.frexp(scale)
    return power - 1 if mantissa == 0.5 else None


def factor(scale: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """``scale``, of any shape, as a float32 that is never infinite: zero times it must stay zero."""
    return np.minimum(scale, np.finfo(np.float32).max).astype(np.float32)


def requantisation_fits(magnitude: int, shift: int) -> bool:
    """Whether int32 holds every step of shifting a value of at most ``magnitude`` right by ``shift``, rounded."""
    if not -31 < shift < 32:
        return False
    return (magnitude << max(-shift, 0)) + (1 << shift >> 1 if shift > 0 else 0) <= INT32_MAX
