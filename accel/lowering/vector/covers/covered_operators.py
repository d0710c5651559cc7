"""Operators as statements of one instruction each, over axes of the operator: each kind of operator once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accel.accelerator.target import Target
from accel.expression.syntax_tree import Access, Statement, walk
from accel.lowering.vector.covers.instruction_cover import InstructionCover, Lying, UncoverableError
from accel.lowering.vector.whole_floats import FLOAT, LegalOperator, LegalStatement
from accel.region.vector_program import UNIT, Stream, VectorTensor, axis_name


@dataclass(frozen=True)
class CoveredOperator:
    """What an accelerator does for an operator.

    Attributes:
        extents: of its axes.
        inputs: its operands, in their order; floats are on the chip already, others in DRAM.
        result: on the chip if it is of floats, else in DRAM.
        tensors: these and what lies between, by name; on the chip without dimensions of extent 1.
        shapes: the axes of operands and result with those dimensions, by name.
        statements: in their order.
        stream: which of them are done block by block; None where there are none.
    """

    extents: tuple[int, ...]
    inputs: tuple[str, ...]
    result: str
    tensors: Mapping[str, VectorTensor]
    shapes: Mapping[str, tuple[int, ...]]
    statements: tuple[Statement, ...]
    stream: Stream | None = None

    @property
    def renames(self) -> bool:
        """Whether it gives a float operand another shape, and leaves it as it lies."""
        if len(self.statements) != 1 or self.tensors[self.result].dtype != FLOAT:
            return False
        statement = self.statements[0]
        value = statement.value
        return (
            isinstance(value, Access)
            and value.name in self.inputs
            and self.tensors[value.name].dtype == FLOAT
            and value.indices == statement.target.indices
        )


def cover_operator(operator: LegalOperator, target: Target, home: str) -> CoveredOperator:
    """Returns an operator as instructions of ``target`` do it, whose floats come and go through the memory ``home``.

    Raises:
        UncoverableError: they cannot.
    """
    axes = OperatorAxes(operator)
    lying = {
        name: Lying(tensor.dtype, home if tensor.dtype == FLOAT else "") for name, tensor in operator.tensors.items()
    }
    names = {axis_name(axis): extent for axis, extent in enumerate(axes.extents)}
    tables = {table.name for statement in operator.statements for table in statement.looked_up}
    walked = {name: tuple(map(axis_name, axes.of(name, operator.tensors[name].shape))) for name in tables}
    cover = InstructionCover(target, home, lying, names, walked)
    statements: list[Statement] = []
    placed = {*operator.inputs, operator.result}
    for number, statement in enumerate(operator.statements):
        whole, name = axes.statement(number, statement), statement.target.name
        if name in placed or lying[name].memory == "":
            statements += cover.statement(whole, statement.start)
        else:
            statements += cover.anywhere(whole, statement.start)
        placed.add(name)
    return covered(operator, axes, cover, statements)


def covered(
    operator: LegalOperator,
    axes: "OperatorAxes",
    cover: InstructionCover,
    statements: Sequence[Statement],
    stream: Stream | None = None,
) -> CoveredOperator:
    """Returns an operator that instructions do by ``statements``, with what they use as ``cover`` has it lie.

    Raises:
        UncoverableError: no statement reads a dimension of an operand.
    """
    shapes = {name: axes.of(name, operator.tensors[name].shape) for name in (*operator.inputs, operator.result)}
    accesses = {
        leaf.name: leaf for made in statements for leaf in (made.target, *made.accesses) if leaf not in made.looked_up
    }
    tensors = {}
    for name, where in cover.lying.items():
        if name in accesses or name in shapes:
            found = shapes[name] if name in shapes else tuple(int(axis[1:]) for axis in accesses[name].axes)
            on_chip = tuple(axis for axis in found if axis != UNIT)
            tensors[name] = VectorTensor(name, where.dtype, on_chip if where.memory else found, where.memory)
    return CoveredOperator(axes.extents, operator.inputs, operator.result, tensors, shapes, tuple(statements), stream)


class OperatorAxes:
    """The axes of an operator: loops of its statements that walk the same dimension of a tensor are one axis."""

    def __init__(self, operator: LegalOperator) -> None:
        self._same: list[int] = []  # of each loop an earlier one that is the same axis, or itself
        self._lengths: list[int] = []
        self._dimensions: dict[str, list[int | None]] = {
            name: [None] * len(tensor.shape) for name, tensor in operator.tensors.items()
        }
        self._labels = [self._labelled(statement) for statement in operator.statements]
        for table in dict.fromkeys(table.name for each in operator.statements for table in each.looked_up):
            self._dimensions[table][-1] = len(self._same)  # which only a load of all of it walks
            self._same.append(len(self._same))
            self._lengths.append(operator.tensors[table].shape[-1])
        roots = sorted({self._root(loop) for loop, extent in enumerate(self._lengths) if extent > 1})
        self._numbers = {root: number for number, root in enumerate(roots)}
        self.extents = tuple(self._lengths[root] for root in roots)

    def of(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The axes of a tensor, ``UNIT`` in dimensions of extent 1.

        Raises:
            UncoverableError: no statement reads one of its dimensions.
        """
        found = []
        for loop, extent in zip(self._dimensions[name], shape, strict=True):
            if extent > 1 and loop is None:
                raise UncoverableError("it does not read all of an operand")
            found.append(UNIT if extent == 1 or loop is None else self._axis(loop))
        return tuple(found)

    def statement(self, number: int, statement: LegalStatement) -> Statement:
        """The statement over the operator's axes, without the dimensions of extent 1.

        Raises:
            UncoverableError: it walks one axis by two loops.
        """
        used = {index for leaf in _leaves(statement) for index in leaf.indices if isinstance(index, str)}
        labels = {index: self._axis(self._labels[number][index]) for index in used}
        if len(set(labels.values())) < len(labels):
            raise UncoverableError("it walks a tensor along other axes than it was made along")

        tables = statement.looked_up

        def relabelled(leaf: Access) -> Access:
            if leaf in tables:
                return leaf
            return Access(
                leaf.name, tuple(axis_name(labels[index]) for index in leaf.indices if isinstance(index, str))
            )

        return Statement(statement.target, statement.combiner, statement.value).with_accesses(relabelled)

    def _axis(self, loop: int) -> int:
        return self._numbers[self._root(loop)]

    def _root(self, loop: int) -> int:
        while self._same[loop] != loop:
            loop = self._same[loop]
        return loop

    def _labelled(self, statement: LegalStatement) -> dict[str, int]:
        """The loop of each label; a new one is the axis of each dimension that it walks."""
        labels = {}
        for label, extent in statement.extents.items():
            labels[label] = len(self._same)
            self._same.append(len(self._same))
            self._lengths.append(extent)
        for leaf in _leaves(statement):
            dimensions = self._dimensions[leaf.name]
            for place, index in enumerate(leaf.indices):
                if not isinstance(index, str):
                    continue
                known = dimensions[place]
                if known is None:
                    dimensions[place] = labels[index]
                else:
                    roots = self._root(known), self._root(labels[index])
                    self._same[max(roots)] = min(roots)
        return labels


def _leaves(statement: LegalStatement) -> list[Access]:
    return [statement.target, *(leaf for leaf in walk(statement.value) if isinstance(leaf, Access))]
