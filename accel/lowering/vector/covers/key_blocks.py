"""Attention over blocks of keys: a softmax between two products, with a running maximum and running sums.

Of scores ``s`` with keys along one axis, weights ``exp(s - max s)`` and sums of these along it, times values or alone,
a block of keys needs no more than what the blocks before it leave: the maximum so far ``m``, and the sums so far of
``exp(s - m)``, which shrink by ``exp(old m - new m)`` as the maximum grows (M. Milakov, N. Gimelshein, Online
normalizer calculation for softmax, 2018). What the weights are divided by divides the sums instead, once at the end.

The pattern is one of statements: of what is read and reduced along which axis, whatever operators it came of.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from tvm import relax

from accel.accelerator.target import Target
from accel.expression.syntax_tree import Access, Binary, Call, Expression, Literal, Statement
from accel.lowering.vector.covers.covered_operators import CoveredOperator, OperatorAxes, covered
from accel.lowering.vector.covers.instruction_cover import InstructionCover, Lying
from accel.lowering.vector.tiles.program_buffers import sums_products
from accel.lowering.vector.whole_floats import FLOAT, LegalOperator, LegalStatement, LegalTensor
from accel.region.vector_program import Stream, axis_name

_LEAST = float(np.finfo(np.float32).min)
_FREE, _LATE = "free", "late"


@dataclass(frozen=True)
class Part:
    """An operator of the graph within attention: the variable that it makes, its statements, and its operands."""

    var: relax.Var
    operator: LegalOperator
    given: Sequence[relax.Expr]


def joined(parts: Iterable[Part]) -> tuple[LegalOperator, list[relax.Expr]]:
    """Returns operators, each behind those that it reads, as one; and the operands that its inputs stand for.

    Each use of an operand is an input of its own, as it may be read along other axes. What is only moved is read where
    it was.
    """
    made: dict[relax.Expr, str] = {}
    tensors: dict[str, LegalTensor] = {}
    given: list[relax.Expr] = []
    inputs: list[str] = []
    statements: list[LegalStatement] = []
    moved: dict[relax.Expr, Part] = {}
    result = ""
    for number, part in enumerate(parts):
        if moves(part.operator):
            moved[part.var] = part
            continue
        operator, given_here = _read_where_it_was(part, moved)
        names = dict[str, str]()
        for name, value in zip(operator.inputs, given_here, strict=True):
            if value in made:
                names[name] = made[value]
                continue
            names[name] = f"x{len(inputs)}"
            inputs.append(names[name])
            given.append(value)
        names |= {name: f"n{number}_{name}" for name in operator.tensors if name not in names}
        tensors |= {names[name]: tensor for name, tensor in operator.tensors.items()}
        statements += [_renamed(statement, names) for statement in operator.statements]
        made[part.var] = result = names[operator.result]
    return LegalOperator(tensors, tuple(inputs), result, tuple(statements)), given


def _read_where_it_was(part: Part, moved: Mapping[relax.Expr, Part]) -> tuple[LegalOperator, list[relax.Expr]]:
    """An operator, with operands before they were moved; and these."""
    operator, given = part.operator, list(part.given)
    for place, name in enumerate(operator.inputs):
        while (move := moved.get(given[place])) is not None:
            (step,) = move.operator.statements
            source = step.value
            assert isinstance(source, Access)

            def elsewhere(
                leaf: Access, name: str = name, target: Access = step.target, source: Access = source
            ) -> Access:
                if leaf.name != name:
                    return leaf
                at = dict(zip(target.indices, leaf.indices, strict=True))
                return Access(name, tuple(at[index] if isinstance(index, str) else index for index in source.indices))

            tensors = {**operator.tensors, name: move.operator.tensors[source.name]}
            statements = tuple(_with_accesses(statement, elsewhere) for statement in operator.statements)
            operator, given[place] = replace(operator, tensors=tensors, statements=statements), move.given[0]
    return operator, given


def moves(operator: LegalOperator) -> bool:
    """Returns whether an operator gives each element of its one operand another place, and does nothing else."""
    if len(operator.statements) != 1 or len(operator.inputs) != 1:
        return False
    (statement,) = operator.statements
    value, target = statement.value, statement.target
    if statement.combiner is not None or not isinstance(value, Access):
        return False
    alike = sorted(value.axes) == sorted(target.axes) and len({*target.axes}) == len(target.axes)
    return alike and operator.tensors[value.name].dtype == operator.tensors[target.name].dtype


def converts(operator: LegalOperator) -> bool:
    """Returns whether an operator computes each element of its result of the one at the same place in one operand."""
    alike = len({tensor.shape for tensor in operator.tensors.values()}) == 1
    same = (leaf.indices == each.target.indices for each in operator.statements for leaf in _operands(each))
    return (
        alike and len(operator.inputs) == 1 and all(same) and all(each.combiner is None for each in operator.statements)
    )


def _operands(statement: LegalStatement) -> tuple[Access, ...]:
    return Statement(statement.target, statement.combiner, statement.value).accesses


def _with_accesses(statement: LegalStatement, change: Callable[[Access], Access]) -> LegalStatement:
    whole = Statement(statement.target, statement.combiner, statement.value).with_accesses(change)
    return replace(statement, target=whole.target, value=whole.value)


def _renamed(statement: LegalStatement, names: Mapping[str, str]) -> LegalStatement:
    return _with_accesses(statement, lambda leaf: replace(leaf, name=names[leaf.name]))


def multiplies(operator: LegalOperator) -> bool:
    """Returns whether an operator sums products of two tensors along an axis of both."""
    return products_of(operator) > 0


def products_of(operator: LegalOperator) -> int:
    """Returns how many products of two tensors an operator sums."""
    sums = (each for each in operator.statements if sums_products(Statement(each.target, each.combiner, each.value)))
    return sum(math.prod(each.extents.values()) for each in sums)


@dataclass(frozen=True)
class _Step:
    """A statement; a reduction begins with ``start``, or goes on from what is there where that is None."""

    statement: Statement
    start: float | None = None


@dataclass(frozen=True)
class _Weights:
    """What is ``exp(s - m)`` of ``base``, and then divided by or multiplied with ``factors``, which have no keys."""

    base: Access
    factors: tuple[tuple[str, Expression], ...] = ()


class _NoAttentionError(Exception):
    """The statements are no softmax along an axis, and sums along it."""


@dataclass
class KeyBlocks:
    """The statements of attention: those ahead of all keys, of each block of them, and behind the last."""

    axis: str
    begin: list[_Step] = field(default_factory=list)
    block: list[_Step] = field(default_factory=list)
    end: list[_Step] = field(default_factory=list)


class _Reader:
    """Reads statements one after the other into a :class:`KeyBlocks`."""

    def __init__(self, statements: Sequence[tuple[Statement, float | None]], inputs: Iterable[str]) -> None:
        maxima = [each for each, _ in statements if each.combiner == "max"]
        if len(maxima) != 1 or len(maxima[0].reduced) != 1 or not isinstance(maxima[0].value, Access):
            raise _NoAttentionError
        self._statements, self._maximum, self._scores = statements, maxima[0], maxima[0].value
        self._axis = maxima[0].reduced[0]
        self._forms: dict[str, str | _Weights] = dict.fromkeys(inputs, _FREE)
        self._shifted: set[str] = set()
        self._grows: Access | None = None  # what sums shrink by as the maximum grows
        self._found = KeyBlocks(self._axis)

    def blocks(self) -> KeyBlocks:
        """The statements.

        Raises:
            _NoAttentionError: they are something else.
        """
        for statement, start in self._statements:
            self._take(statement, start)
        if self._grows is None or self._forms[self._statements[-1][0].target.name] != _LATE:
            raise _NoAttentionError
        return self._found

    def _take(self, statement: Statement, start: float | None) -> None:
        target = statement.target
        if statement is self._maximum:
            self._take_maximum(start)
            return
        forms = {self._forms.get(name) for name in statement.operands}
        walks = self._axis in statement.axes
        if forms <= {_FREE} and not self._shifted.intersection(statement.operands):
            if self._axis in statement.reduced:
                raise _NoAttentionError
            self._forms[target.name] = _FREE
            (self._found.block if walks else self._found.begin).append(_Step(statement, start))
        elif self._axis in target.axes:
            self._take_weights(statement)
        elif walks:
            self._take_sum(statement, start)
        else:
            self._forms[target.name] = _LATE
            self._found.end.append(_Step(statement, start))

    def _take_maximum(self, start: float | None) -> None:
        """The maximum so far: what it was, what it is with a block, and what the sums of earlier blocks shrink by."""
        target, found = self._maximum.target, self._found
        if self._forms.get(self._scores.name) != _FREE or set(target.axes) != set(self._scores.axes) - {self._axis}:
            raise _NoAttentionError
        before, shrinks = (Access(f"{target.name}_{name}", target.indices) for name in ("before", "shrinks"))
        least = max(_LEAST if start is None else start, _LEAST)  # of no keys: exp(least - m) is 0 or 1, and no NaN
        found.begin.append(_Step(Statement(target, None, Literal(least))))
        found.block.append(_Step(Statement(before, None, target)))
        found.block.append(_Step(self._maximum))
        found.block.append(_Step(Statement(shrinks, None, Call("exp", (Binary("-", before, target),)))))
        self._forms[target.name], self._grows = "maximum", shrinks

    def _take_weights(self, statement: Statement) -> None:
        """What is made of scores and the maximum, or of weights."""
        target, value = statement.target, statement.value
        if statement.combiner is not None:
            raise _NoAttentionError
        if value == self._difference:
            self._shifted.add(target.name)
            self._forms[target.name] = "shifted"
            return
        if isinstance(value, Call) and value.function == "exp":
            (inner,) = value.arguments
            shifted = isinstance(inner, Access) and inner.name in self._shifted and inner.indices == target.indices
            if inner == self._difference or shifted:
                made = Statement(target, None, Call("exp", (self._difference,)))
                self._found.block.append(_Step(made))
                self._forms[target.name] = _Weights(target)
                return
        self._forms[target.name] = self._scaled(value, target)

    @property
    def _difference(self) -> Expression:
        return Binary("-", self._scores, self._maximum.target)

    def _scaled(self, value: Expression, target: Access) -> _Weights:
        """Weights as they are, or times or divided by something without keys."""
        if isinstance(value, Access) and (known := self._weights(value, target.indices)):
            return known
        if isinstance(value, Binary) and value.operator in ("*", "/"):
            pairs = [(value.left, value.right), (value.right, value.left)][: 2 if value.operator == "*" else 1]
            for weights, factor in pairs:
                known = self._weights(weights, target.indices)
                if known is not None and self._has_no_keys(factor):
                    return replace(known, factors=(*known.factors, (value.operator, factor)))
        raise _NoAttentionError

    def _weights(self, value: Expression, indices: Sequence[object] | None = None) -> _Weights | None:
        """The weights that an access is of; None where it is of none, or moves them."""
        if not isinstance(value, Access):
            return None
        form = self._forms.get(value.name)
        if not isinstance(form, _Weights) or value.indices != form.base.indices:
            return None
        return form if indices is None or tuple(indices) == value.indices else None

    def _has_no_keys(self, value: Expression) -> bool:
        if isinstance(value, Literal):
            return True
        late = isinstance(value, Access) and self._forms.get(value.name) == _LATE
        return late and isinstance(value, Access) and self._axis not in value.axes

    def _take_sum(self, statement: Statement, start: float | None) -> None:
        """A sum of weights along the keys, or of weights times values."""
        target, value = statement.target, statement.value
        if statement.combiner != "+" or statement.reduced != (self._axis,) or start != 0 or self._grows is None:
            raise _NoAttentionError
        if not set(self._grows.axes) <= set(target.axes):
            raise _NoAttentionError
        weights, summed = self._summed(value)
        partial = Access(f"{target.name}_sum", target.indices) if weights.factors else target
        found = self._found
        found.begin.append(_Step(Statement(partial, None, Literal(0.0))))
        found.block.append(_Step(Statement(partial, None, Binary("*", partial, self._grows))))
        found.block.append(_Step(Statement(partial, "+", summed)))
        whole: Expression = partial
        for sign, factor in weights.factors:
            whole = Binary(sign, whole, factor)
        if weights.factors:
            found.end.append(_Step(Statement(target, None, whole)))
        self._forms[target.name] = _LATE

    def _summed(self, value: Expression) -> tuple[_Weights, Expression]:
        """The weights in a sum, and what is summed, with the weights as they are before all factors."""
        if (weights := self._weights(value)) is not None:
            return weights, weights.base
        if isinstance(value, Binary) and value.operator == "*":
            for one, other in ((value.left, value.right), (value.right, value.left)):
                weights = self._weights(one)
                if weights is not None and isinstance(other, Access) and self._forms.get(other.name) == _FREE:
                    left = one is value.left
                    pair = (weights.base, other) if left else (other, weights.base)
                    return weights, Binary("*", *pair)
        raise _NoAttentionError


def cover_key_blocks(operator: LegalOperator, target: Target, home: str) -> CoveredOperator | None:
    """Returns attention over blocks of keys as instructions do it, floats in ``home``; None of what is no attention.

    Raises:
        UncoverableError: instructions do not do it.
    """
    if any(statement.looked_up for statement in operator.statements):
        return None
    axes = OperatorAxes(operator)
    numbered = enumerate(operator.statements)
    try:
        whole = [(axes.statement(number, statement), statement.start) for number, statement in numbered]
        found = _Reader(whole, operator.inputs).blocks()
    except _NoAttentionError:
        return None
    named = {statement.target.name for steps in (found.begin, found.block, found.end) for statement in _of(steps)}
    lying = {
        name: Lying(tensor.dtype, home if tensor.dtype == FLOAT else "") for name, tensor in operator.tensors.items()
    }
    lying |= {name: Lying(FLOAT, home) for name in named if name not in lying}
    extents = {axis_name(axis): extent for axis, extent in enumerate(axes.extents)}
    cover = InstructionCover(target, home, lying, extents, {})
    begin, block, end = (
        [made for step in steps for made in _covered(step, cover)] for steps in (found.begin, found.block, found.end)
    )
    stream = Stream(int(found.axis[1:]), len(begin), len(begin) + len(block))
    return covered(operator, axes, cover, [*begin, *block, *end], stream)


def cover_sum_blocks(operator: LegalOperator, target: Target, home: str) -> CoveredOperator | None:
    """Returns a sum of products over blocks of what is summed, as instructions do it; None of anything else.

    Raises:
        UncoverableError: instructions do not do it.
    """
    if len(operator.statements) != 1 or not multiplies(operator):
        return None
    axes = OperatorAxes(operator)
    whole = axes.statement(0, operator.statements[0])
    if len(whole.reduced) != 1 or operator.statements[0].start != 0:
        return None
    lying = {
        name: Lying(tensor.dtype, home if tensor.dtype == FLOAT else "") for name, tensor in operator.tensors.items()
    }
    extents = {axis_name(axis): extent for axis, extent in enumerate(axes.extents)}
    cover = InstructionCover(target, home, lying, extents, {})
    begin, block = cover.statement(Statement(whole.target, None, Literal(0.0)), None), cover.onto(whole)
    stream = Stream(int(whole.reduced[0][1:]), len(begin), len(begin) + len(block))
    return covered(operator, axes, cover, [*begin, *block], stream)


def _of(steps: Iterable[_Step]) -> Iterable[Statement]:
    return (step.statement for step in steps)


def _covered(step: _Step, cover: InstructionCover) -> list[Statement]:
    """Covers a step.

    Raises:
        UncoverableError: no instructions do it.
    """
    if step.statement.combiner is not None and step.start is None:
        return cover.onto(step.statement)
    return cover.statement(step.statement, step.start)
