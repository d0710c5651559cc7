"""Requantisation of an accumulator inside its composite: by a shift, a float, or a multiplier, as the accelerator can.

An integer multiplier requantises as a float scale would: ``(v * m >> s)`` near ``acc * r``, in int32 or a wider type.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from accel.frontend.integer_recovery import composite_functions
from accel.frontend.integer_recovery.rounding_bias import ACCEPTED_BIAS, Rounding, product_tie_bias, tie_bias
from accel.util.arrays import Float32, Float64, Int64

INT32_MAX = 2**31 - 1
HELD_BY_FLOATS = 1 << 24
"""Up to which float32 holds every integer."""

_ROUNDING = 4 * 2.0**-24  # of two scales of data, one of weights, and a division


def exact_exponent(scale: float) -> int | None:
    """Returns the e such that ``scale`` is exactly 2**e, else None."""
    mantissa, power = math.frexp(scale)
    return power - 1 if mantissa == 0.5 else None


def ratio_exponent(scale: float, of: float) -> int | None:
    """Returns the e such that ``scale / of`` is 2**e within the rounding of float32; None if there is none.

    Each of the two was rounded by at most 2**-24 of itself.
    """
    ratio = math.log2(scale / of)
    e = round(ratio)
    return e if abs(math.expm1((ratio - e) * math.log(2))) <= _ROUNDING else None


def as_float32_factor(scale: Float64) -> Float32:
    """Returns ``scale``, of any shape, as a float32 that is never infinite: zero times it must stay zero."""
    return np.minimum(scale, np.finfo(np.float32).max).astype(np.float32)


def requantisation_fits(magnitude: int, shift: int) -> bool:
    """Returns whether int32 holds every step of a rounded right shift by ``shift`` of values up to ``magnitude``."""
    if not -31 < shift < 32:
        return False
    return (magnitude << max(-shift, 0)) + (1 << shift >> 1 if shift > 0 else 0) <= INT32_MAX


Form = Literal["joined", "apart", "rounded"]

MULTIPLIER_MAX = (1 << 15) - 1  # what a signed immediate of 16 bits holds


@dataclass(frozen=True)
class WideProduct:
    """A product of a sum and a multiplier in so many ``bits``, and its shift, in one instruction.

    ``widens``: the sums are narrower. ``form`` says whether a half is added between. Multipliers are up to ``most``,
    shifts from ``least`` to ``last``.
    """

    bits: int
    widens: bool
    form: Literal["joined", "rounded"]
    most: int
    least: int
    last: int

    @property
    def limit(self) -> float:
        """What no product is beyond, with some room for the rounding of float64."""
        return float((1 << self.bits - 1) - (1 << self.bits - 20))


_FIRST_SHIFTS = range(21)  # with 15 bits of a multiplier, 16 of the sum are left
_LAST_SHIFT = 30
_LAST_SHIFT_APART = 15  # its half is an immediate of 16 bits too
_GOOD = 1 / 16  # steps: as near as it need be, so that the fewest operations decide
MANY = 1 << 10  # channels
_ACCEPTED_ERROR = 1 / 2  # steps: what is left to 1 is far more than a float32 takes


@dataclass(frozen=True)
class Multiplier:
    """The numbers of one of the forms (see above).

    ``factors`` are m, int64 [O] or a scalar; ``addend`` is t, of the same shape; ``error`` is e, steps of the output.
    """

    before: int
    factors: Int64
    shift: int
    addend: Int64
    form: Form
    error: float

    @property
    def joined(self) -> bool:
        """Whether what rounds is part of the bias."""
        return self.form == "joined"

    @property
    def operations(self) -> int:
        """Elementwise operations between the bias and the clip."""
        return (self.before > 0) + 1 + (self.shift > 0) + (2 if self.form == "apart" else 0)

    def bias(self, ratio: Float64, zero_point: int, grain: int) -> Float64:
        """Returns the mean error in steps of the output; see :func:`multiplier`, and of what the sums are multiples."""
        odd = np.gcd(self.factors * (1 if self.before else grain), 1 << self.shift) * 2.0**-self.shift
        added = (self.addend - (1 << self.before >> 1)) * ratio  # but for the half of the first shift
        ties = tie_bias(self.before, grain) * 2.0**self.before * ratio
        if self.form == "joined":
            return added - zero_point - (1 - odd) / 2 + ties
        return (added - zero_point if self.form == "rounded" else 0) + (odd / 2 if self.shift else 0) + ties


def multiplier(
    ratio: Float64,
    magnitude: Int64,
    zero_point: int,
    limits: tuple[int, int],
    forms: Sequence[Form] = ("joined", "apart"),
    channels: int = MANY,
    wide: WideProduct | None = None,
) -> Multiplier | None:
    """Returns the multiplier that stands for ``ratio``, a positive scalar or [O]; None if every one is too coarse.

    Args:
        ratio: r, the worth of a unit of the accumulator in steps of the output.
        magnitude: a bound on the absolute value of the accumulator, of the shape of ``ratio``.
        zero_point: z, as int8.
        limits: the bounds of the clip.
        forms: those to choose from; without ``apart`` one instruction does it all, and there is no first shift.
        channels: over which mean errors can cancel.
        wide: the product, if it is wider than int32.
    """
    shifts = _FIRST_SHIFTS if "apart" in forms else _FIRST_SHIFTS[:1]
    reach = max(abs(limit - zero_point) for limit in limits)
    found = [
        candidate
        for before in shifts
        for form in forms
        for candidate in _candidates(ratio, magnitude, (zero_point, reach), before, form, wide)
        if candidate.error <= _ACCEPTED_ERROR
    ]

    def quality(one: Multiplier) -> tuple[float, float, int, float]:
        left = Rounding(one.bias(ratio, zero_point, 1), ratio).left(ratio.size if ratio.ndim else channels)
        return max(left, ACCEPTED_BIAS), max(one.error, _GOOD), one.operations, one.error

    return min(found, key=quality, default=None)


def _candidates(
    ratio: Float64, magnitude: Int64, output: tuple[int, int], before: int, form: Form, wide: WideProduct | None
) -> Iterator[Multiplier]:
    """The finest multiplier for a first shift ``before``, if one keeps within its type; ``output`` is z and Y."""
    zero_point, reach = output
    offset = {"joined": zero_point + 0.5, "apart": 0.0, "rounded": float(zero_point)}[form]
    joining = np.rint(np.clip(offset / ratio, -INT32_MAX, INT32_MAX)).astype(np.int64)
    addend = np.asarray(joining + (1 << before >> 1), np.int64)
    largest = magnitude + np.abs(addend)
    if (largest > INT32_MAX).any():
        return
    shifted = (largest >> before) + 1
    shifts = range(_LAST_SHIFT_APART if form == "apart" else _LAST_SHIFT, 0 if form == "rounded" else -1, -1)
    if wide is not None:
        shifts = range(wide.last, wide.least - 1, -1)
    most, limit = (MULTIPLIER_MAX, INT32_MAX) if wide is None else (wide.most, wide.limit)
    for shift in shifts:
        factors = np.asarray(np.rint(ratio * 2.0 ** (shift + before)))
        if not factors.any():  # by 0 nothing would be left of the sum, which a schedule looks for
            factors = np.ones_like(factors)
        half = 0 if form == "joined" or shift == 0 else 1 << shift - 1
        if (factors > most).any() or (shifted * factors + half > limit).any():
            continue
        worth = factors * 2.0 ** -(shift + before)
        moved = form != "apart"
        seen = np.minimum(reach, magnitude * ratio) + (abs(offset) + ratio / 2 if moved else 0)
        error = np.abs(worth / ratio - 1) * seen + (worth * 2.0**before / 2 if before else 0) + ratio / 2 * moved
        yield Multiplier(before, factors.astype(np.int64), shift, addend, form, float(np.max(error)))
        return


Requantize = Literal["shift", "scale", "multiply", "multiply at once", "multiply and round"] | WideProduct
"""By a shift, a float, or an integer and then a shift: in steps of their own, or in one, without or with its half."""

_FORMS: dict[str, tuple[Form, ...]] = {
    "multiply": ("joined", "apart"),
    "multiply at once": ("joined",),
    "multiply and round": ("rounded",),
}
_ACCEPTED_OFFSET = (
    1 / 2
)  # steps of the output that a zero point may be off by, once it is a whole number of accumulators


@dataclass(frozen=True)
class Accumulator:
    """Sums that fit int32: the worth of one unit of them, and a bound on their absolute value; scalars or [O].

    They are multiples of ``grain``, a power of two, or ``products`` of two tensors, and ``excess`` units too large on
    average. What is added to them is a multiple of ``step``, another one for each of ``channels``.
    """

    scale: Float64
    magnitude: Int64
    grain: int = 1
    products: bool = False
    excess: float = 0.0
    step: int = 1
    channels: int = MANY


@dataclass(frozen=True)
class Output:
    """What they become: int8 of one scale, whose ``zero_point`` stands for 0, clipped to ``limits``."""

    scale: float
    zero_point: int
    limits: tuple[int, int]


FINER = 1 << 6
"""What weights of one can be instead, as int8, so that a constant is rounded to a smaller part of a unit."""


@dataclass(frozen=True)
class Narrowing:
    """An epilogue, what joins the bias for it, and the multiplier of each channel if it has them; scalars or [O].

    ``rounding`` is how far the result is off on average.
    """

    epilogue: composite_functions.AnyEpilogue
    addend: Int64
    rounding: Rounding
    factors: Int64 | None = None

    def too_coarse(self, channels: int) -> bool:
        """Returns whether weights have to be finer for a float to requantise without bias, over ``channels``."""
        scaled = isinstance(self.epilogue, composite_functions.ScaledEpilogue)
        return scaled and self.rounding.left(channels) > ACCEPTED_BIAS


def epilogue_of(acc: Accumulator, output: Output, requantize: Requantize) -> Narrowing | str:
    """Returns the epilogue that brings ``acc`` to ``output``; or why there is none."""
    if acc.scale.ndim and (acc.scale == acc.scale[0]).all():
        acc = replace(acc, scale=acc.scale[0], magnitude=np.asarray(acc.magnitude.max()))
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
    epilogue = composite_functions.ShiftEpilogue(shift, *output.limits)
    rounding = _rounding(acc, output, np.asarray(tie_bias(shift, acc.grain)))
    if acc.products and shift > 0:
        ties = np.asarray(product_tie_bias(shift))
        rounding = Rounding(ties, 2 * ties)
    return Narrowing(epilogue, np.asarray(addend, np.int64), rounding)


def _rounding(acc: Accumulator, output: Output, bias: Float64) -> Rounding:
    """How far the result is off on average, where requantising the sums is off by ``bias``."""
    ratio = acc.scale / output.scale
    step = max(acc.step, acc.grain)
    return Rounding(bias + acc.excess * ratio, ratio * step, step)


def _scaled(acc: Accumulator, output: Output) -> Narrowing | str:
    """By one float; a zero point is added before it, rounded to whole accumulators."""
    if acc.scale.ndim:
        return "each channel has a scale of its own"
    ratio = float(acc.scale) / output.scale
    addend = 0 if output.zero_point == 0 else round(output.zero_point / ratio)
    if abs(addend * ratio - output.zero_point) > _ACCEPTED_OFFSET:
        return "the result's zero point is no whole number of accumulators"
    if int(acc.magnitude.max()) + abs(addend) > INT32_MAX:
        return "the sums with the result's zero point overflow int32"
    return Narrowing(
        composite_functions.ScaledEpilogue(float(as_float32_factor(np.array(ratio))), *output.limits),
        np.asarray(addend),
        _rounding(acc, output, np.asarray(addend * ratio - output.zero_point)),
    )


def _multiplied(acc: Accumulator, output: Output, requantize: Requantize) -> Narrowing | str:
    """By integers; channels that have one scale have one multiplier, which the instruction itself may hold."""
    wide = requantize if isinstance(requantize, WideProduct) else None
    forms = (wide.form,) if wide is not None else _FORMS[str(requantize)]
    ratio = acc.scale / output.scale
    magnitude = acc.magnitude if ratio.ndim else acc.magnitude.max()
    found = multiplier(ratio, np.asarray(magnitude), output.zero_point, output.limits, forms, acc.channels, wide)
    if found is None:
        bits = (MULTIPLIER_MAX if wide is None else wide.most).bit_length()
        return f"no multiplier of {bits} bits is within half a step of the scales' ratio for all sums"
    alike = np.unique(found.factors)
    epilogue = composite_functions.MultipliedEpilogue(
        found.before,
        int(alike[0]) if len(alike) == 1 else None,
        rounds=not found.joined and found.shift > 0,
        shift=found.shift,
        zero_point=output.zero_point if found.form == "apart" else 0,
        low=output.limits[0],
        high=output.limits[1],
        product=wide.bits if wide is not None and wide.widens else 0,
    )
    rounding = _rounding(acc, output, np.asarray(found.bias(ratio, output.zero_point, acc.grain)))
    return Narrowing(epilogue, found.addend, rounding, None if len(alike) == 1 else found.factors)
