"""Layer norm of rows of int8 in integers, as a store computes it: its weights, and a region of it over packed data.

A deviation is cut to whole units, so that what it is of has as large a weight as fits.
"""

from dataclasses import dataclass
from typing import ClassVar

from accel.region.rows import Rows

PRODUCTS = 2  # of int8 and int8 that make what is stored
_MOST = 127
LARGEST_STORED, LARGEST_SUMMED = PRODUCTS * _MOST, _MOST
_LARGEST = 128  # deviations of int8 from any mean lie within twice that, and their mean square within its square
_INT32_MAX = (1 << 31) - 1
_OFF = 0.5  # steps that the largest result may be off, as the unit is a quotient of two weights
_EPSILON = 1.0  # squares of a step of the data, at most, that are passed over of a variance


@dataclass(frozen=True)
class IntegerLayerNorm:
    """The weights of layer norm without gains and offsets, of int8 x in rows of n.

    What is stored is of ``p = stored * x``, and the deviation is that of ``q = summed * x``: of ``m(v)``, the mean of a
    row cut towards 0, and ``s = max(isqrt(sum of (q - m(q))**2 / n), 1)`` the result is ``clip(rint(f32(p - m(p)) *
    (f32(1) / f32(s))), -128, 127)``, half to even. So it is the norm in units of ``summed / stored``.
    """

    stored: int
    summed: int

    @property
    def factors(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Both weights as sums of int8, the fewest."""
        return _int8_parts(self.stored), _int8_parts(self.summed)


def _int8_parts(weight: int) -> tuple[int, ...]:
    whole, rest = divmod(weight, _MOST)
    return (*[_MOST] * whole, *([rest] if rest else []))


def layer_norm_of_integers(scale: float, columns: int) -> IntegerLayerNorm | None:
    """Returns the weights of rows of so many columns whose results are worth ``scale``; None if there are none.

    Of those that are near enough what is summed has the largest weight.
    """
    most = min(LARGEST_SUMMED, int((_INT32_MAX / max(columns, 1)) ** 0.5 / _LARGEST))
    for summed in range(most, 0, -1):
        stored = round(summed / scale)
        if 1 <= stored <= LARGEST_STORED and abs(stored * scale / summed - 1) * _MOST <= _OFF:
            return IntegerLayerNorm(stored, summed)
    return None


def epsilon_counts(epsilon: float, scale: float) -> bool:
    """Returns whether what a norm adds to variances is more than the integers of data worth ``scale`` can pass over."""
    return epsilon > _EPSILON * scale * scale


@dataclass(frozen=True)
class RowLayerNorm(Rows):
    """Layer norm of each row."""

    kind: ClassVar[str] = "row_layer_norm"

    norm: IntegerLayerNorm
