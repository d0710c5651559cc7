"""Layer norm of rows of int8 in integers, as a store computes it: its constants, and a region of it over packed data."""

from dataclasses import dataclass
from typing import ClassVar

from accel.region.rows import Rows

PRODUCTS = 2  # of int8 and int8 that make what is stored
MOST = 127
LARGEST_STORED, LARGEST_SUMMED = PRODUCTS * MOST, MOST


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
    whole, rest = divmod(weight, MOST)
    return (*[MOST] * whole, *([rest] if rest else []))


@dataclass(frozen=True)
class RowLayerNorm(Rows):
    """Layer norm of each row."""

    kind: ClassVar[str] = "row_layer_norm"

    norm: IntegerLayerNorm
