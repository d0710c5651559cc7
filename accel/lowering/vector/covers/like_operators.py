"""Operators that differ from a covered one in numbers alone: the numbers are put into its statements."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from accel.accelerator.target import Target
from accel.expression.syntax_tree import Access, Expression, Literal, Scalar, Statement, walk, with_leaves
from accel.lowering.analysis.like_numbers import LikeNumbers
from accel.lowering.vector.covers.covered_operators import CoveredOperator, cover_operator
from accel.lowering.vector.whole_floats import LegalOperator

_MOST_TRIED = 16  # operators of one kind that are asked: they differ in which numbers are known


class LikeOperators:
    """The operators that were covered for a target so far."""

    def __init__(self, target: Target, home: str) -> None:
        self._target, self._home = target, home
        self._numbers = target.derived(LikeNumbers)
        self._covered: dict[Hashable, list[tuple[list[float], CoveredOperator]]] = defaultdict(list)

    def cover(self, operator: LegalOperator) -> CoveredOperator:
        """Returns an operator as :func:`cover_operator` does.

        Raises:
            UncoverableError: no instructions do it.
        """
        numbers, kind = list(_numbers_of(operator)), self._covered[_without_numbers(operator)]
        for others, covered in kind:
            made = self._renumbered(covered, others, numbers)
            if made is not None:
                return made
        found = cover_operator(operator, self._target, self._home)
        if len(kind) < _MOST_TRIED:
            kind.append((numbers, found))
        return found

    def _renumbered(
        self, covered: CoveredOperator, others: Sequence[float], numbers: Sequence[float]
    ) -> CoveredOperator | None:
        """What was made with other numbers; None where something may depend on them, or another one came of them."""
        if not self._numbers.are_alike(zip(others, numbers, strict=True)):
            return None
        new = {abs(one): abs(other) for one, other in zip(others, numbers, strict=True)}
        literals = [node.value for made in covered.statements for node in walk(made.value) if isinstance(node, Literal)]
        if any(isinstance(each, float) and abs(each) not in new and self._numbers.is_any(each) for each in literals):
            return None

        def value(leaf: Literal | Scalar | Access) -> Expression:
            if not isinstance(leaf, Literal) or not isinstance(leaf.value, float):
                return leaf
            return Literal(math.copysign(new.get(abs(leaf.value), abs(leaf.value)), leaf.value))

        statements = [
            Statement(made.target, made.combiner, with_leaves(made.value, value)) for made in covered.statements
        ]
        return replace(covered, statements=tuple(statements))


def _numbers_of(operator: LegalOperator) -> Iterator[float]:
    for statement in operator.statements:
        yield from [] if statement.start is None else [statement.start]
        for node in walk(statement.value):
            if isinstance(node, Literal) and isinstance(node.value, float):
                yield node.value


def _without_numbers(operator: LegalOperator) -> Hashable:
    """The same for operators that differ in numbers alone."""

    def value(leaf: Literal | Scalar | Access) -> Expression:
        return Literal(0.0) if isinstance(leaf, Literal) and isinstance(leaf.value, float) else leaf

    statements = tuple(
        (each.target, each.combiner, each.start is None, with_leaves(each.value, value), tuple(each.extents.items()))
        for each in operator.statements
    )
    return tuple(operator.tensors.items()), operator.inputs, operator.result, statements
