"""Integer multipliers that requantise as a float scale would: ``(v * m >> s)`` near ``acc * r``, in int32 throughout.

Let ``r`` be the worth of a unit of the accumulator in steps of the output, and ``z`` the output's zero point. Wanted is
``rint(acc * r) + z``, clipped; the accelerator computes one of

- joined: ``clip((acc + t >> p) * m >> s)``, where ``t = rint((z + 1/2) / r)``, and ``2^(p-1)`` more where p > 0: what
  rounds and the zero point are part of the bias, in units of the accumulator;
- apart: ``clip(((acc + t >> p) * m + 2^(s-1) >> s) + z)``, where ``t`` is ``2^(p-1)`` or, for p = 0, nothing;
- rounded: ``clip((acc + t) * m + 2^(s-1) >> s)``, where ``t = rint(z / r)`` and s > 0: for an instruction that rounds.

Where one instruction multiplies and shifts, nothing may stand before it, and p = 0.

**The bound.** Let Y be the largest distance of a clip bound from z, so that Y steps are all that can be seen. While
``|acc * r| <= Y``, what is shifted last differs from the exact real number, in steps of the output, by at most

- ``m 2^-s / 2`` if p > 0, as the first shift rounds to nearest;
- ``|m 2^-(s+p) / r - 1|`` times the largest sum, ``min(Y, M r)`` with M the bound on the accumulator, and, joined,
  ``|z| + 1/2 + r/2`` more, rounded, ``|z| + r/2``;
- joined or rounded, ``r / 2``, as t is rounded.

Call it e. Then the result and the wanted one are floors of real numbers that differ by at most e; for e < 1 they
differ by at most 1. Beyond Y both are monotone in acc, so the wanted one is at its clip bound, and the result,
which was within 1 of it at the last accumulator before, stays within 1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from accel.frontend.integer.scales import INT32_MAX

Form = Literal["joined", "apart", "rounded"]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

MULTIPLIER_MAX = (1 << 15) - 1  # what a signed immediate of 16 bits holds
_FIRST_SHIFTS = range(21)  # with 15 bits of a multiplier, 16 of the sum are left
_LAST_SHIFT = 30
_LAST_SHIFT_APART = 15  # its half is an immediate of 16 bits too
_GOOD = 1 / 16  # steps: as near as it need be, so that the fewest operations decide
_ENOUGH = 1 / 2  # steps: what is left to 1 is far more than a float32 takes


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


def multiplier(
    ratio: Float64,
    magnitude: Int64,
    zero_point: int,
    limits: tuple[int, int],
    forms: Sequence[Form] = ("joined", "apart"),
) -> Multiplier | None:
    """The multiplier that stands for ``ratio``, a positive scalar or [O]; None if every one is too coarse.

    Args:
        ratio: r, the worth of a unit of the accumulator in steps of the output.
        magnitude: a bound on the absolute value of the accumulator, of the shape of ``ratio``.
        zero_point: z, as int8.
        limits: the bounds of the clip.
        forms: those to choose from; without ``apart`` one instruction does it all, and there is no first shift.
    """
    shifts = _FIRST_SHIFTS if "apart" in forms else _FIRST_SHIFTS[:1]
    reach = max(abs(limit - zero_point) for limit in limits)
    found = [
        candidate
        for before in shifts
        for form in forms
        for candidate in _candidates(ratio, magnitude, (zero_point, reach), before, form)
        if candidate.error <= _ENOUGH
    ]
    return min(found, key=lambda one: (max(one.error, _GOOD), one.operations, one.error), default=None)


def _candidates(
    ratio: Float64, magnitude: Int64, output: tuple[int, int], before: int, form: Form
) -> Iterator[Multiplier]:
    """The finest multiplier for a first shift ``before``, if one keeps within int32; ``output`` is z and Y."""
    zero_point, reach = output
    offset = {"joined": zero_point + 0.5, "apart": 0.0, "rounded": float(zero_point)}[form]
    joining = np.rint(np.clip(offset / ratio, -INT32_MAX, INT32_MAX)).astype(np.int64)
    addend = np.asarray(joining + (1 << before >> 1), np.int64)
    largest = magnitude + np.abs(addend)
    if (largest > INT32_MAX).any():
        return
    shifted = (largest >> before) + 1
    for shift in range(_LAST_SHIFT_APART if form == "apart" else _LAST_SHIFT, 0 if form == "rounded" else -1, -1):
        factors = np.asarray(np.rint(ratio * 2.0 ** (shift + before)))
        half = 0 if form == "joined" or shift == 0 else 1 << shift - 1
        if (factors > MULTIPLIER_MAX).any() or (shifted * factors + half > INT32_MAX).any():
            continue
        worth = factors * 2.0 ** -(shift + before)
        moved = form != "apart"
        seen = np.minimum(reach, magnitude * ratio) + (abs(offset) + ratio / 2 if moved else 0)
        error = np.abs(worth / ratio - 1) * seen + (worth * 2.0**before / 2 if before else 0) + ratio / 2 * moved
        yield Multiplier(before, factors.astype(np.int64), shift, addend, form, float(np.max(error)))
        return
