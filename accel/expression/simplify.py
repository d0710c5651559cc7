"""A product of two operands in its simplest form, where casts on the way change no value."""

from dataclasses import replace

from accel.expression.element_types import CAST_TO, is_float, limits
from accel.expression.syntax_tree import Access, Binary, Cast, Expression
from accel.expression.typecheck import Typed, TypedExpression, check_statement

Range = tuple[int, int]


def simplify_product(typed: Typed) -> Typed:
    """Returns ``i32(i16(A[k]) * i16(B[k]))`` as ``i32(A[k]) * i32(B[k])``, where 16 bits hold every product.

    Other statements are returned unchanged. Each factor is cast once, to the type of the target, or not at all if it
    has that type.
    """
    node = typed.value
    while isinstance(node.expression, Cast):
        node = node.children[0]
    if not (isinstance(node.expression, Binary) and node.expression.operator == "*") or is_float(typed.dtype):
        return typed
    factors = [_lossless_access(child) for child in node.children]
    known = [limits(factor.dtype) for factor in factors if factor is not None]
    if len(known) < len(factors) or not _holds(node.dtype, _products(*known)):
        return typed
    if not _holds(typed.dtype, _products(*known)):
        return typed
    left, right = (_cast(factor, typed.dtype) for factor in factors if factor is not None)
    value = Binary("*", left, right)
    if value == typed.statement.value:
        return typed
    return check_statement(replace(typed.statement, value=value), typed.tensors, typed.scalars, typed.tables)


def _lossless_access(node: TypedExpression) -> TypedExpression | None:
    """The access below casts that keep every value; None where a cast loses values, or there is no access."""
    inner = node
    while isinstance(inner.expression, Cast):
        inner = inner.children[0]
    if not isinstance(inner.expression, Access) or is_float(inner.dtype):
        return None
    while isinstance(node.expression, Cast):
        if is_float(node.dtype) or not _holds(node.dtype, limits(inner.dtype)):
            return None
        node = node.children[0]
    return inner


def _products(left: Range, right: Range) -> Range:
    ends = [a * b for a in left for b in right]
    return min(ends), max(ends)


def _holds(dtype: str, values: Range) -> bool:
    low, high = limits(dtype)
    return low <= values[0] and values[1] <= high


def _cast(factor: TypedExpression, dtype: str) -> Expression:
    to = CAST_TO[dtype]
    return factor.expression if factor.dtype == dtype else Cast(to, factor.expression)
