"""Expressions without their names: whether two say the same but for what tensors, axes and fields are called."""

import functools
from dataclasses import dataclass, replace

from accel.expression.parser import parse_statement
from accel.expression.syntax_tree import (
    Access,
    AffineIndex,
    Binary,
    Call,
    Cast,
    Expression,
    Index,
    Literal,
    Lookup,
    Negate,
    Scalar,
    Select,
)


@dataclass(frozen=True)
class NamelessStatement:
    """A statement whose names were replaced in the order of their first use, the target's first.

    Two statements have one ``text`` if they are the same but for names. ``tensors``, ``axes`` and ``scalars`` are the
    names that were there, in that order.
    """

    text: str
    tensors: tuple[str, ...]
    axes: tuple[str, ...]
    scalars: tuple[str, ...]


@functools.lru_cache(maxsize=4096)
def without_names(text: str) -> NamelessStatement:
    """The statement that ``text`` is, without its names.

    Raises:
        ExpressionError: it is none.
    """
    statement = parse_statement(text)
    names = _Names()
    target = names.access(statement.target)
    renamed = replace(statement, target=target, value=names.expression(statement.value))
    return NamelessStatement(str(renamed), tuple(names.tensors), tuple(names.axes), tuple(names.scalars))


class _Names:
    """What each name became: its kind, and its place among those of its kind."""

    def __init__(self) -> None:
        self.tensors: dict[str, str] = {}
        self.axes: dict[str, str] = {}
        self.scalars: dict[str, str] = {}

    def access(self, access: Access) -> Access:
        indices = tuple(map(self.index, access.indices))
        return Access(self.tensors.setdefault(access.name, f"t{len(self.tensors)}"), indices)

    def index(self, index: Index) -> Index:
        if isinstance(index, AffineIndex):
            return AffineIndex(
                tuple(
                    (self.axis(axis), self.scalar(step) if isinstance(step, str) else step)
                    for axis, step in index.terms
                ),
                index.offset,
            )
        return self.axis(index) if isinstance(index, str) else index

    def axis(self, name: str) -> str:
        return self.axes.setdefault(name, f"a{len(self.axes)}")

    def scalar(self, name: str) -> str:
        return self.scalars.setdefault(name, f"s{len(self.scalars)}")

    def expression(self, node: Expression) -> Expression:  # noqa: PLR0911 - a node of each kind
        match node:
            case Literal():
                return node
            case Scalar(name):
                return Scalar(self.scalar(name))
            case Access():
                return self.access(node)
            case Negate(value):
                return Negate(self.expression(value))
            case Cast(to, value):
                return Cast(to, self.expression(value))
            case Lookup(table, value):
                named = self.access(table) if isinstance(table, Access) else table
                return Lookup(named, self.expression(value))
            case Call(function, arguments):
                return Call(function, tuple(map(self.expression, arguments)))
            case Binary(operator, left, right):
                return Binary(operator, self.expression(left), self.expression(right))
            case Select(comparison, left, right, then, otherwise):
                parts = map(self.expression, (left, right, then, otherwise))
                return Select(comparison, *parts)
