"""Small questions about two TIR expressions: are they the same value, call or place?"""

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

from tvm import sym, tirx
from tvm.ir import Call, TensorLoad
from tvm_ffi import structural_equal, structural_map, structural_mutate, structural_walk

from accel.expression.element_types import is_float, limits, single
from accel.expression.terms import has_loads

_BITWISE: dict[Any, Callable[[int, int], int]] = {
    tirx.BitwiseAnd: operator.and_,
    tirx.BitwiseOr: operator.or_,
    tirx.BitwiseXor: operator.xor,
}
_TURNED: dict[Any, Any] = {tirx.GT: tirx.LT, tirx.GE: tirx.LE}
# the host rounds both to even
_SAME_CALLS = {"tirx.round": "tirx.nearbyint", "prim.if_then_else": "select"}


def same_place(a: TensorLoad, b: TensorLoad) -> bool:
    """Whether two loads are of one element."""
    if not a.source.same_as(b.source) or len(a.indices) != len(b.indices):
        return False
    analyzer = sym.Analyzer()
    return all(
        structural_equal(i, j) or analyzer.can_prove_equal(i, j) for i, j in zip(a.indices, b.indices, strict=True)
    )


def equal(a: tirx.Expr, b: tirx.Expr) -> bool:
    """Whether two expressions are one value; integer constants of all types compare as numbers."""
    if isinstance(a, tirx.IntImm) and isinstance(b, tirx.IntImm):
        return int(a) == int(b)
    if isinstance(a, tirx.FloatImm) and isinstance(b, tirx.FloatImm):
        return str(single(float(a))) == str(single(float(b)))  # zeros with their signs
    return bool(structural_equal(a, b))


def uses(expression: tirx.Expr, variable: tirx.Var) -> bool:
    """Whether ``variable`` stands in the expression."""
    found: list[tirx.Var] = []
    structural_walk(expression, (tirx.Var, found.append), order="pre")
    return any(other.same_as(variable) for other in found)


def put(expression: tirx.Expr, variable: tirx.Var, value: tirx.Expr) -> tirx.Expr:
    """The expression with the number ``value`` for ``variable``, simplified."""
    known = structural_map(expression, (tirx.Var, lambda leaf: value if leaf.same_as(variable) else leaf))
    rules = [(kind, functools.partial(_folded, operation)) for kind, operation in _BITWISE.items()]
    return sym.Analyzer().simplify(structural_mutate(known, rules))


def _folded(operation: Callable[[Any, Any], Any], node: Any, mutator: Any) -> Any:
    """Bits of numbers, which TVM's simplifier leaves as they are."""
    made = mutator.default_mutate(node)
    left, right = (sym.Analyzer().simplify(side) for side in (made.a, made.b))
    if isinstance(left, tirx.IntImm) and isinstance(right, tirx.IntImm):
        return tirx.const(operation(int(left), int(right)), str(left.ty.dtype))
    return made


def turned(expression: Any) -> Any:
    """``a > b`` as ``b < a``."""
    kind = _TURNED.get(type(expression))
    return kind(expression.b, expression.a) if kind else expression


def called(expression: Any) -> tuple[str, list[Any]]:
    """The name and arguments of a call, a choice among them."""
    if isinstance(expression, tirx.Select):
        return "select", [expression.condition, expression.true_value, expression.false_value]
    if not isinstance(expression, Call):
        return "", []
    name = str(getattr(expression.op, "name", expression.op))
    return _SAME_CALLS.get(name, name), list(expression.args)


def uncast(constant: Any, dtype: str) -> tirx.Expr | None:
    """The constant of ``dtype`` that a cast makes into ``constant``, if there is one."""
    if not isinstance(constant, tirx.IntImm | tirx.FloatImm):
        return None
    value = float(constant) if isinstance(constant, tirx.FloatImm) else int(constant)
    if is_float(dtype):
        return tirx.const(float(value), dtype)
    low, high = limits(dtype)
    return tirx.const(int(value), dtype) if int(value) == value and low <= value <= high else None


def clips(outer: Any, inner_kind: Any) -> Iterator[tuple[tuple[Any, Any], Any]]:
    """The ways to read ``outer(inner_kind(x, a), b)``: x and a, then b."""
    for inner, bound in ((outer.a, outer.b), (outer.b, outer.a)):
        if type(inner) is inner_kind:
            yield (inner.a, inner.b), bound
            yield (inner.b, inner.a), bound


def ascending(low: Any, high: Any) -> bool:
    """Whether ``low`` is known not to be above ``high``; both without loads."""
    if has_loads(low) or has_loads(high):
        return False
    if isinstance(low, tirx.FloatImm) and isinstance(high, tirx.FloatImm):
        return float(low) <= float(high)
    return not is_float(str(low.ty.dtype)) and bool(sym.Analyzer().can_prove(low <= high))
