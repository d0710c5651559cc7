"""Predicates on TIR expressions, and the terms of which one consists.

A chain of one associative operation on integers is taken apart: ``a + (b - 3)`` is ``+a``, ``+b`` and ``-3``.
"""

import functools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tvm import sym, tirx
from tvm.ir import Call, TensorLoad
from tvm_ffi import structural_equal, structural_map, structural_mutate, structural_walk

from accel.expression.element_types import is_float, limits, single

# the value of the operation on nothing; -1 is all ones
IDENTITY: dict[Any, int | None] = {
    tirx.Add: 0,
    tirx.Mul: 1,
    tirx.BitwiseAnd: -1,
    tirx.BitwiseOr: 0,
    tirx.BitwiseXor: 0,
    tirx.Min: None,
    tirx.Max: None,
}


@dataclass(frozen=True)
class Terms:
    """The terms that an operation joins, each with its sign, which only sums have; and the constants, folded."""

    operation: Any
    signed: tuple[tuple[int, tirx.Expr], ...]
    constant: int | None


def operation_of(expression: tirx.Expr) -> Any:
    """Returns the operation of which ``expression`` is a chain; None if it is not one."""
    kind = type(expression)
    if kind is tirx.Sub:
        return tirx.Add
    return kind if kind in IDENTITY else None


def terms_of(expression: tirx.Expr, operation: Any) -> Terms:
    """Returns the terms of ``expression`` as a chain of ``operation``; one term if it is no such chain."""
    signed: list[tuple[int, tirx.Expr]] = []
    constant = IDENTITY[operation]
    pending = [(1, expression)]
    while pending:
        sign, term = pending.pop()
        if type(term) is operation:
            pending += [(sign, term.b), (sign, term.a)]
        elif operation is tirx.Add and type(term) is tirx.Sub:
            pending += [(-sign, term.b), (sign, term.a)]
        elif operation is tirx.Add and _is_negated(term):
            pending.append((-sign, term.a))
        elif isinstance(term, tirx.IntImm):
            constant = _joined(operation, constant, sign * int(term))
        else:
            signed.append((sign, term))
    return Terms(operation, tuple(signed), constant)


def _is_negated(term: tirx.Expr) -> bool:
    return type(term) is tirx.Mul and isinstance(term.b, tirx.IntImm) and int(term.b) == -1


def _joined(operation: Any, a: int | None, b: int) -> int:
    if a is None:
        return b
    folds = {
        tirx.Add: lambda: a + b,
        tirx.Mul: lambda: a * b,
        tirx.BitwiseAnd: lambda: a & b,
        tirx.BitwiseOr: lambda: a | b,
        tirx.BitwiseXor: lambda: a ^ b,
        tirx.Min: lambda: min(a, b),
        tirx.Max: lambda: max(a, b),
    }
    return int(folds[operation]())


def rest_without(found: Terms, expected: int | None) -> int | None:
    """Returns the constant of ``found`` that remains for a scalar once the constant ``expected`` is taken.

    Raises:
        LookupError: there is no such.
    """
    identity = IDENTITY[found.operation]
    if expected == identity or found.constant is None or expected is None:
        if expected == identity:
            return found.constant
        raise LookupError
    if found.operation is tirx.Add:
        return found.constant - expected
    if found.constant == expected:
        return identity
    if found.operation is tirx.Mul and expected and found.constant % expected == 0:
        return found.constant // expected
    raise LookupError


def join(operation: Any, signed: list[tuple[int, tirx.Expr]], constant: int | None, dtype: str) -> tirx.Expr | None:
    """Returns the expression of a chain; None where nothing is left and the operation has no value of nothing.

    Raises:
        ValueError: the constant is beyond ``dtype``.
    """
    if not signed:
        return None if constant is None else tirx.const(_signed_ones(constant, dtype), dtype)
    if len(signed) == 1 and signed[0][0] == 1 and constant == IDENTITY[operation]:
        return signed[0][1]
    parts = [term if sign == 1 else tirx.Sub(tirx.const(0, dtype), term) for sign, term in signed]
    if constant is not None and constant != IDENTITY[operation]:
        parts.append(tirx.const(constant, dtype))
    joined = parts[0]
    for part in parts[1:]:
        joined = operation(joined, part)
    return sym.Analyzer().simplify(joined)


def _signed_ones(constant: int, dtype: str) -> int:
    bits = int(dtype.lstrip("uint"))
    return constant % (1 << bits) if dtype.startswith("u") else constant


def has_loads(expression: Any) -> bool:
    """Returns whether ``expression`` reads memory."""
    found: list[TensorLoad] = []
    structural_walk(expression, (TensorLoad, found.append), order="pre")
    return bool(found)


_BITWISE: dict[Any, Callable[[int, int], int]] = {
    tirx.BitwiseAnd: operator.and_,
    tirx.BitwiseOr: operator.or_,
    tirx.BitwiseXor: operator.xor,
}
_TURNED: dict[Any, Any] = {tirx.GT: tirx.LT, tirx.GE: tirx.LE}
# the host rounds both to even
_SAME_CALLS = {"tirx.round": "tirx.nearbyint", "prim.if_then_else": "select"}


def same_place(a: TensorLoad, b: TensorLoad) -> bool:
    """Returns whether two loads read one element."""
    if not a.source.same_as(b.source) or len(a.indices) != len(b.indices):
        return False
    analyzer = sym.Analyzer()
    return all(
        structural_equal(i, j) or analyzer.can_prove_equal(i, j) for i, j in zip(a.indices, b.indices, strict=True)
    )


def equal(a: tirx.Expr, b: tirx.Expr) -> bool:
    """Returns whether two expressions have one value; integer constants of all types compare as numbers."""
    if isinstance(a, tirx.IntImm) and isinstance(b, tirx.IntImm):
        return int(a) == int(b)
    if isinstance(a, tirx.FloatImm) and isinstance(b, tirx.FloatImm):
        return str(single(float(a))) == str(single(float(b)))  # zeros with their signs
    return bool(structural_equal(a, b))


def uses_variable(expression: tirx.Expr, variable: tirx.Var) -> bool:
    """Returns whether ``variable`` stands in the expression."""
    found: list[tirx.Var] = []
    structural_walk(expression, (tirx.Var, found.append), order="pre")
    return any(other.same_as(variable) for other in found)


def substitute(expression: tirx.Expr, variable: tirx.Var, value: tirx.Expr) -> tirx.Expr:
    """Returns ``expression`` with the number ``value`` in place of ``variable``, simplified."""
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


def as_less_than(expression: Any) -> Any:
    """Returns ``a > b`` as ``b < a``."""
    kind = _TURNED.get(type(expression))
    return kind(expression.b, expression.a) if kind else expression


def call_parts(expression: Any) -> tuple[str, list[Any]]:
    """Returns the name and arguments of a call, a choice among them."""
    if isinstance(expression, tirx.Select):
        return "select", [expression.condition, expression.true_value, expression.false_value]
    if not isinstance(expression, Call):
        return "", []
    name = str(getattr(expression.op, "name", expression.op))
    if name == "tirx.call_pure_extern":
        function, *arguments = expression.args
        return f"{name} {function.value}", arguments
    return _SAME_CALLS.get(name, name), list(expression.args)


def uncast(constant: Any, dtype: str) -> tirx.Expr | None:
    """Returns the constant of ``dtype`` that a cast makes into ``constant``, if there is one."""
    if not isinstance(constant, tirx.IntImm | tirx.FloatImm):
        return None
    value = float(constant) if isinstance(constant, tirx.FloatImm) else int(constant)
    if is_float(dtype):
        return tirx.const(float(value), dtype)
    low, high = limits(dtype)
    return tirx.const(int(value), dtype) if int(value) == value and low <= value <= high else None


def clips(outer: Any, inner_kind: Any) -> Iterator[tuple[tuple[Any, Any], Any]]:
    """Yields the ways to read ``outer(inner_kind(x, a), b)``: x and a, then b."""
    for inner, bound in ((outer.a, outer.b), (outer.b, outer.a)):
        if type(inner) is inner_kind:
            yield (inner.a, inner.b), bound
            yield (inner.b, inner.a), bound


def is_ascending(low: Any, high: Any) -> bool:
    """Returns whether ``low`` is known not to be above ``high``; both without loads."""
    if has_loads(low) or has_loads(high):
        return False
    if isinstance(low, tirx.FloatImm) and isinstance(high, tirx.FloatImm):
        return float(low) <= float(high)
    return not is_float(str(low.ty.dtype)) and bool(sym.Analyzer().can_prove(low <= high))
