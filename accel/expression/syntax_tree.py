"""The syntax tree of a statement, and the error of text that cannot be parsed.

Nodes print themselves as canonical text, which parses to an equal tree.
"""

import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from accel.errors import InvalidAccelerator


class ExpressionError(InvalidAccelerator):
    """An expression that cannot be parsed, or does not fit the tensors and scalars that it names.

    ``row`` is the first instruction for which a cost has no value, where it was evaluated for several.
    """

    def __init__(self, detail: str, *, row: int | None = None) -> None:
        super().__init__(detail)
        self.row = row


# how tightly a binary operator holds its sides; a sign holds tighter
PRECEDENCE = {"|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5, "*": 6, "/": 6, "//": 6}
Combiner = typing.Literal["+", "max", "min"]
FLOAT_FUNCTIONS = (
    *("rint", "floor", "ceil", "sqrt", "rsqrt", "recip"),
    *("exp", "exp2", "log", "tanh", "sigmoid", "erf"),
)
"""Functions of one float32."""
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True)
class Literal:
    """A number; a float where the text has a point or an exponent."""

    value: int | float

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class Scalar:
    """A bare name: a field of the instruction."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class AffineIndex:
    """A sum of axes in steps: ``2 * i + r + 1``. A step is a number from 1, or the name of a field.

    ``terms`` has each axis once, with its step; ``offset`` is from 0.
    """

    terms: tuple[tuple[str, int | str], ...]
    offset: int = 0

    def __str__(self) -> str:
        parts = [axis if step == 1 else f"{step} * {axis}" for axis, step in self.terms]
        return " + ".join([*parts, *([str(self.offset)] if self.offset else [])])

    def highest(self, extents: Mapping[str, int], steps: Mapping[str, int]) -> int:
        """Returns the largest index, given the extents of axes, and the values of fields."""
        return self.offset + sum(
            (steps[step] if isinstance(step, str) else step) * (extents[axis] - 1) for axis, step in self.terms
        )


Index: TypeAlias = str | int | AffineIndex


def index_terms(index: Index) -> tuple[tuple[str, int | str], ...]:
    """Returns the axes of an index, each with its step."""
    if isinstance(index, AffineIndex):
        return index.terms
    return ((index, 1),) if isinstance(index, str) else ()


@dataclass(frozen=True)
class Access:
    """An element of a tensor; an index is an axis, a constant or a sum of axes in steps."""

    name: str
    indices: tuple[Index, ...]

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.indices))}]"

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The axes of the indices, in order, repeated as they are."""
        return tuple(axis for index in self.indices for axis, _ in index_terms(index))

    @cached_property
    def slides(self) -> bool:
        """Whether an index is a sum of axes in steps."""
        return any(isinstance(index, AffineIndex) for index in self.indices)

    @cached_property
    def scalars(self) -> tuple[str, ...]:
        """The fields that are steps of its indices, in order."""
        return tuple(step for index in self.indices for _, step in index_terms(index) if isinstance(step, str))


@dataclass(frozen=True)
class Negate:
    """``-value``; the sign of a number belongs to its literal."""

    value: "Expression"

    def __str__(self) -> str:
        plain = isinstance(self.value, Scalar | Access | Call | Select | Cast | Lookup)
        return f"-{self.value}" if plain else f"-({self.value})"


@dataclass(frozen=True)
class Binary:
    """``left operator right``."""

    operator: str
    left: "Expression"
    right: "Expression"

    def __str__(self) -> str:
        own = PRECEDENCE[self.operator]
        return f"{_side(self.left, own)} {self.operator} {_side(self.right, own + 1)}"


@dataclass(frozen=True)
class Call:
    """``function(arguments)``."""

    function: str
    arguments: "tuple[Expression, ...]"

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True)
class Cast:
    """``to(value)``; ``to`` is the language's name of a type, such as ``i8``."""

    to: str
    value: "Expression"

    def __str__(self) -> str:
        return f"{self.to}({self.value})"


@dataclass(frozen=True)
class Lookup:
    """``lut(table, value)``: of a table of the document, by its name, or of an operand, from the element for 0 on."""

    table: str | Access
    value: "Expression"

    def __str__(self) -> str:
        return f"lut({self.table}, {self.value})"


@dataclass(frozen=True)
class Select:
    """``select(left comparison right, then, otherwise)``."""

    comparison: str
    left: "Expression"
    right: "Expression"
    then: "Expression"
    otherwise: "Expression"

    def __str__(self) -> str:
        return f"select({self.left} {self.comparison} {self.right}, {self.then}, {self.otherwise})"


Expression: TypeAlias = Literal | Scalar | Access | Negate | Binary | Call | Cast | Lookup | Select


def _side(expression: Expression, least: int) -> str:
    loose = isinstance(expression, Binary) and PRECEDENCE[expression.operator] < least
    return f"({expression})" if loose else str(expression)


def children(expression: Expression) -> tuple[Expression, ...]:
    """Returns the expressions directly below one, in the order of the text."""
    match expression:
        case Literal() | Scalar() | Access():  # most of all: asked first
            return ()
        case Lookup(table, value):
            return (value,) if isinstance(table, str) else (table, value)
        case Negate(value) | Cast(_, value):
            return (value,)
        case Binary(_, left, right):
            return (left, right)
        case Call(_, arguments):
            return arguments
        case Select(_, left, right, then, otherwise):
            return (left, right, then, otherwise)


def walk(expression: Expression) -> Iterator[Expression]:
    """Yields every node, in the order of the text."""
    pending = [expression]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(children(node)))


def with_children(expression: Expression, below: Sequence[Any]) -> Expression:
    """Returns an operation over other operands, in the order of the text; a leaf as it is."""
    match expression:
        case Negate() | Cast() | Lookup(str()):
            return replace(expression, value=below[0])
        case Lookup():
            return Lookup(*below)
        case Binary():
            return replace(expression, left=below[0], right=below[1])
        case Call():
            return replace(expression, arguments=tuple(below))
        case Select(comparison):
            return Select(comparison, *below)
    return expression


def with_leaves(expression: Expression, leaf: Callable[[Literal | Scalar | Access], Expression]) -> Expression:
    """Returns the expression with what ``leaf`` makes of each number, name and element."""
    if isinstance(expression, Literal | Scalar | Access):
        return leaf(expression)
    return with_children(expression, [with_leaves(child, leaf) for child in children(expression)])


def with_scalars(expression: Expression, values: Mapping[str, int]) -> Expression:
    """Returns the expression with numbers for some of its scalars."""

    def number(leaf: Literal | Scalar | Access) -> Expression:
        return Literal(values[leaf.name]) if isinstance(leaf, Scalar) and leaf.name in values else leaf

    return with_leaves(expression, number)


def with_sums(expression: Expression) -> Expression:
    """Returns the expression with one number for each sum of two."""
    made = with_children(expression, [with_sums(child) for child in children(expression)])
    match made:
        case Binary("+" | "-" as sign, Literal(int() as left), Literal(int() as right)):
            return Literal(left + right if sign == "+" else left - right)
    return made


@dataclass(frozen=True)
class Statement:
    """``target = value``, or a combination of both: the sum for ``+=``, else the ``max=`` or ``min=`` of them.

    Over the axes of the right only, values are combined, and summed for ``=``.
    """

    target: Access
    combiner: Combiner | None
    value: Expression

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        return f"{self.target} {self.combiner or ''}= {self.value}"

    def with_accesses(self, access: Callable[[Access], Access]) -> "Statement":
        """Returns the statement with other elements in place of its own."""

        def leaf(each: Literal | Scalar | Access) -> Expression:
            return access(each) if isinstance(each, Access) else each

        return Statement(access(self.target), self.combiner, with_leaves(self.value, leaf))

    @property
    def changes_nothing(self) -> bool:
        """Whether the target is given what it holds."""
        return self.combiner is None and self.value == self.target

    @property
    def updates(self) -> bool:
        """Whether what the target held is combined with the value."""
        return self.combiner is not None

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """Every read on the right, in order."""
        return tuple(node for node in walk(self.value) if isinstance(node, Access))

    @cached_property
    def elements(self) -> tuple[Access, ...]:
        """The elements that are named, each once, the target's first."""
        return tuple(dict.fromkeys((self.target, *self.accesses)))

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """Tensors read on the right, without the target, in order of first use."""
        return tuple(dict.fromkeys(access.name for access in self.accesses if access.name != self.target.name))

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """Tables of the document that values are looked up in, in order of first use."""
        named = (node.table for node in walk(self.value) if isinstance(node, Lookup))
        return tuple(dict.fromkeys(table for table in named if isinstance(table, str)))

    @cached_property
    def looked_up(self) -> tuple[Access, ...]:
        """Tables that are operands, in order of first use."""
        named = (node.table for node in walk(self.value) if isinstance(node, Lookup))
        return tuple(dict.fromkeys(table for table in named if isinstance(table, Access)))

    @cached_property
    def reads_target(self) -> bool:
        """Whether the target is read on the right."""
        return any(access.name == self.target.name for access in self.accesses)

    @cached_property
    def slides(self) -> bool:
        """Whether an index is a sum of axes in steps."""
        return any(access.slides for access in (self.target, *self.accesses))

    @cached_property
    def value_scalars(self) -> tuple[str, ...]:
        """Names of instruction fields of which the value is made, in order of first use."""
        return tuple(dict.fromkeys(node.name for node in walk(self.value) if isinstance(node, Scalar)))

    @cached_property
    def index_scalars(self) -> tuple[str, ...]:
        """Names of instruction fields that are steps of indices, in order of first use."""
        return tuple(dict.fromkeys(name for access in (self.target, *self.accesses) for name in access.scalars))

    @cached_property
    def scalars(self) -> tuple[str, ...]:
        """Names of instruction fields: of the value, then of indices, in order of first use."""
        return tuple(dict.fromkeys((*self.value_scalars, *self.index_scalars)))

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """All axes: the target's, then the right side's, in order of first use."""
        return tuple(dict.fromkeys(axis for access in (self.target, *self.accesses) for axis in access.axes))

    @cached_property
    def reduced(self) -> tuple[str, ...]:
        """Axes on the right only, over which values are combined, in order of first use."""
        return tuple(axis for axis in self.axes if axis not in self.target.axes)
