"""Functions that numba compiles, with their types kept."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

VECTOR = numba.int64[::1]
MATRIX = numba.int64[:, ::1]


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` at its first call; the same code serves all later calls of the same types."""
    return cast(Callable[P, R], numba.njit(function))


def compile_now(function: Callable[..., Any], *types: Any) -> None:
    """Compile a :func:`compiled` function for arguments of ``types`` without running it."""
    cast(Any, function).compile(types)
