"""Types of compiled functions' arguments; numba's own are made of them when it is loaded."""

from typing import NamedTuple, TypeAlias


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
NONE = "none"  # an argument that is None, and what depends on it is not compiled
VECTOR = Array("int64", 1)
MATRIX = Array("int64", 2)
CUBE = Array("int64", 3)
WORDS = Array("int32", 1)
WORD_MATRIX = Array("int32", 2)
BYTES = Array("uint8", 1)
