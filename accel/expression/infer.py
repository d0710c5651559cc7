"""The element type of every node of an expression."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from accel.expression.element_types import CASTS, TensorType, is_float, limits, single
from accel.expression.errors import ExpressionError
from accel.expression.tree import Access, Binary, Call, Cast, Expression, Literal, Scalar, Select, children, walk

SHIFTS = ("<<", ">>")
INTEGER_OPERATORS = ("&", "^", "|", *SHIFTS)


@dataclass(frozen=True)
class Node:
    """An expression with its element type; ``children`` are those of the expression, in the order of the text."""

    dtype: str
    expression: Expression
    children: "tuple[Node, ...]"


@dataclass(frozen=True)
class Inference:
    """The names that an expression may use: tensors, and scalars with their types."""

    tensors: Mapping[str, TensorType]
    scalars: Mapping[str, str]

    def typed(self, expression: Expression, expected: str | None = None) -> Node:
        """``expression`` as a node of type ``expected``, or of its own.

        Literals and integer scalars take the type that their place asks for; nothing else is converted.

        Raises:
            ExpressionError: a type does not fit its place.
        """
        own = self._own(expression)
        dtype = expected or own or self._default(expression)
        if own not in (None, dtype):
            _refuse(expression, str(own), dtype)
        match expression:
            case Literal():
                _check_literal(expression, dtype)
            case Scalar(name) if is_float(dtype) and not is_float(self.scalars[name]):
                _refuse(expression, self.scalars[name], dtype)
        wanted = self._wanted(expression, dtype)
        pairs = zip(children(expression), wanted, strict=True)
        below = tuple(self.typed(child, want) for child, want in pairs)
        for child in below:
            if is_float(child.dtype) and isinstance(expression, Binary) and expression.operator in INTEGER_OPERATORS:
                raise ExpressionError(f"{child.expression} is float32; expected integers for '{expression.operator}'")
        return Node(dtype, expression, below)

    def _wanted(self, expression: Expression, dtype: str) -> tuple[str | None, ...]:
        """What a node of type ``dtype`` asks of its children; None: they choose."""
        match expression:
            case Cast():
                return (None,)
            case Binary(operator) if operator in SHIFTS:
                return (dtype, None)
            case Select(_, left, right):
                compared = self._join(expression, (left, right)) or self._default(left, right)
                return (compared, compared, dtype, dtype)
        return (dtype,) * len(children(expression))

    def _own(self, expression: Expression) -> str | None:
        """The type that an expression has wherever it stands; None: its place decides."""
        match expression:
            case Literal(value):
                own = "float32" if isinstance(value, float) else None
            case Scalar(name):
                own = "float32" if is_float(self.scalars[name]) else None
            case Access(name):
                own = self.tensors[name].dtype
            case Cast(to):
                own = CASTS[to]
            case Call("rint"):
                own = "float32"
            case Binary(operator, left) if operator in SHIFTS:
                own = self._own(left)
            case Select(then=then, otherwise=otherwise):
                own = self._join(expression, (then, otherwise))
            case _:
                own = self._join(expression, children(expression))
        return own

    def _join(self, whole: Expression, parts: tuple[Expression, ...]) -> str | None:
        owns = {own: part for part in reversed(parts) if (own := self._own(part))}
        if len(owns) > 1:
            found = " and ".join(f"{part} is {own}" for own, part in sorted(owns.items()))
            raise ExpressionError(f"in {whole}, {found}; expected equal types: cast one of them")
        return next(iter(owns), None)

    def _default(self, *expressions: Expression) -> str:
        """The type of what is made of literals and integer scalars alone, where nothing asks for one."""
        names = [node.name for expression in expressions for node in walk(expression) if isinstance(node, Scalar)]
        types = sorted({self.scalars[name] for name in names})
        if len(types) > 1:
            found = " and ".join(types)
            raise ExpressionError(f"{expressions[0]} mixes scalars of {found}; expected one type: cast them")
        return types[0] if types else "int32"


def _check_literal(literal: Literal, dtype: str) -> None:
    if is_float(dtype):
        _check_single(literal)
        return
    low, high = limits(dtype)
    if not low <= literal.value <= high:
        raise ExpressionError(f"found {literal} as {dtype}; expected an integer from {low} to {high}")


def _check_single(literal: Literal) -> None:
    try:
        nearest = single(literal.value)
    except OverflowError:
        raise ExpressionError(f"found {literal} as float32; expected a number that is in range") from None
    if isinstance(literal.value, int) and nearest != literal.value:
        raise ExpressionError(f"found {literal} as float32; expected an integer that it holds, or a decimal point")


def _refuse(expression: Expression, found: str, expected: str) -> NoReturn:
    cast = next(name for name, dtype in CASTS.items() if dtype == expected)
    what = "it or its parts" if len(children(expression)) > 1 else "it"
    raise ExpressionError(f"{expression} is {found}; expected {expected}: cast {what} with {cast}()")
