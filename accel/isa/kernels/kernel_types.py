"""Types of kernels' arguments."""

import functools
from typing import Any, NamedTuple, TypeAlias

import numpy as np


class Array(NamedTuple):
    """An array without gaps, in row-major order. ``element`` is a type of NumPy's by name."""

    element: str
    rank: int


class Fields(NamedTuple):
    """A named tuple of class ``kind``, with its fields' types."""

    kind: type
    types: tuple["Type", ...]


# a name is a scalar's, a tuple one of such types
Type: TypeAlias = str | Array | Fields | tuple["Type", ...]

# 64-bit integers, but for words (32 bits) and bytes
SCALAR = "int64"
VECTOR = Array("int64", 1)
MATRIX = Array("int64", 2)
CUBE = Array("int64", 3)
WORDS = Array("int32", 1)
WORD_MATRIX = Array("int32", 2)
BYTES = Array("uint8", 1)


@functools.cache
def _array(element: np.dtype[Any], rank: int) -> Array:
    """Returns the type of an array; NumPy takes longer for an element's name than many kernels run."""
    return Array(element.name, rank)


def type_of(argument: Any) -> Type:
    """Returns the type of what a kernel is called with.

    Raises:
        TypeError: kernels take no such thing.
    """
    if isinstance(argument, np.ndarray):
        if not argument.flags.c_contiguous:
            raise TypeError("a kernel takes arrays without gaps, in row-major order")
        return _array(argument.dtype, argument.ndim)
    if isinstance(argument, (np.uint64, np.float32, np.float64)):
        return argument.dtype.name
    if isinstance(argument, (bool, int, np.integer, np.bool_)):
        return SCALAR
    if isinstance(argument, tuple):
        types = tuple(type_of(each) for each in argument)
        return Fields(type(argument), types) if hasattr(argument, "_fields") else types
    raise TypeError(f"a kernel takes numbers, arrays and tuples of them, not {type(argument).__name__}")
