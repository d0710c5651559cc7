"""Tables that expressions look numbers up in, ``lut(name, x)``."""

from dataclasses import dataclass

import numpy as np

from accel.util.arrays import Array


@dataclass(frozen=True)
class LookupTable:
    """Numbers of type ``dtype`` by a byte of type ``of``; or, of a float32, by lines between points.

    ``values`` are by the byte, the least first; or the points, which are equally far apart from ``low`` to ``high``.
    """

    of: str
    dtype: str
    values: tuple[float, ...]
    low: float = 0.0
    high: float = 0.0

    @property
    def interpolates(self) -> bool:
        """Whether it is of points."""
        return self.of == "float32"

    @property
    def numbers(self) -> Array:
        """The values as a lookup reads them: in their type, points in float64."""
        return np.array(self.values, np.float64 if self.interpolates else self.dtype)
