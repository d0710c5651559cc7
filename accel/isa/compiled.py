"""Functions that numba compiles, with their types kept."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` at its first call; the same call serves for all later ones of the same types."""
    return cast(Callable[P, R], numba.njit(function))
