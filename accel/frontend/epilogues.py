"""How an accumulator is requantised inside its composite: by a shift, or by a float, as the accelerator can."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from accel.frontend import composites
from accel.frontend.scales import factor, ratio_exponent, requantisation_fits

Requantize = Literal["shift", "scale"]


@dataclass(frozen=True)
class Accumulator:
    """A sum that fits int32: the worth of one unit of it, and a bound on its absolute value."""

    scale: float
    magnitude: int


def epilogue_of(
    acc: Accumulator, output_scale: float, limits: tuple[int, int], requantize: Requantize
) -> composites.AnyEpilogue | str:
    """The epilogue that brings ``acc`` to int8 of ``output_scale``, clipped to ``limits``; or why there is none."""
    if requantize == "scale":
        return composites.ScaledEpilogue(float(factor(np.array(acc.scale / output_scale))), *limits)
    shift = ratio_exponent(output_scale, acc.scale)
    if shift is None:
        return "the scales do not differ by a power of two"
    if not requantisation_fits(acc.magnitude, shift):
        return f"shifting by {shift} overflows int32"
    return composites.Epilogue(shift, *limits)
