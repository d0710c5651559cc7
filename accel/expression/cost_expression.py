"""Costs of instructions: arithmetic over fields, its value for many instructions at once, and its bounds over boxes."""

import functools
import math
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.expression.parser import Dialect, Parser
from accel.expression.syntax_tree import (
    Binary,
    Call,
    Expression,
    ExpressionError,
    Literal,
    Negate,
    Scalar,
    children,
    walk,
)
from accel.util.arrays import Array, Bools, Float64

COSTS = Dialect(
    operators=frozenset({"+", "-", "*", "/", "//"}),
    functions={"ceil": (1, 1), "floor": (1, 1), "min": (2, 8), "max": (2, 8)},
    tensors=False,
)
Columns = Mapping[str, Array | float]

_BINARY: Mapping[str, Any] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "//": np.floor_divide,
}
_CALLS: Mapping[str, Any] = {"ceil": np.ceil, "floor": np.floor, "min": np.minimum, "max": np.maximum}


@dataclass(frozen=True)
class Cost:
    """A cost as it was parsed; ``str()`` of the tree is its canonical text."""

    tree: Expression

    def __str__(self) -> str:
        return str(self.tree)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The names that the cost depends on, in order of first use."""
        return tuple(dict.fromkeys(node.name for node in walk(self.tree) if isinstance(node, Scalar)))

    def evaluate(self, columns: Columns) -> Float64:
        """Returns the cost of each instruction, in double precision.

        ``columns`` has a number or one number an instruction for each name, and may have more; the result has the
        shape that all of them broadcast to. Integers beyond 2**53 are rounded.

        Raises:
            ExpressionError: a name without a column, a division by zero, or a value that is not finite. ``row``
                is the first of several instructions.
        """
        for name in self.names:
            if name not in columns:
                raise ExpressionError(f"found the name {name}; expected one of {', '.join(sorted(columns))}")
        if all(type(column) in _NUMBERS for column in columns.values()):
            with suppress(ArithmeticError):
                return np.array(self._number(columns), np.float64)
        given = {name: np.asarray(column, np.float64) for name, column in columns.items()}
        shape = np.broadcast_shapes(*(column.shape for column in given.values()))
        if all(np.isfinite(given[name]).all() for name in self.names):
            with suppress(FloatingPointError), np.errstate(over="raise", divide="raise", invalid="raise"):
                return np.array(np.broadcast_to(self._function(given), shape))
        with np.errstate(all="ignore"):  # what is not finite is refused where it comes about
            return np.array(np.broadcast_to(self._of(self.tree, given), shape))

    @functools.cached_property
    def _function(self) -> "_Evaluate":
        """What evaluates the tree, unless a value is not finite."""
        return _function_of(self.tree)

    @functools.cached_property
    def _number(self) -> "_EvaluateOne":
        """What evaluates the tree for one instruction, in Python's numbers: arrays of one take ten times as long."""
        return _number_of(self.tree)

    def _of(self, node: Expression, columns: Mapping[str, Float64]) -> Float64:
        below = [self._of(child, columns) for child in children(node)]
        match node:
            case Literal(value):
                found = np.asarray(value, np.float64)
            case Scalar(name):
                found = columns[name]
            case Negate():
                found = np.negative(below[0])
            case Binary(sign, _, divisor):
                _refuse_zero(node, divisor, below[1], divides=sign in ("/", "//"))
                found = _BINARY[sign](*below)
            case Call(function):
                found = functools.reduce(_CALLS[function], below) if len(below) > 1 else _CALLS[function](*below)
            case _:
                raise AssertionError(node)
        _refuse_infinite(node, found)
        return found


_Evaluate = Callable[[Mapping[str, Float64]], Float64]


def _function_of(node: Expression) -> _Evaluate:
    """Returns what evaluates a node where all names are finite; NumPy raises where a value is not."""
    below = [_function_of(child) for child in children(node)]
    match node:
        case Literal(value):
            number = np.asarray(value, np.float64)
            return lambda _: number if np.isfinite(number) else number - number  # which is invalid
        case Scalar(name):
            return operator.itemgetter(name)
        case Negate():
            return lambda columns: np.negative(below[0](columns))
        case Binary(sign):
            binary, (left, right) = _BINARY[sign], below
            return lambda columns: binary(left(columns), right(columns))
        case Call(function):
            call = _CALLS[function]
            if len(below) == 1:
                return lambda columns: call(below[0](columns))
            return lambda columns: functools.reduce(call, [each(columns) for each in below])
        case _:
            raise AssertionError(node)


_NUMBERS = (float, int)
_EvaluateOne = Callable[[Mapping[str, Any]], float]
_BINARY_OF_ONE: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,  # NumPy's is Python's
}
_CALLS_OF_ONE: Mapping[str, Callable[..., float]] = {"ceil": math.ceil, "floor": math.floor, "min": min, "max": max}


def _number_of(node: Expression) -> _EvaluateOne:
    """Returns what evaluates a node for numbers; it raises ArithmeticError where a value is not finite."""
    below = [_number_of(child) for child in children(node)]

    def finite(found: float) -> float:
        if not math.isfinite(found):
            raise FloatingPointError
        return found

    match node:
        case Literal(value):
            return lambda _: finite(float(value))
        case Scalar(name):
            return lambda columns: finite(float(columns[name]))
        case Negate():
            return lambda columns: -below[0](columns)
        case Binary(sign):
            binary, (left, right) = _BINARY_OF_ONE[sign], below
            return lambda columns: finite(binary(left(columns), right(columns)))
        case Call(function):
            call = _CALLS_OF_ONE[function]
            return lambda columns: float(call(*(each(columns) for each in below)))
        case _:
            raise AssertionError(node)


@functools.lru_cache(maxsize=256)  # a plan, a launch and a report ask for the same ones, again and again
def parse_cost(text: str) -> Cost:
    """Returns the cost that ``text`` states.

    Raises:
        ExpressionError: it cannot be parsed, or it divides by the number 0.
    """
    parser = Parser(text, COSTS)
    tree = parser.expression()
    parser.end()
    for node in walk(tree):
        match node:
            case Binary("/" | "//", _, Literal(0)):
                raise ExpressionError(f"{node} divides by zero")
    return Cost(tree)


def _refuse_zero(node: Expression, divisor: Expression, values: Float64, *, divides: bool) -> None:
    if divides and not values.all():
        raise ExpressionError(f"{node} divides by zero where {divisor} is 0", row=_first(values == 0))


def _refuse_infinite(node: Expression, values: Float64) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        raise ExpressionError(f"{node} is no finite number", row=_first(~finite))


def _first(found: Bools) -> int | None:
    """The first position that is meant, if there are several."""
    return int(np.argmax(found)) if found.ndim else None


Ends = tuple[Float64, Float64]


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value (n,) of a cost in each of n boxes, and whether it is finite all over it (n,).

    They are no tighter than arithmetic on ranges makes them, and hold for values in double precision: its rounding
    keeps the order of numbers.
    """

    low: Float64
    high: Float64
    finite: Bools


def bounds(cost: Cost, names: Mapping[str, Ends], count: int) -> Bounds:
    """Returns the bounds of ``cost`` over ``count`` boxes; ``names`` has the ends (n,) of each name of the cost."""
    finite = np.ones(count, np.bool_)
    with np.errstate(all="ignore"):  # what is not finite is marked
        low, high = _of(cost.tree, names, finite)
    return Bounds(low, high, finite)


def _of(node: Expression, names: Mapping[str, Ends], finite: Bools) -> Ends:
    below = [_of(child, names, finite) for child in children(node)]
    match node:
        case Literal(value):
            found = (np.full(len(finite), float(value)), np.full(len(finite), float(value)))
        case Scalar(name):
            found = names[name]
        case Negate():
            found = (-below[0][1], -below[0][0])
        case Binary(sign):
            found = _binary(sign, below[0], below[1], finite)
        case Call("min" | "max" as function):
            least = np.minimum if function == "min" else np.maximum
            lows, highs = zip(*below, strict=True)
            found = (functools.reduce(least, lows), functools.reduce(least, highs))
        case Call(function):
            rounded = np.ceil if function == "ceil" else np.floor
            found = (rounded(below[0][0]), rounded(below[0][1]))
        case _:
            raise AssertionError(node)
    finite &= np.isfinite(found[0]) & np.isfinite(found[1])
    return np.where(finite, found[0], 0.0), np.where(finite, found[1], 0.0)


def _binary(sign: str, left: Ends, right: Ends, finite: Bools) -> Ends:
    if sign == "+":
        return left[0] + right[0], left[1] + right[1]
    if sign == "-":
        return left[0] - right[1], left[1] - right[0]
    if sign != "*":
        zero = (right[0] <= 0) & (right[1] >= 0)
        finite &= ~zero
        right = np.where(zero, 1.0, right[0]), np.where(zero, 1.0, right[1])
    operation = {"*": np.multiply, "/": np.divide, "//": np.floor_divide}[sign]
    corners = np.stack([operation(a, b) for a in left for b in right])
    return corners.min(axis=0), corners.max(axis=0)
