"""Values of a kernel as LLVM has them: a scalar is one of LLVM's, an array is a pointer and its extents."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from accel.isa.kernels.kernel_types import Array, Fields, Type

BIT = ir.IntType(1)
BYTE = ir.IntType(8)
INTEGER = ir.IntType(64)
POINTER = ir.PointerType()
SCALARS = {"int64": INTEGER, "uint64": INTEGER, "float32": ir.FloatType(), "float64": ir.DoubleType()}
_FLOATS = ("float32", "float64")


@dataclass(frozen=True)
class Element:
    """How an array's element lies in memory, and the scalar that it is when it has been loaded."""

    memory: ir.Type
    scalar: str
    signed: bool

    @property
    def nbytes(self) -> int:
        """Bytes of an element."""
        return 8 if self.memory == ir.DoubleType() else 4 if self.memory == ir.FloatType() else self.memory.width // 8


def element_of(name: str) -> Element:
    """Returns how elements of a NumPy type are kept; integers of less than 64 bits are loaded as ``int64``."""
    kind = np.dtype(name)
    if kind.name in SCALARS:
        return Element(SCALARS[kind.name], kind.name, kind.name == "int64")
    return Element(ir.IntType(8 * kind.itemsize), "int64", kind.kind == "i")


@dataclass(frozen=True)
class Value:
    """A value in LLVM's values ``leaves``: of an array a pointer and its extents, of a tuple those of all its parts."""

    type: Type
    leaves: tuple[ir.Value, ...]

    @property
    def scalar(self) -> ir.Value:
        """The one value that a scalar is."""
        (leaf,) = self.leaves
        return leaf

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point number."""
        return self.type in _FLOATS

    @property
    def is_scalar(self) -> bool:
        """Whether it is a number."""
        return isinstance(self.type, str) and self.type in SCALARS

    @property
    def parts(self) -> tuple["Value", ...]:
        """What a tuple consists of."""
        found, at = [], 0
        for each in part_types(self.type):
            width = len(leaf_types(each))
            found.append(Value(each, self.leaves[at : at + width]))
            at += width
        return tuple(found)


def part_types(of: Type) -> tuple[Type, ...]:
    """Returns the types of a tuple's parts.

    Raises:
        TypeError: it is no tuple.
    """
    match of:
        case Fields(_, types):
            return types
        case Array() | str():
            raise TypeError(f"{of} has no parts")
        case _:
            return of


def leaf_types(of: Type) -> tuple[ir.Type, ...]:
    """Returns LLVM's types of a value's leaves."""
    match of:
        case "none":
            return ()
        case str():
            return (SCALARS[of],)
        case Array(_, rank):
            return (POINTER, *[INTEGER] * rank)
        case _:
            return tuple(leaf for each in part_types(of) for leaf in leaf_types(each))


def tuple_of(values: Iterable[Value]) -> Value:
    """Returns a tuple."""
    parts = tuple(values)
    return Value(tuple(each.type for each in parts), tuple(leaf for each in parts for leaf in each.leaves))


def integer(number: int) -> Value:
    """Returns an ``int64`` that is known."""
    return Value("int64", (ir.Constant(INTEGER, number),))


NOTHING = Value("none", ())


_CONSTANTS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((np.uint64,), "uint64"),
    ((bool, np.bool_, int, np.integer), "int64"),
    ((np.float32,), "float32"),
    ((float,), "float64"),
)


def constant(number: Any) -> Value | None:
    """Returns what a Python object is in a kernel; None: nothing that a kernel can hold."""
    if number is None:
        return NOTHING
    if isinstance(number, tuple):
        parts = [constant(each) for each in number]
        return tuple_of(each for each in parts if each is not None) if None not in parts else None
    name = next((name for kinds, name in _CONSTANTS if isinstance(number, kinds)), None)
    if name is None:
        return None
    if name == "int64" and number >= 1 << 63:
        name = "uint64"
    return Value(name, (ir.Constant(SCALARS[name], float(number) if name in _FLOATS else int(number)),))
