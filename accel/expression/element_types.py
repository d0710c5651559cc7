"""The element types that expressions know, and the shapes of tensors."""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from accel.expression.syntax_tree import ExpressionError

CASTS: Mapping[str, str] = MappingProxyType(
    {
        "i8": "int8",
        "u8": "uint8",
        "i16": "int16",
        "u16": "uint16",
        "i32": "int32",
        "u32": "uint32",
        "i48": "int48",
        "i64": "int64",
        "f32": "float32",
    }
)
ELEMENT_TYPES = tuple(CASTS.values())
CAST_TO: Mapping[str, str] = MappingProxyType({dtype: name for name, dtype in CASTS.items()})
"""The name of the cast to each type."""


def is_float(dtype: str) -> bool:
    """Returns whether the type is ``float32``."""
    return dtype == "float32"


def is_signed(dtype: str) -> bool:
    """Returns whether the type is a signed integer."""
    return dtype.startswith("int")


def bits_of(dtype: str) -> int:
    """Returns the bits of one element."""
    return int(dtype.lstrip("uintfloa"))


def limits(dtype: str) -> tuple[int, int]:
    """Returns the least and the greatest value of an integer type."""
    bits = bits_of(dtype)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed(dtype) else (0, (1 << bits) - 1)


def held_as(dtype: str) -> str:
    """Returns the type in which a host holds numbers of a type: its own, or the next wider one of whole bytes in twos.

    A number of ``int48`` is an ``int64`` of which the upper 16 bits repeat the sign.
    """
    return "int64" if dtype == "int48" else dtype


def single(value: float) -> float:
    """Returns the nearest float32, ties to even.

    Raises:
        OverflowError: it is beyond the greatest float32.
    """
    rounded = struct.unpack("<f", struct.pack("<f", value))[0]
    return float(rounded)


@dataclass(frozen=True)
class TensorType:
    """The part of an operand that one execution of an instruction uses: its element type, and its shape in elements."""

    dtype: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.dtype not in ELEMENT_TYPES:
            raise ExpressionError(f"a tensor of {self.dtype}; expected one of {', '.join(ELEMENT_TYPES)}")
        if any(extent < 1 for extent in self.shape):
            raise ExpressionError(f"a tensor of shape {self.shape}; expected positive extents")

    def strides(self) -> tuple[int, ...]:
        """Returns the elements between neighbours along each axis, where the tensor is row-major and dense."""
        return tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))
