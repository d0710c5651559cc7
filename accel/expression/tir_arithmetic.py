"""The exact arithmetic of each operation, as TIR for the host.

TVM assumes of its own arithmetic that it neither overflows nor has counts or values out of range, and simplifies by
that; LLVM may fuse a product with a sum. So integers are computed where nothing overflows and cut to their type by
operations that TVM does not see through; LLVM turns that back into the plain wrapping instruction. Numbers of 48 bits
are held in 64.
"""

import operator
import struct
from typing import Any

from tvm import tirx

from accel.expression.element_types import bits_of, held_as, is_float, is_signed, limits
from accel.expression.float_functions import float_function
from accel.expression.syntax_tree import (
    FLOAT_FUNCTIONS,
    Access,
    Binary,
    Call,
    Cast,
    Combiner,
    Literal,
    Negate,
    Scalar,
    Select,
)
from accel.expression.typecheck import SHIFTS, TypedExpression

Value = Any  # a tirx.Expr; TVM's operators are untyped

_COMPARISONS = {"<": tirx.LT, "<=": tirx.LE, ">": tirx.GT, ">=": tirx.GE, "==": tirx.EQ}
_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "^": operator.xor}
_OPERATORS |= {"|": operator.or_, "/": tirx.Div}
_WIDE = "int64"
_UNSIGNED = "uint64"
_WIDEST = "int128"  # what sums and products of numbers of more than 32 bits do not overflow
_USUAL = 32  # bits


def literal(dtype: str, value: float) -> Value:
    """Returns the constant ``value``; a float is hidden from TVM, which would fold it in double precision."""
    if is_float(dtype):
        (bits,) = struct.unpack("<i", struct.pack("<f", value))
        return tirx.reinterpret(dtype, hidden(tirx.const(bits, "int32")))
    return hidden(tirx.const(int(value), held_as(dtype)))


def scalar(value: Value, dtype: str) -> Value:
    """Returns the value of an instruction's field, or of a constant, in ``dtype``; integers keep their low bits."""
    if isinstance(value, tirx.FloatImm):
        return literal(dtype, float(value))
    return value if is_float(dtype) else cut(hidden(value), dtype)


def hidden(value: Value) -> Value:
    """Returns an integer whose value TVM cannot see: it is shifted by zero, which LLVM removes."""
    dtype = str(value.ty.dtype)
    nothing = tirx.const(0, dtype)
    return tirx.call_llvm_pure_intrin(dtype, "llvm.fshl", value, nothing, nothing)


def _hidden_float(value: Value) -> Value:
    """A float that TVM does not find equal to itself: a NaN is not."""
    return tirx.reinterpret("float32", hidden(tirx.reinterpret("int32", value)))


def cut(value: Value, dtype: str) -> Value:
    """Returns the low bits of an integer."""
    low, spare = hidden(tirx.Cast(held_as(dtype), value)), bits_of(held_as(dtype)) - bits_of(dtype)
    if not spare:
        return low
    up = tirx.reinterpret(_UNSIGNED, low) << tirx.const(spare, _UNSIGNED)
    return hidden(tirx.reinterpret(_WIDE, up)) >> tirx.const(spare, _WIDE)


def operation(node: TypedExpression, below: list[Value]) -> Value:
    """Returns the value of a node that is no leaf, given the values of its children."""
    match node.expression:
        case Negate():
            found = _negated(node.dtype, below[0])
        case Cast():
            found = convert(below[0], node.children[0].dtype, node.dtype)
        case Call(function):
            found = _call(function, node.dtype, below)
        case Select(comparison):
            found = _selected(comparison, node.children[0].dtype, below)
        case Binary(sign, _, Literal(count)) if sign in SHIFTS:
            found = _shift_by(node.dtype, below[0], -int(count) if sign == "<<" else int(count))
        case Binary(sign) if sign in SHIFTS:
            found = _shift(node.dtype, below[0], below[1], left=sign == "<<")
        case Binary(sign) if is_float(node.dtype):
            found = _float(sign, node, below)
        case Binary(sign):
            found = _integer(sign, node.dtype, below[0], below[1])
        case _:
            raise AssertionError(node.expression)
    return found


def combine(combiner: Combiner, dtype: str, total: Value, term: TypedExpression, value: Value) -> Value:
    """Returns ``total + value``, wrapping or rounded once; or the greater or the lesser of both."""
    if combiner != "+":
        return _call(combiner, dtype, [total, value])
    if is_float(dtype):
        return total + _alone(term, value)
    return _integer("+", dtype, total, value)


def convert(value: Value, source: str, dtype: str) -> Value:
    """Returns a cast.

    Integers become their low bits or the nearest float32; floats are truncated and saturate, and NaN becomes 0.
    """
    if source == dtype:
        return value
    if is_float(dtype):
        return tirx.Cast(dtype, value)
    if is_float(source):
        return _truncated(value, dtype)
    (low, high), (least_held, most_held) = limits(source), limits(dtype)
    if least_held <= low and high <= most_held:
        return tirx.Cast(held_as(dtype), value)
    return cut(tirx.Cast(_WIDE, value), dtype)


def _truncated(value: Value, dtype: str) -> Value:
    """Towards zero, from floats held within the type; what they hold beyond the last is that."""
    low, high = limits(dtype)
    wide = dtype if bits_of(dtype) == _USUAL else "int32" if bits_of(dtype) < _USUAL else _WIDE
    held = greatest(value, literal("float32", low))
    whole = tirx.Select(held < literal("float32", high), tirx.Cast(wide, held), hidden(tirx.const(high, wide)))
    number = tirx.EQ(_hidden_float(value), value)
    return cut(tirx.Select(number, whole, hidden(tirx.const(0, wide))), dtype)


def _integer(sign: str, dtype: str, left: Value, right: Value) -> Value:
    """In 64 bits nothing of 32 bits overflows, and in 128 nothing of 64; products of unsigned ones need all of 64."""
    wide = _UNSIGNED if sign == "*" and not is_signed(dtype) else _WIDE
    if bits_of(dtype) > _USUAL and sign in ("+", "-", "*"):
        wide = _WIDEST
    return cut(_OPERATORS[sign](tirx.Cast(wide, left), tirx.Cast(wide, right)), dtype)


def _float(sign: str, node: TypedExpression, below: list[Value]) -> Value:
    sides = below if sign in ("*", "/") else [_alone(*pair) for pair in zip(node.children, below, strict=True)]
    return _OPERATORS[sign](_hidden_float(sides[0]), sides[1])


def _selected(comparison: str, dtype: str, below: list[Value]) -> Value:
    left, right, then, otherwise = below
    left = _hidden_float(left) if is_float(dtype) else left
    if comparison == "!=":  # TVM's own is false of a NaN
        return tirx.Select(tirx.EQ(left, right), otherwise, then)
    return tirx.Select(_COMPARISONS[comparison](left, right), then, otherwise)


def _negated(dtype: str, value: Value) -> Value:
    if is_float(dtype):
        return value * tirx.const(-1.0, dtype)
    return _integer("-", dtype, hidden(tirx.const(0, held_as(dtype))), value)


def _alone(node: TypedExpression, value: Value) -> Value:
    """An operand of a float sum; a product in it must be rounded before."""
    if isinstance(node.expression, Literal | Scalar | Access | Cast):
        return value
    return tirx.call_llvm_pure_intrin("float32", "llvm.arithmetic.fence", value)


def _shift_by(dtype: str, value: Value, count: int) -> Value:
    """To the right by ``count``, to the left if it is negative: as :func:`_shift`, in one instruction."""
    bits = bits_of(dtype)
    beyond = abs(count) >= bits
    if beyond and (count < 0 or not is_signed(dtype)):
        return literal(dtype, 0)
    if count >= 0:
        return hidden(value) >> tirx.const(min(count, bits - 1), held_as(dtype))
    unsigned = f"u{held_as(_as_signed(dtype))}"
    up = tirx.reinterpret(unsigned, hidden(value)) << tirx.const(-count, unsigned)
    return cut(tirx.reinterpret(held_as(dtype), up), dtype)


def _shift(dtype: str, value: Value, count: Value, *, left: bool) -> Value:
    """By any count: a negative one goes the other way, and one beyond the width shifts everything out."""
    bits = bits_of(dtype)
    none, most = tirx.const(0, _WIDE), tirx.const(bits, _WIDE)
    counted = tirx.max(tirx.min(tirx.Cast(_WIDE, count), most), -most)
    rightwards = -counted if left else counted
    held = held_as(dtype)
    unsigned = f"u{held_as(_as_signed(dtype))}"

    def amount(steps: Value, kind: str) -> Value:
        return tirx.Cast(kind, tirx.max(tirx.min(steps, tirx.const(bits - 1, _WIDE)), none))

    down = value >> amount(rightwards, held)
    if not is_signed(dtype):
        down = tirx.Select(rightwards < most, down, tirx.const(0, dtype))
    up = tirx.reinterpret(unsigned, value) << amount(-rightwards, unsigned)
    up = tirx.Select(-rightwards < most, up, tirx.const(0, unsigned))
    return tirx.Select(rightwards < none, cut(tirx.reinterpret(held, up), dtype), down)


def _as_signed(dtype: str) -> str:
    return dtype.removeprefix("u")


def _call(function: str, dtype: str, below: list[Value]) -> Value:
    match function:
        case _ if function in FLOAT_FUNCTIONS:
            return float_function(function, below[0])
        case "clip":
            return least(greatest(below[0], below[1]), below[2])
        case "relu":
            return greatest(below[0], literal(dtype, 0))
        case "abs" if is_float(dtype):
            return tirx.abs(below[0])
        case "abs":
            return tirx.Select(below[0] < literal(dtype, 0), _negated(dtype, below[0]), below[0])
    return least(*below) if function == "min" else greatest(*below)


def least(a: Value, b: Value) -> Value:
    """Returns ``a`` if it is less, else ``b``: so of two equal ones, or with a NaN, ``b``."""
    return tirx.Select(a < b, a, b)


def greatest(a: Value, b: Value) -> Value:
    """Returns ``a`` if it is greater, else ``b``: so of two equal ones, or with a NaN, ``b``."""
    return tirx.Select(a > b, a, b)
