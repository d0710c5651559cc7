"""Fewer statements for the same program: what one instruction does at once, and copies that change nothing.

Operators are covered one by one, so that a store which rounds and clips, or a load which scales, takes in nothing of
the operators around it. Here a statement takes in those that make what it alone reads, as far as an instruction does
all of them together.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from accel.accelerator.target import Target
from accel.expression.syntax_tree import (
    Access,
    Binary,
    Call,
    Cast,
    Expression,
    Literal,
    Select,
    Statement,
    walk,
    with_leaves,
)
from accel.lowering.kinds.program_operations import ProgramOperations
from accel.lowering.vector.tiles.program_buffers import Statements
from accel.region.vector_program import VectorProgram

_MOST_TAKEN_IN = 4  # statements that one takes in
_EXACT = 1 << 22  # integers that a float32 holds with a bit to spare


def in_fewer_statements(whole: Statements, target: Target) -> Statements:
    """Returns a program whose statements do more each, where instructions do; one with a stream as it is."""
    if whole.stream is not None:
        return whole
    whole = _without_copies(whole)
    found = _Fusion(whole, target).statements()
    return replace(whole, statements=tuple(found))


def _without_copies(whole: Statements) -> Statements:
    """The program without statements that copy a tensor on the chip as it is, to where no other statement writes."""
    writes = Counter(statement.target.name for statement in whole.statements)
    names: dict[str, str] = {}
    kept = []
    for statement in whole.statements:
        now = statement.with_accesses(lambda access: replace(access, name=names.get(access.name, access.name)))
        value, made = now.value, whole.tensors[now.target.name]
        if isinstance(value, Access) and now.combiner is None and value.indices == now.target.indices and made.memory:
            source = whole.tensors[value.name]
            alike = (source.memory, source.dtype, source.axes) == (made.memory, made.dtype, made.axes)
            if alike and writes[value.name] == writes[made.name] == 1:
                names[made.name] = value.name
                continue
        kept.append(now)
    return replace(whole, statements=tuple(kept))


@dataclass(frozen=True)
class _Grown:
    """A statement that has taken others in, by their numbers; and what must be computed before, in place of them."""

    statement: Statement
    taken: frozenset[int] = frozenset()
    before: tuple[Statement, ...] = ()


class _Fusion:
    """The statements of a program, of which some take others in."""

    def __init__(self, whole: Statements, target: Target) -> None:
        self._whole, self._operations = whole, target.derived(ProgramOperations)
        self._shapes = target.derived(_OperationShapes)
        self._program = VectorProgram(
            extents=whole.extents,
            tile=whole.extents,
            tensors=tuple(whole.tensors.values()),
            results=len(whole.results),
            statements=(),
            contexts=1,
        )
        self._written = Counter(statement.target.name for statement in whole.statements)
        self._read = Counter(access.name for statement in whole.statements for access in statement.accesses)
        self._last = {statement.target.name: number for number, statement in enumerate(whole.statements)}

    def statements(self) -> list[Statement]:
        """All that are left, in their order."""
        made = list[list[Statement]]()
        gone = set[int]()
        for number in reversed(range(len(self._whole.statements))):
            if number in gone:
                made.append([])
                continue
            grown = self._best(number, self._whole.statements[number])
            gone |= grown.taken
            made.append([*grown.before, grown.statement])
        return [statement for each in reversed(made) for statement in each]

    def _best(self, number: int, statement: Statement) -> _Grown:
        """The statement that has taken in the most; itself where none does what it would do then."""
        best = _Grown(statement)
        reached = [] if _turns(statement) else [best]
        for _ in range(_MOST_TAKEN_IN):
            reached = [grown for each in reached for grown in self._taking_in(number, each)]
            for grown in (*reached, *(turned for each in reached for turned in self._rounded_last(each))):
                gain = len(grown.taken) - len(grown.before)
                if gain > len(best.taken) - len(best.before) and self._is_done(grown.statement):
                    best = grown
        return best

    def _taking_in(self, number: int, grown: _Grown) -> Iterator[_Grown]:
        """Yields a statement with one more, of those that make what it alone reads."""
        for access in grown.statement.accesses:
            at = self._last.get(access.name, number)
            made = self._whole.statements[at]
            if at >= number or at in grown.taken or not self._is_inlined(made, access, number):
                continue
            value = made.value

            def leaf(each: Expression, taken: Access = access, value: Expression = value) -> Expression:
                return value if each == taken else each

            statement = replace(grown.statement, value=with_leaves(grown.statement.value, leaf))
            yield _Grown(statement, grown.taken | {at})

    def _is_inlined(self, made: Statement, access: Access, number: int) -> bool:
        """Whether a statement that makes an element may be computed where that is read, by one that stands there."""
        name = made.target.name
        alone = self._written[name] == self._read[name] == 1 and made.combiner is None and not made.reduced
        if not alone or name in self._whole.results or access.indices != made.target.indices or _turns(made):
            return False
        if not self._whole.tensors[name].memory:
            return False
        at = self._last[name]
        return all(not at < self._last.get(read, -1) < number for read in made.operands) and not made.looked_up

    def _rounded_last(self, grown: _Grown) -> Iterator[_Grown]:
        """Yields a statement that rounds behind the sum with an even number, in place of before it: that is the same.

        The sum is a statement of its own then, in place of the rounding.
        """
        for node in walk(grown.statement.value):
            match node:
                case Binary("+" | "-", Call("rint", (Access() as inner,)), Literal(step)) if _is_even(step):
                    name = inner.name
                    shifted = next((each for each in grown.taken if _rounds(self._whole.statements[each], inner)), None)
                    if shifted is None:
                        return
                    target = self._whole.statements[shifted].target
                    before = Statement(target, None, replace(node, left=inner))
                    value = _replaced(grown.statement.value, node, Call("rint", (target,)))
                    if name != target.name and self._is_done(before):
                        yield replace(grown, statement=replace(grown.statement, value=value), before=(before,))
                    return

    def _is_done(self, statement: Statement) -> bool:
        return statement in self._whole.statements or (
            self._shapes.has(statement) and self._operations.does(statement, self._program)
        )


class _OperationShapes:
    """What operations a target's instructions put together: a statement of others is none of theirs."""

    def __init__(self, target: Target) -> None:
        self._known = {_shape(meaning.typed.statement.value) for meaning in target.semantics}

    def has(self, statement: Statement) -> bool:
        """Returns whether an instruction may do a statement, by the operations that it is of."""
        return _shape(statement.value) in self._known


def _shape(value: Expression) -> tuple[str, ...]:
    """The operations of an expression, in no order; a clip is a least and a greatest of two."""
    return tuple(sorted(name for node in walk(value) for name in _operations(node)))


def _operations(node: Expression) -> tuple[str, ...]:
    match node:
        case Call("clip"):
            return ("max", "min")
        case Call(function):
            return (function,)
        case Binary(operator):
            return ("+" if operator == "-" else operator,)
        case Cast(to):
            return (to,)
        case Select():
            return ("select",)
    return ()


def _turns(statement: Statement) -> bool:
    """Whether a statement reads along its axes in another order than it writes: what stands beside it need not then."""
    places = {axis: place for place, axis in enumerate(statement.target.axes)}
    orders = ([places[axis] for axis in access.axes if axis in places] for access in statement.accesses)
    return any(order != sorted(order) for order in orders)


def _is_even(number: float) -> bool:
    return math.isfinite(number) and number % 2 == 0 and abs(number) < _EXACT


def _rounds(statement: Statement, inner: Access) -> bool:
    return statement.value == Call("rint", (inner,))


def _replaced(value: Expression, old: Expression, new: Expression) -> Expression:
    if value is old:
        return new
    match value:
        case Binary(_, left, right):
            return replace(value, left=_replaced(left, old, new), right=_replaced(right, old, new))
        case Call(_, arguments):
            return replace(value, arguments=tuple(_replaced(each, old, new) for each in arguments))
        case Cast(_, inner):
            return replace(value, value=_replaced(inner, old, new))
    return value
