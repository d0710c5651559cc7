"""Covers: statements of the graph as statements of one instruction each, with as little work as there is.

A cover of an expression takes an instruction for its root and as much below it as that does, and covers what is left
by itself; of all ways the one with the fewest elements is found. What lies where follows from the memories of the
instructions' operands; from one memory to another an instruction copies. What none does is covered as it can be said
otherwise.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx

from accel.accelerator.instructions import Compute, Copy
from accel.accelerator.semantics import Semantics
from accel.accelerator.target import Target
from accel.expression.element_types import TensorType
from accel.expression.syntax_tree import (
    Access,
    Binary,
    Call,
    Cast,
    Combiner,
    Expression,
    ExpressionError,
    Index,
    Literal,
    Lookup,
    Negate,
    Scalar,
    Select,
    Statement,
    children,
    walk,
    with_children,
    with_leaves,
)
from accel.expression.unify import elements_apart, tvm_store
from accel.lowering.inject.operation_matching import DRAM, matching_operations
from accel.lowering.vector.covers.equal_expressions import equal_expressions
from accel.lowering.vector.whole_floats import FLOAT

_MOST_OPERATIONS = 4  # of an expression that one instruction does
_MOST_PLACES = 256  # ways in which the operands of an instruction may lie that are tried
_LONGEST_TABLE = 1 << 16
_MOST_SAID = 3  # times that an expression is said otherwise, one within another


class UncoverableError(Exception):
    """No instructions do what a statement does; the message is what is missing.

    ``partly``: they do another part of it.
    """

    def __init__(self, message: str, *, partly: bool = False) -> None:
        super().__init__(message)
        self.partly = partly


@dataclass(frozen=True)
class Lying:
    """A tensor and the memory where it lies; empty in DRAM."""

    dtype: str
    memory: str


@dataclass(frozen=True)
class _Way:
    """A value in a memory: the work that it takes, the statements ahead of it, and the access that it is then."""

    work: int
    steps: tuple[Statement, ...]
    value: Access


class InstructionCover:
    """Covers statements one after the other; ``lying`` are the tensors so far, and grow by those between steps.

    ``extents`` are those of the axes that accesses name; ``tables`` the axes of what numbers are looked up in, by name.
    """

    def __init__(
        self,
        target: Target,
        home: str,
        lying: dict[str, Lying],
        extents: Mapping[str, int],
        tables: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._target, self._home, self.lying, self._extents = target, home, lying, extents
        self._tables = tables
        self._known: dict[Expression, dict[str, _Way]] = {}
        self._said = 0
        self._operations = target.derived(_Operations)
        self._floats = [memory.name for memory in target.accelerator.memories if memory.dtype == FLOAT]
        self._memories = self._operations.memories
        self._names = itertools.count()

    def statement(self, made: Statement, start: float | None) -> list[Statement]:
        """Returns the statements that do ``made``; a reduction begins with ``start``.

        Raises:
            UncoverableError: there are none.
        """
        self._known.clear()  # what a name holds may have changed
        if made.combiner is None:
            way = self._into(made.target, made.value)
            if way is None:
                raise UncoverableError(self._missing(made.value))
            return list(way)
        failures = []
        for memory in self._floats:  # where the unit combines, and from there
            home = self.lying[made.target.name].memory == memory
            reduced = made.target if home else self._new(made.target.indices, memory)
            try:
                combined = self._combination(replace(made, target=reduced), start)
            except UncoverableError as error:
                failures.append(error)
                continue
            left = [] if home else self._into(made.target, reduced)
            if left is not None:
                return [*combined, *left]
            failures.append(UncoverableError(f"no instruction brings x from {memory} to {self._home}", partly=True))
        raise _nearest(failures)

    def onto(self, made: Statement) -> list[Statement]:
        """Returns the statements that combine with what is in the target.

        Raises:
            UncoverableError: there are none.
        """
        self._known.clear()
        found = self._into(made.target, made.value, made)
        if found is None:
            raise UncoverableError(f"no instruction does {made.combiner}= of {generic(made.value)}")
        return found

    def _combination(self, made: Statement, start: float | None) -> list[Statement]:
        """The statements that begin a reduction, and do it, in the memory of its target."""
        filled = self._into(made.target, Literal(float(start or 0.0)))
        summed = self._into(made.target, made.value, made)
        if summed is None:
            if not any(self._best(made.value, memory) for memory in self._floats):
                raise UncoverableError(self._missing(made.value), partly=True)
            raise UncoverableError(f"no instruction does {made.combiner}= of a row")
        if filled is None:
            raise UncoverableError(f"no instruction does fill with {start}", partly=True)
        return [*filled, *summed]

    def _new(self, indices: tuple[Index, ...], memory: str) -> Access:
        """A tensor between statements."""
        made = Access(f"s{next(self._names)}", indices)
        self.lying[made.name] = self._in(memory)
        return made

    def _in(self, memory: str) -> Lying:
        """What lies in a memory."""
        return Lying(self._target.accelerator.memory(memory).dtype, memory)

    def _held(self, value: Expression) -> list[str]:
        """The memories that may hold a value: those of floats, or those that lookups use of integers."""
        dtype = FLOAT
        if isinstance(value, Access):
            dtype = self.lying[value.name].dtype
        elif isinstance(value, Lookup) and isinstance(value.table, Access):
            dtype = self.lying[value.table.name].dtype
        return [memory for memory in self._memories if self._in(memory).dtype == dtype]

    def anywhere(self, made: Statement, start: float | None) -> list[Statement]:
        """Returns as :meth:`statement` for a target that may lie in any memory of floats, the usual one first.

        Raises:
            UncoverableError: there are none, wherever it lies.
        """
        failures = []
        for memory in (self._home, *(other for other in self._floats if other != self._home)):
            self.lying[made.target.name] = Lying(FLOAT, memory)
            try:
                return self.statement(made, start)
            except UncoverableError as error:
                failures.append(error)
        raise _nearest(failures)

    def _missing(self, value: Expression) -> str:
        """The innermost part of an expression that no instruction does."""
        for part in sorted({*walk(value)}, key=lambda part: len(str(part))):
            if isinstance(part, Access | Literal):
                continue
            if all(self._best(part, memory) is None for memory in self._held(part)):
                letters = zip("xyzuv", children(part), strict=False)  # a selection has five operands, and nothing more
                operands = [each if isinstance(each, Literal) else Scalar(name) for name, each in letters]
                return f"no instruction does {with_children(part, operands)}{self._places(part)}"
        return f"no instruction stores {generic(value)}"

    def _places(self, part: Expression) -> str:
        """Of what type the operands of an expression are in DRAM, and where others lie if there is a choice."""
        operands = [self.lying[leaf.name] for leaf in walk(part) if isinstance(leaf, Access)]
        loaded = {each.dtype for each in operands if not each.memory} - {FLOAT}
        found = {each.memory for each in operands} - {""} if len(self._floats) > 1 else set[str]()
        elsewhere = f" of what lies in {' and '.join(sorted(found))}" if found else ""
        return (f" of {' and '.join(sorted(loaded))}" if loaded else "") + elsewhere

    def _into(self, target: Access, value: Expression, combining: Statement | None = None) -> list[Statement] | None:
        """The best statements that leave ``value`` in ``target``, or combine it with what is there."""
        ways = [*self._ways(value, target, combining, whole=True)]
        ways = ways or [*self._ways(value, target, combining, whole=True, numbers=True)]
        found = min(ways, key=lambda way: way.work, default=None)
        if found is None and combining is None and isinstance(value, Literal):
            filled = (self._new(target.indices, memory) for memory in self._floats)
            copies = ([*first, *copied] for made in filled for first, copied in self._by_way_of(made, target, value))
            return next(copies, None)
        return self._into_otherwise(target, value, combining) if found is None else list(found.steps)

    def _into_otherwise(self, target: Access, value: Expression, combining: Statement | None) -> list[Statement] | None:
        """As :meth:`_into` for the first expression equal to ``value`` that instructions do, if none copies it."""
        if self._said == _MOST_SAID:
            return None
        self._said += 1
        try:
            ways = (self._into(target, other, combining) for other in equal_expressions(value))
            return next((way for way in ways if way is not None), None)
        finally:
            self._said -= 1

    def _by_way_of(
        self, made: Access, target: Access, value: Literal
    ) -> Iterator[tuple[tuple[Statement, ...], tuple[Statement, ...]]]:
        """The statements that leave a number in one tensor, and those that copy it to another."""
        for first in self._ways(value, made, None):
            for copied in self._ways(made, target, None):
                yield first.steps, copied.steps

    def _best(self, value: Expression, memory: str) -> _Way | None:
        """The way with the least work to have ``value`` in ``memory``; None if there is none."""
        if value not in self._known:
            self._known[value] = {}  # nothing is made of itself
            self._known[value] = self._everywhere(value)
        return self._known[value].get(memory)

    def _everywhere(self, value: Expression) -> dict[str, _Way]:
        """The best way to have a value in each memory that it can be in: computed there, or copied."""
        if isinstance(value, Access) and value.axes != value.indices:
            return self._loaded(value)
        found: dict[str, _Way] = {}
        memories = self._held(value)
        for memory in memories:
            if isinstance(value, Access) and self.lying[value.name].memory == memory:
                found[memory] = _Way(0, (), value)
                continue
            if isinstance(value, Literal) and self._target.accelerator.memory(memory).element_count > 1:
                continue  # one number does not fill an element
            target = self._new(_indices(value), memory)
            ways = [*self._ways(value, target, None)] or self._ways(value, target, None, numbers=True)
            best = min(ways, key=lambda way: way.work, default=None)
            if best is not None:
                found[memory] = best
        for _ in memories[1:] if found else ():
            for one, way in list(found.items()):
                for memory in memories:
                    copied = None if one == memory else self._copied(way, memory)
                    if copied is not None and (memory not in found or copied.work < found[memory].work):
                        found[memory] = copied
        return found or self._otherwise(value)

    def _loaded(self, table: Access) -> dict[str, _Way]:
        """The best way to have all of a table in each memory, and its element for 0 there."""
        everywhere = {
            memory: self._best(Access(table.name, self._tables[table.name]), memory) for memory in self._memories
        }
        return {
            memory: replace(way, value=Access(way.value.name, table.indices))
            for memory, way in everywhere.items()
            if way is not None
        }

    def _copied(self, way: _Way, memory: str) -> _Way | None:
        """A value that is in one memory already in another one."""
        copies = self._ways(way.value, self._new(way.value.indices, memory), None)
        best = min(copies, key=lambda copy: copy.work, default=None)
        return None if best is None else _Way(way.work + best.work, (*way.steps, *best.steps), best.value)

    def _otherwise(self, value: Expression) -> dict[str, _Way]:
        """The best ways of the first expression that is equal to a value and that instructions do."""
        if self._said == _MOST_SAID:
            return {}
        self._said += 1
        failed = {key for key, ways in self._known.items() if not ways}
        try:
            for other in equal_expressions(value):
                if found := {memory: way for memory in self._floats if (way := self._best(other, memory))}:
                    return found
        finally:
            self._said -= 1
            for key in [key for key, ways in self._known.items() if not ways and key not in failed]:
                del self._known[key]  # which may be possible, said otherwise fewer times
        return {}

    def _ways(
        self,
        value: Expression,
        target: Access,
        combining: Statement | None,
        *,
        whole: bool = False,
        numbers: bool = False,
    ) -> Iterator[_Way]:
        """The ways in which one instruction, behind others, leaves ``value`` in ``target``.

        ``whole``: also those that bring it there, or combine it, when it has been computed elsewhere. ``numbers``: also
        those that read a number from a memory.
        """
        work = self._size(target, value)
        for cut, parts in _cuts(value, whole=whole, numbers=numbers):
            for operands in self._operands(cut, parts, target, combining):
                way = self._joined(cut, parts, operands)
                if way is None:
                    continue
                before, made, names = way
                statement = Statement(target, combining.combiner if combining else None, made)
                yield _Way(work + names, (*before, statement), target)

    def _joined(
        self, cut: Expression, parts: Mapping[str, Expression], operands: Mapping[str, str]
    ) -> tuple[list[Statement], Expression, int] | None:
        """The statements ahead of an instruction whose operands lie as given; its value; and the work of those."""
        before: list[Statement] = []
        values: dict[str, Access] = {}
        work = 0
        for name, part in parts.items():
            found = self._best(part, operands[name])
            if found is None:
                return None
            work += found.work
            before += [step for step in found.steps if step not in before]
            values[name] = found.value

        def value(leaf: Literal | Scalar | Access) -> Expression:
            return values.get(leaf.name, leaf) if isinstance(leaf, Access) else leaf

        return before, with_leaves(cut, value), work

    def _operands(
        self, cut: Expression, parts: Mapping[str, Expression], target: Access, combining: Statement | None
    ) -> Iterator[dict[str, str]]:
        """Where the parts must lie, by their names in ``cut``, for an instruction to do that."""
        known = self._operations.like(cut, self.lying[target.name].memory, combining)
        used = self._operations.used_by(known)
        places = [[memory for memory in self._held(part) if memory in used] for part in parts.values()]
        if math.prod(map(len, places)) > _MOST_PLACES:
            return
        for memories in itertools.product(*places):
            lying = self.lying | {name: self._in(memory) for name, memory in zip(parts, memories, strict=True)}
            try:
                store = self._store(cut, target, lying, combining)
            except ExpressionError:  # a number that its place cannot hold
                return
            if next(matching_operations(store, known, self._target), None) is not None:
                yield dict(zip(parts, memories, strict=True))

    def _store(
        self, cut: Expression, target: Access, lying: Mapping[str, Lying], combining: Statement | None
    ) -> tirx.BufferStore:
        """The store of a cut expression, of which each element has its own buffer."""

        def place(name: str) -> tuple[str, str]:
            where = lying[name]
            return where.dtype, self._target.accelerator.memory(where.memory).scope if where.memory else DRAM

        leaves = [leaf for leaf in (target, *walk(cut)) if isinstance(leaf, Access)]
        tensors = {leaf.name: TensorType(lying[leaf.name].dtype, _shape(leaf)) for leaf in leaves}
        statement = Statement(target, combining.combiner if combining else None, cut)
        return tvm_store(statement, tensors, elements_apart(place))

    def _size(self, target: Access, value: Expression) -> int:
        axes = {axis for leaf in (target, *walk(value)) if isinstance(leaf, Access) for axis in leaf.axes}
        return math.prod(self._extents[axis] for axis in axes)


class _Operations:
    """The operations of a target by where they write, what they combine, and what stands outermost in them."""

    def __init__(self, target: Target) -> None:
        known = target.accelerator.memories
        looked_up = {
            operand.memory
            for meaning in target.semantics
            if meaning.typed.statement.looked_up and isinstance(meaning.instruction, Compute)
            for operand in meaning.instruction.operands.values()
        }
        self.memories = [memory.name for memory in known if memory.dtype == FLOAT or memory.name in looked_up]
        self._known: dict[tuple[str, Combiner | None, str], list[Semantics]] = defaultdict(list)
        for meaning in target.semantics:
            statement, instruction = meaning.typed.statement, meaning.instruction
            if statement.slides or statement.tables:
                continue  # statements of the graph read an element at a point, and name no table
            if isinstance(instruction, Copy):
                memory = instruction.memory if statement.target.name == "sram" else ""
            else:
                memory = instruction.operands[statement.target.name].memory
            self._known[memory, statement.combiner, _outermost(statement.value)].append(meaning)

    def like(self, value: Expression, memory: str, combining: Statement | None) -> list[Semantics]:
        """Returns those that may do ``value``."""
        return self._known[memory, combining.combiner if combining else None, _outermost(value)]

    def used_by(self, known: Iterable[Semantics]) -> set[str]:
        """Returns the memories where operands of these lie."""
        found: set[str] = set()
        for meaning in known:
            instruction = meaning.instruction
            if isinstance(instruction, Copy):
                found.add(instruction.memory)
            else:
                found |= {operand.memory for operand in instruction.operands.values()}
        return found


def _outermost(value: Expression) -> str:
    """What stands outermost in an expression; what can be written in several ways is one."""
    match value:
        case Binary(sign):
            return {"-": "+", "//": "/"}.get(sign, sign)
        case Call(function):
            return {"min": "max", "clip": "max", "relu": "max", "recip": "/"}.get(function, function)
        case Cast(to):
            return to
        case Negate():
            return "*"
        case Select() | Lookup():
            return type(value).__name__
    return ""  # a number, which a field gives, or an element


def _nearest(failures: Sequence[UncoverableError]) -> UncoverableError:
    """The failure of instructions that do the most."""
    return next((each for each in failures if each.partly), failures[0])


def _number(axis: str) -> int:
    return int(axis[1:])


def _cuts(
    value: Expression, *, whole: bool, numbers: bool = False
) -> Iterator[tuple[Expression, dict[str, Expression]]]:
    """The expression with some of its parts named instead, the largest remainders first; ``whole``: all of it may be.

    Equal parts have one name. Numbers are parts only if that is asked for: an instruction has room for them, or not.
    """
    found: dict[str, tuple[Expression, dict[str, Expression]]] = {}
    for cut, _ in _remainders(value, _MOST_OPERATIONS, numbers=numbers):
        parts: dict[str, Expression] = {}
        named = _named(cut, parts)
        found.setdefault(str(named), (named, parts))
    yield from found.values()
    if whole:
        yield Access("p0", _indices(value)), {"p0": value}


@dataclass(frozen=True)
class _Part:
    """A place in an expression where something is cut off."""

    value: Expression


def _remainders(value: Expression, most: int, *, numbers: bool) -> Iterator[tuple[Any, int]]:
    """The expression down to at most ``most`` operations, with a :class:`_Part` for each thing below them."""
    if isinstance(value, Literal):
        yield value, 0
        return
    if isinstance(value, Access):
        yield value, 0
        return
    if most == 0:
        return
    below: list[tuple[tuple[Any, ...], int]] = [((), 1)]
    for child in children(value):
        longer = []
        for before, count in below:
            options: list[tuple[Any, int]] = list(_remainders(child, most - count, numbers=numbers))
            if numbers or not isinstance(child, Literal):
                options.append((_Part(child), 0))
            longer += [((*before, option), count + own) for option, own in options]
        below = longer
    for made, count in below:
        yield with_children(value, made), count


def _named(cut: Any, parts: dict[str, Expression]) -> Expression:
    """The remainder with names for what was cut off, which ``parts`` receives."""
    if isinstance(cut, _Part):
        name = next((name for name, part in parts.items() if part == cut.value), f"p{len(parts)}")
        parts[name] = cut.value
        return Access(name, _indices(cut.value))
    if isinstance(cut, Literal | Access):
        return cut
    return with_children(cut, [_named(child, parts) for child in children(cut)])


def _shape(leaf: Access) -> tuple[int, ...]:
    """The shape of a tensor of one element along each axis, and of a table that is long enough for any index."""
    return tuple(1 if isinstance(index, str) else _LONGEST_TABLE for index in leaf.indices)


def _indices(value: Expression) -> tuple[Index, ...]:
    """The axes along which an expression varies, by their numbers; of a table where its number of 0 is."""
    if isinstance(value, Access) and value.axes != value.indices:
        return value.indices
    found = {axis for leaf in walk(value) if isinstance(leaf, Access) for axis in leaf.axes}
    return tuple(sorted(found, key=_number))


def generic(value: Expression) -> str:
    """Returns an expression with letters for its operands, for a reader who does not know their names."""
    letters = iter("xyzuvw")
    known: dict[Expression, str] = {}

    def name(leaf: Literal | Scalar | Access) -> Expression:
        if not isinstance(leaf, Access):
            return leaf
        if leaf not in known:
            known[leaf] = next(letters, "x")
        return Scalar(known[leaf])

    return str(with_leaves(value, name))
