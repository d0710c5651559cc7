"""Other ways to say an expression, for machines without an instruction for the first.

Each is equal to it in exact arithmetic, with constants that float32 holds: bounds of rounding around what is computed
hold the expression too.
"""

import math
from collections.abc import Iterator

from accel.expression.syntax_tree import Binary, Call, Expression, Literal, Negate, Select

_MINUS, _ONE, _TWO, _ZERO = Literal(-1.0), Literal(1.0), Literal(2.0), Literal(0.0)
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPPOSITE = {"==": "!=", "!=": "=="}


def equal_expressions(value: Expression) -> Iterator[Expression]:
    """Yields expressions that are equal to one, with another operation outermost."""
    match value:
        case Binary("-", left, right):
            yield Binary("+", left, _negated(right))
        case Binary("/", left, Literal(number)) if _is_power_of_two(number):
            yield Binary("*", left, Literal(1 / number))
        case Binary("/", left, right):
            if left != _ONE:
                yield Binary("*", left, Call("recip", (right,)))
            if right != _ONE and left == _ONE:
                yield Call("recip", (right,))
        case Negate(inner):
            yield Binary("*", inner, _MINUS)
        case Call(function, arguments):
            yield from _of_call(function, arguments)
        case Select():
            yield from _without_selection(value)
            yield from _other_selections(value)


def _of_call(function: str, arguments: tuple[Expression, ...]) -> Iterator[Expression]:
    first = arguments[0]
    match function:
        case "recip":
            yield Binary("/", _ONE, first)
        case "rsqrt":
            yield Call("recip", (Call("sqrt", (first,)),))
        case "sqrt":
            yield Call("recip", (Call("rsqrt", (first,)),))
        case "abs":
            yield Call("max", (first, _negated(first)))
        case "sigmoid":
            yield Call("recip", (Binary("+", Call("exp", (_negated(first),)), _ONE),))
        case "tanh":
            twice = Call("sigmoid", (Binary("*", first, _TWO),))
            yield Binary("+", Binary("*", twice, _TWO), _MINUS)
        case "floor" | "ceil":
            other = "ceil" if function == "floor" else "floor"
            yield _negated(Call(other, (_negated(first),)))
        case "max" | "min":
            other = "min" if function == "max" else "max"
            yield _negated(Call(other, tuple(_negated(each) for each in arguments)))


def _other_selections(value: Select) -> Iterator[Expression]:
    """By the mirrored or the opposite comparison, or by one that an instruction of its own makes to 1 or 0."""
    comparison, left, right = value.comparison, value.left, value.right
    if comparison in _MIRRORED:
        yield Select(_MIRRORED[comparison], right, left, value.then, value.otherwise)
    else:
        yield Select(_OPPOSITE[comparison], left, right, value.otherwise, value.then)
    is_condition = (value.then, value.otherwise) == (_ONE, _ZERO)
    if not is_condition and not isinstance(left, Select):
        yield Select("!=", Select(comparison, left, right, _ONE, _ZERO), _ZERO, value.then, value.otherwise)


def _without_selection(value: Select) -> Iterator[Expression]:
    """Of ``select(x > 0, x, x * y)``: ``max(x, 0) + min(x, 0) * y``, in which one of the two is always 0.

    Of ``select(x != x, 0, x)``, which only a NaN is 0 of: ``max(x, 0) + min(x, 0)``, both of which are 0 of a NaN.
    """
    comparison, left, right = value.comparison, value.left, value.right
    if left == right and comparison in ("!=", "=="):
        of_nan, of_number = (value.then, value.otherwise) if comparison == "!=" else (value.otherwise, value.then)
        if of_nan == _ZERO and of_number == left:
            yield Binary("+", Call("max", (left, _ZERO)), Call("min", (left, _ZERO)))
        return
    if left == _ZERO:
        comparison, left, right = _MIRRORED.get(comparison, ""), right, left
    if right != _ZERO or comparison not in _MIRRORED:
        return
    above, below = (value.then, value.otherwise) if comparison in (">", ">=") else (value.otherwise, value.then)
    for positive, negative in ((above, below), (below, above)):
        scaled = _factor_beside(left, negative)
        if positive == left and scaled is not None:
            kept, held = ("max", "min") if positive is above else ("min", "max")
            part = Binary("*", Call(held, (left, _ZERO)), scaled)
            yield Binary("+", Call(kept, (left, _ZERO)), part)


def _factor_beside(x: Expression, product: Expression) -> Expression | None:
    """What ``x`` is multiplied by in a product; None in anything else."""
    match product:
        case Binary("*", left, right) if left == x:
            return right
        case Binary("*", left, right) if right == x:
            return left
    return None


def _negated(value: Expression) -> Expression:
    match value:
        case Literal(number):
            return Literal(-number)
        case Negate(inner):
            return inner
        case Binary("*", inner, factor) if factor == _MINUS:
            return inner
    return Binary("*", value, _MINUS)


def _is_power_of_two(number: float) -> bool:
    return (
        number != 0
        and math.isfinite(number)
        and abs(math.frexp(number)[0]) == 0.5
        and abs(math.log2(abs(number))) < 100
    )
