"""The scales to choose from: a geometric sequence, and what int8 loses at each of them."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Scales = Literal["power of two", "free"]

_OCTAVES = 4  # how far below the scale that just holds every value to look
_INT8_MAX = 127
_MAX_EXPONENT = 55  # the product of two scales is still a normal float32


@dataclass(frozen=True)
class Loss:
    """The ``energy`` of a tensor, summed over its elements, and its squared error by the index of the scale."""

    energy: float
    errors: dict[int, float]


@dataclass(frozen=True)
class Grid:
    """The scales ``base * 2**(index / density)``, for every integer ``index``, rounded to float32.

    The ratio of two of them whose indices are congruent modulo ``density`` is exactly a power of two. ``base`` is at
    least 1 and less than 2.
    """

    density: int
    base: float = 1.0

    def with_base(self, base: float) -> "Grid":
        """The grid of the same density over another base."""
        return replace(self, base=base)

    def scale(self, index: int) -> float:
        """A float32 number."""
        octave, step = divmod(index, self.density)
        return math.ldexp(float(np.float32(self.base * 2.0 ** (step / self.density))), octave)

    def ceiling(self, scale: float) -> int:
        """The least index whose scale, before it is rounded, is at least ``scale``, which is positive."""
        return int(np.ceil(self.density * np.log2(scale / self.base)))

    def candidates(self, largest: float) -> list[int]:
        """The indices from the power of two that just holds ``largest`` in int8 to four octaves finer, which clip."""
        top = int(np.ceil(np.log2(largest / _INT8_MAX / self.base))) if largest > 0 else -7
        top = min(max(top, -_MAX_EXPONENT), _MAX_EXPONENT)
        return [top * self.density - finer for finer in range(_OCTAVES * self.density + 1)]

    def best(self, values: npt.NDArray[Any]) -> int:
        """The index whose scale has the least squared error over ``values``."""
        candidates = self.candidates(float(np.abs(values).max(initial=0)))
        return min(candidates, key=lambda index: squared_error(values, self.scale(index)))


GRIDS: dict[Scales, Grid] = {"power of two": Grid(1), "free": Grid(8)}


def squared_error(values: npt.NDArray[Any], scale: float) -> float:
    """Summed squared error of int8 with ``scale``."""
    scaled = values.astype(np.float64) / scale
    error = np.clip(np.rint(scaled), -_INT8_MAX - 1, _INT8_MAX) - scaled
    return float(np.square(error).sum() * scale**2)
