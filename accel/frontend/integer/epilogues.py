"""How an accumulator is requantised inside its composite: by a shift, a float, or a multiplier, as the accelerator can.

A zero point of the output joins the bias wherever the result stays within a step of the model's own arithmetic.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from accel.frontend.integer import composites
from accel.frontend.integer.multipliers import Form, multiplier
from accel.frontend.integer.scales import INT32_MAX, factor, ratio_exponent, requantisation_fits

Requantize = Literal["shift", "scale", "multiply", "multiply at once", "multiply and round"]
"""By a shift, a float, or an integer and then a shift: in steps of their own, or in one, without or with its half."""
Int64 = npt.NDArray[np.int64]

_FORMS: dict[str, tuple[Form, ...]] = {
    "multiply": ("joined", "apart"),
    "multiply at once": ("joined",),
    "multiply and round": ("rounded",),
}
_ENOUGH = 1 / 2  # steps of the output that a zero point may be off by, once it is a whole number of accumulators


@dataclass(frozen=True)
class Accumulator:
    """Sums that fit int32: the worth of one unit of them, and a bound on their absolute value; scalars or [O]."""

    scale: npt.NDArray[np.float64]
    magnitude: Int64


@dataclass(frozen=True)
class Output:
    """What they become: int8 of one scale, whose ``zero_point`` stands for 0, clipped to ``limits``."""

    scale: float
    zero_point: int
    limits: tuple[int, int]


@dataclass(frozen=True)
class Narrowing:
    """An epilogue, what joins the bias for it, and the multiplier of each channel if it has them; scalars or [O]."""

    epilogue: composites.AnyEpilogue
    addend: Int64
    factors: Int64 | None = None


def epilogue_of(acc: Accumulator, output: Output, requantize: Requantize) -> Narrowing | str:
    """The epilogue that brings ``acc`` to ``output``; or why there is none."""
    if acc.scale.ndim and (acc.scale == acc.scale[0]).all():
        acc = Accumulator(acc.scale[0], np.asarray(acc.magnitude.max()))
    if requantize == "scale":
        return _scaled(acc, output)
    shifted = _shifted(acc, output)
    if isinstance(shifted, Narrowing) or requantize == "shift":
        return shifted
    return _multiplied(acc, output, requantize)


def _shifted(acc: Accumulator, output: Output) -> Narrowing | str:
    if acc.scale.ndim:
        return "each channel has a scale of its own"
    shift = ratio_exponent(output.scale, float(acc.scale))
    if shift is None:
        return "the scales do not differ by a power of two"
    if shift < 0 and output.zero_point % (1 << -shift):
        return "the result's zero point is no whole number of accumulators"
    addend = output.zero_point << shift if shift >= 0 else output.zero_point >> -shift
    if not requantisation_fits(int(acc.magnitude.max()) + abs(addend), shift):
        return f"shifting by {shift} overflows int32"
    return Narrowing(composites.Epilogue(shift, *output.limits), np.asarray(addend, np.int64))


def _scaled(acc: Accumulator, output: Output) -> Narrowing | str:
    """By one float; a zero point is added before it, rounded to whole accumulators."""
    if acc.scale.ndim:
        return "each channel has a scale of its own"
    ratio = float(acc.scale) / output.scale
    addend = 0 if output.zero_point == 0 else round(output.zero_point / ratio)
    if abs(addend * ratio - output.zero_point) > _ENOUGH:
        return "the result's zero point is no whole number of accumulators"
    if int(acc.magnitude.max()) + abs(addend) > INT32_MAX:
        return "the sums with the result's zero point overflow int32"
    return Narrowing(composites.ScaledEpilogue(float(factor(np.array(ratio))), *output.limits), np.asarray(addend))


def _multiplied(acc: Accumulator, output: Output, requantize: Requantize) -> Narrowing | str:
    """By integers; channels that have one scale have one multiplier, which the instruction itself may hold."""
    forms = _FORMS[requantize]
    ratio = acc.scale / output.scale
    magnitude = acc.magnitude if ratio.ndim else acc.magnitude.max()
    found = multiplier(ratio, np.asarray(magnitude), output.zero_point, output.limits, forms)
    if found is None:
        return "no multiplier of 15 bits is within half a step of the scales' ratio for all sums"
    alike = np.unique(found.factors)
    epilogue = composites.MultipliedEpilogue(
        found.before,
        int(alike[0]) if len(alike) == 1 else None,
        rounds=not found.joined and found.shift > 0,
        shift=found.shift,
        zero_point=output.zero_point if found.form == "apart" else 0,
        low=output.limits[0],
        high=output.limits[1],
    )
    return Narrowing(epilogue, found.addend, None if len(alike) == 1 else found.factors)
