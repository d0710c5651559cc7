"""Softmax of rows of int8 in I-BERT's integers: its constants, and a region of it over packed data.

The exponential is ``2**-z`` of a parabola (Kim et al., "I-BERT: Integer-only BERT Quantization", 2021).
"""

from dataclasses import dataclass
from typing import ClassVar

from accel.region.rows import Rows

INVERSE_BITS = 16  # that a product with the inverse of ln 2 has behind the point
UNIT = 127
"""What a result of 1 is, times ``2**octaves``."""


@dataclass(frozen=True)
class IntegerSoftmax:
    """Constants of softmax of ``q = weight * x``, whose unit they are in.

    Of q below the largest of its row by d, ``z = d * inverse >> 16`` and ``e = ((z * ln2 - d + b)**2 + c) >> z``. The
    result is ``clip(rint(f32(e) * (f32(127) / f32(sum))), -128, 127)``, half to even, of the sum of the exponentials
    over all of the row where q is less by ``octaves * ln2``: so it is ``127 * 2**octaves`` times softmax.
    """

    weight: int
    ln2: int
    inverse: int
    b: int
    c: int
    octaves: int = 0

    @property
    def offset(self) -> int:
        """By how much what is summed is less than what is stored."""
        return -self.octaves * self.ln2


@dataclass(frozen=True)
class RowSoftmax(Rows):
    """Softmax of each row."""

    kind: ClassVar[str] = "row_softmax"

    softmax: IntegerSoftmax
