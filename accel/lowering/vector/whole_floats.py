"""Statements of operators, and integers in them as floats: a float32 holds each integer up to 2 ** 24 as it is.

A vector unit of floats so computes with integers too, as long as all that lies between has no more digits.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm import ir

from accel.expression.element_types import CASTS, limits
from accel.expression.syntax_tree import (
    Access,
    Binary,
    Call,
    Cast,
    Combiner,
    Expression,
    Literal,
    Statement,
    children,
    with_children,
)

FLOAT = "float32"


@dataclass(frozen=True)
class LegalTensor:
    """A tensor that statements name: its shape and its type."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class LegalStatement:
    """``target = value`` for all its labels, or a combination over those that the target lacks, from ``start`` on.

    An index of an access is a label, or 0 in a dimension of extent 1; ``extents`` are those of the labels.
    """

    target: Access
    combiner: Combiner | None
    start: float | None
    value: Expression
    extents: Mapping[str, int]

    @property
    def looked_up(self) -> tuple[Access, ...]:
        """The tables that it looks numbers up in."""
        return Statement(self.target, self.combiner, self.value).looked_up


Range = tuple[float, float]
"""The least and the greatest value of an integer."""


@dataclass(frozen=True)
class LegalOperator:
    """An operator as statements; ``inputs`` are its operands' names, in their order, and ``result`` its result's.

    ``range`` is that of its result, if that is of integers which float32 holds; ``constants`` are the last inputs.
    """

    tensors: Mapping[str, LegalTensor]
    inputs: tuple[str, ...]
    result: str
    statements: tuple[LegalStatement, ...]
    range: Range | None = None
    constants: tuple[ir.GenericConst, ...] = ()


_HELD = 1 << 24
_POWER = 0.5  # the mantissa of a power of two
_WIDE = ("int32", "int64")
_NARROW = ("int8", "uint8", "int16")  # what loads may widen


def as_floats(operator: LegalOperator, given: Sequence[Range | None]) -> LegalOperator:
    """Returns an operator whose wide integers are floats, where float32 holds all of them; else as it is.

    ``given`` are the ranges of its operands, as far as they are known.
    """
    known = {name: found for name, found in zip(operator.inputs, given, strict=True) if found is not None}
    wide = [name for name, tensor in operator.tensors.items() if tensor.dtype in _WIDE]
    unknown = any(name in operator.inputs and name not in known for name in wide)
    if not wide or unknown or operator.tensors[operator.result].dtype == "int64":  # which no copy stores
        return operator
    narrow = {name: _limits(tensor.dtype) for name, tensor in operator.tensors.items() if tensor.dtype in _NARROW}
    ranges = narrow | known
    statements = []
    tensors = dict(operator.tensors)
    for name in wide:
        tensors[name] = replace(tensors[name], dtype=FLOAT)
    for statement in operator.statements:
        found = _range_of(statement.value, ranges, operator.tensors)
        if found is None:
            return operator
        if statement.combiner == "+":
            count = math.prod(n for label, n in statement.extents.items() if label not in statement.target.axes)
            begun = statement.start or 0.0
            found = (min(begun, begun + count * found[0]), max(begun, begun + count * found[1]))
            if not _is_held(found, operator.tensors[statement.target.name]):
                return operator
        ranges[statement.target.name] = found
        value = _float(statement.value, operator.tensors)
        start = None if statement.start is None else float(statement.start)
        statements.append(replace(statement, value=value, start=start))
    found = ranges[operator.result] if operator.result in wide else None
    return replace(operator, tensors=tensors, statements=tuple(statements), range=found)


def _limits(dtype: str) -> Range:
    low, high = limits(dtype)
    return float(low), float(high)


def _is_held(found: Range, tensor: LegalTensor) -> bool:
    return tensor.dtype == FLOAT or max(map(abs, found)) <= _HELD


def _range_of(value: Expression, ranges: Mapping[str, Range], tensors: Mapping[str, LegalTensor]) -> Range | None:
    """The least and the greatest value of an integer expression; infinities of floats; None if float32 lacks one."""
    match value:
        case Literal(number):
            return float(number), float(number)
        case Access(name):
            if tensors[name].dtype == FLOAT:
                return -math.inf, math.inf
            return ranges.get(name)
    below = [_range_of(child, ranges, tensors) for child in children(value)]
    if any(each is None for each in below):
        return None
    known = [each for each in below if each is not None]
    found = _of_operation(value, known)
    floats = any(math.isinf(end) for each in known for end in each)
    if floats or found is None or max(map(abs, found)) <= _HELD:
        return found
    return found if _is_shifted(value) and max(map(abs, found)) <= _limits("int32")[1] else None


def _is_shifted(value: Expression) -> bool:
    """Whether it is something held times a power of two, which has no more digits."""
    if not isinstance(value, Binary) or value.operator != "*":
        return False
    return any(
        isinstance(factor, Literal) and math.frexp(abs(factor.value))[0] == _POWER
        for factor in (value.left, value.right)
    )


def _of_operation(value: Expression, below: list[Range]) -> Range | None:
    match value:
        case Cast(to):
            return below[0] if to not in CASTS or CASTS[to] == FLOAT else _held_in(CASTS[to], below[0])
        case Binary(sign) if sign in _ARITHMETIC:
            return _ARITHMETIC[sign](below[0], below[1])
        case Call(function) if function in _ARITHMETIC:
            return _ARITHMETIC[function](below[0], below[1])
        case Binary("/") | Call():
            return -math.inf, math.inf
    return None


def _held_in(dtype: str, found: Range) -> Range | None:
    """What a cast leaves: a float is held within the type; an integer that may leave it would lose its upper bits."""
    low, high = _limits(dtype)
    if low <= found[0] and found[1] <= high:
        return found
    return (low, high) if math.inf in map(abs, found) else None


def _of_product(a: Range, b: Range) -> Range:
    ends = [_product(x, y) for x in a for y in b]
    return min(ends), max(ends)


_ARITHMETIC: dict[str, Callable[[Range, Range], Range]] = {
    "+": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "-": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "*": _of_product,
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
}


def _product(a: float, b: float) -> float:
    return 0.0 if 0 in (a, b) else a * b


def _float(value: Expression, tensors: Mapping[str, LegalTensor]) -> Expression:
    """An expression on floats; what is narrow is widened to one."""
    match value:
        case Literal(number):
            return Literal(float(number))
        case Access(name):
            return Cast("f32", value) if tensors[name].dtype in _NARROW else value
        case Cast(to, inner) if to in ("f32", "i32", "i64"):
            return _float(inner, tensors)
        case Cast(to, inner):
            return Cast(to, _float(inner, tensors))
    return with_children(value, [_float(child, tensors) for child in children(value)])
