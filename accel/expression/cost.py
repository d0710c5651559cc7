"""What an instruction costs, as arithmetic over its fields."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from accel.expression.errors import ExpressionError
from accel.expression.parser import Dialect, Parser
from accel.expression.tree import Binary, Call, Expression, Literal, Negate, Scalar, children, walk

COSTS = Dialect(
    operators=frozenset({"+", "-", "*", "/", "//"}),
    functions={"ceil": (1, 1), "floor": (1, 1), "min": (2, 8), "max": (2, 8)},
    tensors=False,
)
Columns = Mapping[str, npt.NDArray[Any] | float]
_Array = npt.NDArray[np.float64]

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

    @property
    def names(self) -> tuple[str, ...]:
        """What the cost depends on, in order of first use."""
        return tuple(dict.fromkeys(node.name for node in walk(self.tree) if isinstance(node, Scalar)))

    def evaluate(self, columns: Columns) -> _Array:
        """The cost of each instruction, in double precision.

        ``columns`` has a number or one number an instruction for each name, and may have more; the result has the
        shape that all of them broadcast to. Integers beyond 2**53 are rounded.

        Raises:
            ExpressionError: a name that is no column; a division by zero; a value that is no finite number. ``row``
                is the first of several instructions.
        """
        for name in self.names:
            if name not in columns:
                raise ExpressionError(f"found the name {name}; expected one of {', '.join(sorted(columns))}")
        given = {name: np.asarray(column, np.float64) for name, column in columns.items()}
        shape = np.broadcast_shapes(*(column.shape for column in given.values()))
        return np.array(np.broadcast_to(self._of(self.tree, given), shape))

    def _of(self, node: Expression, columns: Mapping[str, _Array]) -> _Array:
        below = [self._of(child, columns) for child in children(node)]
        with np.errstate(all="ignore"):  # what is not finite is refused below
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


def parse_cost(text: str) -> Cost:
    """The cost that ``text`` is.

    Raises:
        ExpressionError: it is none, or it divides by the number 0.
    """
    parser = Parser(text, COSTS)
    tree = parser.expression()
    parser.end()
    for node in walk(tree):
        match node:
            case Binary("/" | "//", _, Literal(0)):
                raise ExpressionError(f"{node} divides by zero")
    return Cost(tree)


def _refuse_zero(node: Expression, divisor: Expression, values: _Array, *, divides: bool) -> None:
    if divides and not values.all():
        raise ExpressionError(f"{node} divides by zero where {divisor} is 0", row=_first(values == 0))


def _refuse_infinite(node: Expression, values: _Array) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        raise ExpressionError(f"{node} is no finite number", row=_first(~finite))


def _first(found: npt.NDArray[np.bool_]) -> int | None:
    """The first position that is meant, if there are several."""
    return int(np.argmax(found)) if found.ndim else None
