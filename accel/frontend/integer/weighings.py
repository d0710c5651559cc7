"""Integer weights for the operands of an addition: ``a * m + b * n``, in units of c steps of the output.

Let ``r`` and ``q`` be the worth of a unit of a and of b in steps of the output. Wanted is a ``c`` with ``c m`` near
``r`` and ``c n`` near ``q``. As int8 is at most 128 away from 0, and its zero point as far, the sum is off by at most
``256 (|c m - r| + |c n - q|)`` steps: the bound that is the ``error`` of a weighing.

- Where anything can be c, m and n are int8, at most 127: the two whose ratio comes nearest that of r and q.
- Where c must be a power of two, a single int8 is too coarse. m and n then have two parts of 7 bits,
  ``m = 128 h + l``, and c is the power of two that makes the larger of them fill 14 bits. What is added to such a sum
  is a multiple of 128, so that it can be there before the lower parts are: half of that more is the error.
"""

from dataclasses import dataclass

import numpy as np

_REACH = 256  # how far int8 is from its zero point, at most
WEIGHT_MAX = 127
LEVEL = 1 << 7  # a unit of the upper part
_LEVELS_MAX = WEIGHT_MAX * LEVEL
_ENOUGH = 1 / 4  # steps; what requantises the sum has errors of its own


@dataclass(frozen=True)
class Weighing:
    """``a * factors[0] + b * factors[1]``; a unit of it is worth ``unit`` steps of the output.

    What is added to it is a multiple of ``grain``.
    """

    factors: tuple[int, int]
    unit: float
    error: float
    grain: int = 1


def free_weighing(ratios: tuple[float, float]) -> Weighing | None:
    """The finest of int8 weights, if it is fine enough; ``ratios`` are r and q."""
    m, n = np.meshgrid(np.arange(1, WEIGHT_MAX + 1), np.arange(1, WEIGHT_MAX + 1), indexing="ij")
    found = []
    for unit in (
        ratios[0] / m,
        ratios[1] / n,
    ):  # the error is piecewise linear in c: one of the two is exact at its least
        errors = _REACH * (np.abs(unit * m - ratios[0]) + np.abs(unit * n - ratios[1]))
        at = np.unravel_index(int(np.argmin(errors)), errors.shape)
        found.append(Weighing((int(m[at]), int(n[at])), float(unit[at]), float(errors[at])))
    best = min(found, key=lambda one: one.error)
    return best if best.error <= _ENOUGH else None


def dyadic_weighing(ratios: tuple[float, float]) -> Weighing | None:
    """Of two levels, whose unit is a power of two, if it is fine enough; ``ratios`` are r and q."""
    shift = int(np.floor(np.log2(_LEVELS_MAX / max(ratios))))
    unit = 2.0**-shift
    factors = tuple(round(ratio / unit) for ratio in ratios)
    error = _REACH * sum(abs(factor * unit - ratio) for factor, ratio in zip(factors, ratios, strict=True))
    error += LEVEL / 2 * unit
    # below a shift of 8 the half that rounds is no multiple of the grain
    enough = error <= _ENOUGH and shift > LEVEL.bit_length() - 1 and min(factors) > 0
    return Weighing((factors[0], factors[1]), unit, error, LEVEL) if enough else None
