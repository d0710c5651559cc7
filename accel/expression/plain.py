"""A value as a front end of TVM writes it: what an instruction is matched against."""

from collections.abc import Callable
from typing import Any

from tvm import tirx

from accel.expression.element_types import bits_of, is_float, is_signed
from accel.expression.infer import SHIFTS, Node
from accel.expression.tree import Access, Binary, Call, Cast, Literal, Negate, Scalar, Select

BINARY: dict[str, Any] = {
    "+": tirx.Add,
    "-": tirx.Sub,
    "*": tirx.Mul,
    "&": tirx.BitwiseAnd,
    "|": tirx.BitwiseOr,
    "^": tirx.BitwiseXor,
}
COMPARISONS: dict[str, Any] = {
    "<": tirx.LT,
    "<=": tirx.LE,
    ">": tirx.GT,
    ">=": tirx.GE,
    "==": tirx.EQ,
    "!=": tirx.NE,
}
Leaf = Callable[[Access | Scalar, str], tirx.Expr]


def plain(node: Node, leaf: Leaf) -> tirx.Expr:
    """``node`` in TIR's own arithmetic, of which overflow is undefined; nothing is folded.

    ``leaf`` gives the expression of an access or a scalar, which must be of the type it is given.
    """
    below = [plain(child, leaf) for child in node.children]
    match node.expression:
        case Literal(value):
            found = tirx.const(value, node.dtype)
        case Access() | Scalar() as named:
            found = leaf(named, node.dtype)
        case Negate() if is_float(node.dtype):
            found = tirx.Mul(below[0], tirx.const(-1.0, node.dtype))
        case Negate():
            found = tirx.Sub(tirx.const(0, node.dtype), below[0])
        case Cast():
            found = below[0] if node.children[0].dtype == node.dtype else tirx.Cast(node.dtype, below[0])
        case Select(comparison):
            found = tirx.Select(COMPARISONS[comparison](below[0], below[1]), below[2], below[3])
        case Binary(sign) if sign in SHIFTS:
            found = _shift(node, below[0], below[1], leaf)
        case Binary(sign):
            found = BINARY[sign](below[0], below[1])
        case Call(function, _):
            found = _call(function, node.dtype, below)
    return found


def _shift(node: Node, value: tirx.Expr, count: tirx.Expr, leaf: Leaf) -> tirx.Expr:
    """TIR's counts are of the value's type, and not negative."""
    leftwards = isinstance(node.expression, Binary) and node.expression.operator == "<<"
    counted = node.children[1]
    if isinstance(counted.expression, Scalar):
        return (tirx.LShift if leftwards else tirx.RShift)(value, leaf(counted.expression, node.dtype))
    if not isinstance(counted.expression, Literal):
        same = counted.dtype == node.dtype
        return (tirx.LShift if leftwards else tirx.RShift)(value, count if same else tirx.Cast(node.dtype, count))
    steps = int(counted.expression.value) * (-1 if leftwards else 1)
    most = bits_of(node.dtype) - 1
    if abs(steps) > most and (steps < 0 or not is_signed(node.dtype)):
        return tirx.const(0, node.dtype)
    by = tirx.const(min(abs(steps), most), node.dtype)
    return tirx.RShift(value, by) if steps >= 0 else tirx.LShift(value, by)


def _call(function: str, dtype: str, below: list[tirx.Expr]) -> tirx.Expr:
    zero = tirx.const(0, dtype)
    match function:
        case "rint":
            return tirx.nearbyint(below[0])
        case "abs" if is_signed(dtype):
            return tirx.Select(tirx.GE(below[0], zero), below[0], tirx.Sub(zero, below[0]))
        case "abs":
            return tirx.abs(below[0]) if is_float(dtype) else below[0]
        case "relu":
            return tirx.Max(below[0], zero)
        case "clip":
            return tirx.Min(tirx.Max(below[0], below[1]), below[2])
    return tirx.Min(*below) if function == "min" else tirx.Max(*below)
