"""The values of Relax constants."""

from typing import Any

import numpy.typing as npt
import tvm
from tvm import relax


def constant_of(value: relax.Expr | None) -> npt.NDArray[Any] | None:
    """The array of ``value`` if it is a constant."""
    if not isinstance(value, tvm.ir.GenericConst):
        return None
    array: npt.NDArray[Any] = value.value.numpy()
    return array
