"""Arithmetic on kernels' scalars as Python and NumPy have it: floors, conversions, comparisons."""

from typing import Any

from llvmlite import ir

from accel.isa.native.values import BIT, INTEGER, SCALARS, Element, Value

Builder = Any  # llvmlite has no types

_PLAIN = {
    "Add": ("add", "fadd"),
    "Sub": ("sub", "fsub"),
    "Mult": ("mul", "fmul"),
    "BitAnd": ("and_", None),
    "BitOr": ("or_", None),
    "BitXor": ("xor", None),
    "LShift": ("shl", None),
}
_COMPARISONS = {"Eq": "==", "NotEq": "!=", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">="}


def converted(builder: Builder, value: Value, to: str) -> Value:
    """Returns a scalar as one of type ``to``: floats are cut to integers, and integers keep their bits.

    Raises:
        TypeError: it is no scalar.
    """
    if not value.is_scalar:
        raise TypeError(f"{value.type} is no number")
    if value.type == to or {value.type, to} == {"int64", "uint64"}:
        return Value(to, value.leaves)
    leaf, kind = value.scalar, SCALARS[to]
    if value.is_float and to in ("float32", "float64"):
        made = builder.fptrunc(leaf, kind) if to == "float32" else builder.fpext(leaf, kind)
    elif value.is_float:
        made = builder.fptosi(leaf, kind)
    else:
        made = builder.uitofp(leaf, kind) if value.type == "uint64" else builder.sitofp(leaf, kind)
    return Value(to, (made,))


def truncated(builder: Builder, value: Value, bits: int, *, signed: bool) -> Value:
    """Returns the lowest bits of a number as an ``int64``."""
    narrow = builder.trunc(converted(builder, value, "int64").scalar, ir.IntType(bits))
    return Value("int64", ((builder.sext if signed else builder.zext)(narrow, INTEGER),))


def loaded(builder: Builder, pointer: ir.Value, element: Element) -> Value:
    """Returns the element at an address as a scalar."""
    found = builder.load(pointer, typ=element.memory)
    if element.memory != SCALARS[element.scalar]:
        found = (builder.sext if element.signed else builder.zext)(found, INTEGER)
    return Value(element.scalar, (found,))


def store(builder: Builder, value: Value, pointer: ir.Value, element: Element) -> None:
    """Write a scalar to an address as an element, with its lowest bits."""
    leaf = converted(builder, value, element.scalar).scalar
    if element.memory != SCALARS[element.scalar]:
        leaf = builder.trunc(leaf, element.memory)
    builder.store(leaf, pointer)


def joined(builder: Builder, one: Value, other: Value) -> tuple[Value, Value]:
    """Returns two numbers in the one type that NumPy computes them in.

    Raises:
        TypeError: one is no number, or one has a sign where the other has none.
    """
    if one.type == other.type and one.is_scalar:
        return one, other
    if one.is_float or other.is_float:
        return converted(builder, one, "float64"), converted(builder, other, "float64")
    for value, beside in ((one, other), (other, one)):
        if isinstance(value.leaves[0] if value.leaves else None, ir.Constant) and beside.is_scalar:
            like = converted(builder, value, str(beside.type))
            return (like, beside) if beside is other else (beside, like)
    raise TypeError(f"{one.type} and {other.type} together: convert one")


def binary(builder: Builder, operator: str, left: Value, right: Value) -> Value:
    """Returns ``left operator right``, the operator by its name in Python's ``ast``.

    Raises:
        TypeError: kernels do not have it for these.
    """
    left, right = joined(builder, left, right)
    if operator == "Div":
        left, right = (each if each.is_float else converted(builder, each, "float64") for each in (left, right))
        return Value(left.type, (builder.fdiv(left.scalar, right.scalar),))
    if operator in _PLAIN:
        name = _PLAIN[operator][left.is_float]
        if name is not None:
            return Value(left.type, (getattr(builder, name)(left.scalar, right.scalar),))
    elif not left.is_float:
        signed = left.type == "int64"
        if operator == "RShift":
            made = (builder.ashr if signed else builder.lshr)(left.scalar, right.scalar)
            return Value(left.type, (made,))
        if operator in ("FloorDiv", "Mod"):
            return Value(left.type, (_divided(builder, left.scalar, right.scalar, operator, signed=signed),))
    raise TypeError(f"{operator} of {left.type}")


def _divided(builder: Builder, left: ir.Value, right: ir.Value, operator: str, *, signed: bool) -> ir.Value:
    """Returns the quotient or the remainder, rounded down; by zero, where a processor would stop, as if by one."""
    zero, one = ir.Constant(INTEGER, 0), ir.Constant(INTEGER, 1)
    if not isinstance(right, ir.Constant):
        right = builder.select(builder.icmp_unsigned("==", right, zero), one, right)
    if not signed:
        return (builder.udiv if operator == "FloorDiv" else builder.urem)(left, right)
    remainder = builder.srem(left, right)
    wrong = builder.and_(
        builder.icmp_signed("!=", remainder, zero), builder.icmp_signed("<", builder.xor(remainder, right), zero)
    )
    if operator == "Mod":
        return builder.add(remainder, builder.select(wrong, right, zero))
    return builder.sub(builder.sdiv(left, right), builder.zext(wrong, INTEGER))


def compared(builder: Builder, operator: str, left: Value, right: Value) -> ir.Value:
    """Returns LLVM's bit of a comparison, the operator by its name in Python's ``ast``.

    Raises:
        TypeError: kernels do not have it for these.
    """
    if operator not in _COMPARISONS:
        raise TypeError(f"{operator}")
    left, right = joined(builder, left, right)
    sign = _COMPARISONS[operator]
    if left.is_float:
        ordered = builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered
        return ordered(sign, left.scalar, right.scalar)
    return (builder.icmp_signed if left.type == "int64" else builder.icmp_unsigned)(sign, left.scalar, right.scalar)


def truth(builder: Builder, value: Value) -> ir.Value:
    """Returns LLVM's bit of whether a number is not zero."""
    if value.is_float:
        return builder.fcmp_unordered("!=", value.scalar, ir.Constant(value.scalar.type, 0.0))
    return builder.icmp_unsigned("!=", value.scalar, ir.Constant(INTEGER, 0))


def number_of(builder: Builder, bit: ir.Value) -> Value:
    """Returns 0 or 1."""
    assert bit.type == BIT
    return Value("int64", (builder.zext(bit, INTEGER),))


def chosen(builder: Builder, operator: str, values: list[Value]) -> Value:
    """Returns the least (``Lt``) or largest (``Gt``) of numbers, the first of equal ones, as Python does."""
    best = values[0]
    for value in values[1:]:
        old, new = joined(builder, best, value)
        better = compared(builder, operator, new, old)
        best = Value(old.type, (builder.select(better, new.scalar, old.scalar),))
    return best
