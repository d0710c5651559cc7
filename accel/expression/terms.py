"""Chains of one associative operation on integers, taken apart: ``a + (b - 3)`` is ``+a``, ``+b`` and ``-3``."""

from dataclasses import dataclass
from typing import Any

from tvm import sym, tirx
from tvm.ir import TensorLoad
from tvm_ffi import structural_walk

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
    """What is joined by an operation, each term with its sign, which only sums have; and the constants, joined."""

    operation: Any
    signed: tuple[tuple[int, tirx.Expr], ...]
    constant: int | None


def operation_of(expression: tirx.Expr) -> Any:
    """The operation that ``expression`` is a chain of, or None."""
    kind = type(expression)
    if kind is tirx.Sub:
        return tirx.Add
    return kind if kind in IDENTITY else None


def terms_of(expression: tirx.Expr, operation: Any) -> Terms:
    """The chain of ``operation`` that ``expression`` is; one term if it is none."""
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


def rest_without(found: Terms, wanted: int | None) -> int | None:
    """The constant that is left of ``found`` for a scalar once the constant ``wanted`` is taken.

    Raises:
        LookupError: there is no such.
    """
    identity = IDENTITY[found.operation]
    if wanted == identity or found.constant is None or wanted is None:
        if wanted == identity:
            return found.constant
        raise LookupError
    if found.operation is tirx.Add:
        return found.constant - wanted
    if found.constant == wanted:
        return identity
    if found.operation is tirx.Mul and wanted and found.constant % wanted == 0:
        return found.constant // wanted
    raise LookupError


def join(operation: Any, signed: list[tuple[int, tirx.Expr]], constant: int | None, dtype: str) -> tirx.Expr | None:
    """The expression of a chain; None where nothing is left and the operation has no value of nothing.

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
    """Whether memory is read."""
    found: list[TensorLoad] = []
    structural_walk(expression, (TensorLoad, found.append), order="pre")
    return bool(found)
