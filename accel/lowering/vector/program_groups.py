"""Groups of operators that become one vector program: statements over common axes, with what they read and leave."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tvm import relax

from accel.expression.element_types import CAST_TO
from accel.expression.syntax_tree import Access, Cast, Expression, Literal, Statement
from accel.lowering.vector.covers.covered_operators import CoveredOperator
from accel.lowering.vector.tiles.program_buffers import Statements
from accel.region.vector_program import UNIT, Stream, VectorTensor, axis_name


class MisfitError(Exception):
    """An operator cannot join a group; the message is why."""


@dataclass(frozen=True)
class Made:
    """A float tensor of the graph that a group has on the chip: its name there, and its axes with those of extent 1."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Given:
    """A value from outside: what its tensor in DRAM is called, and what the statements read, a load of it or itself."""

    dram: str
    name: str


@dataclass
class Group:
    """Operators of the graph as statements.

    Attributes:
        home: the memory through which floats come and go.
        extents: of the axes.
        tensors: by name.
        statements: in their order; what comes from DRAM as floats is loaded by statements of their own.
        operands: the values of the graph that it reads, by the value and the axes that it is read by.
        made: the values of the graph that lie on the chip.
        left: those that it leaves in DRAM as they come, which are not of floats.
        members: all variables that it computes, in their order.
        conditions: variables of bools that expressions of its statements have in place of elements.
        stream: which statements are done block by block; None where none are.
    """

    home: str
    extents: list[int] = field(default_factory=list)
    tensors: dict[str, VectorTensor] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    operands: dict[tuple[relax.Expr, tuple[int, ...]], Given] = field(default_factory=dict)
    made: dict[relax.Expr, Made] = field(default_factory=dict)
    left: dict[relax.Expr, str] = field(default_factory=dict)
    members: list[relax.Var] = field(default_factory=list)
    conditions: list[relax.Var] = field(default_factory=list)
    count: int = 0
    stream: Stream | None = None

    def copy(self) -> "Group":
        """Returns a group that can grow without this one."""
        return replace(
            self,
            extents=list(self.extents),
            tensors=dict(self.tensors),
            statements=list(self.statements),
            operands=dict(self.operands),
            made=dict(self.made),
            left=dict(self.left),
            members=list(self.members),
            conditions=list(self.conditions),
        )

    @property
    def computes(self) -> bool:
        """Whether it does more than to move tensors."""
        return any(
            statement.combiner is not None or not isinstance(_uncast(statement.value), Access | Literal)
            for statement in self.statements
        )

    def join(self, var: relax.Var, operator: CoveredOperator, given: Iterable[relax.Expr]) -> None:
        """Take an operator in, whose result is ``var``; the group is of no use where this fails.

        Raises:
            MisfitError: its axes are not those of what it reads, or it reads what the group leaves in DRAM; or it goes
                over blocks, and is not the first.
        """
        if operator.stream is not None and self.members:
            raise MisfitError("what goes over blocks begins a program")
        operands = list(given)
        reads = ((value, operator.shapes[name]) for name, value in zip(operator.inputs, operands, strict=True))
        axes = self._axes_for(reads, operator.extents)
        names: dict[str, str] = {}
        for name, value in zip(operator.inputs, operands, strict=True):
            shape = _mapped(operator.shapes[name], axes)
            names[name] = self._operand(value, operator.tensors[name], shape)
        if operator.renames:
            source = names[operator.inputs[0]]
            self.made[var] = Made(source, _mapped(operator.shapes[operator.result], axes))
            self.members.append(var)
            return
        for name, tensor in operator.tensors.items():
            if name not in names:
                names[name] = self._add(tensor, _mapped(tensor.axes, axes))

        renamed = partial(_renamed, names=names, axes=axes)
        made = [statement.with_accesses(renamed) for statement in operator.statements]
        if operator.stream is None:
            self.statements += made
        else:
            self._stream(operator.stream, axes[operator.stream.axis], made)
        if operator.tensors[operator.result].memory:
            self.made[var] = Made(names[operator.result], _mapped(operator.shapes[operator.result], axes))
        else:
            self.left[var] = names[operator.result]
        self.members.append(var)

    def take(self, other: "Group") -> None:
        """Take in a group that reads what this one has on the chip; neither is of use where this fails.

        Raises:
            MisfitError: it reads that along axes that differ, or where it lies in DRAM; or either goes over blocks.
        """
        if self.stream is not None or other.stream is not None:
            raise MisfitError("what goes over blocks is a program of its own")
        axes = self._axes_for(other.operands, other.extents)
        names = self._shared(other, axes)
        loaded = set(names)
        for name, tensor in other.tensors.items():
            if name not in names:
                names[name] = self._name(name[0])
                self.tensors[names[name]] = replace(tensor, name=names[name], axes=_mapped(tensor.axes, axes))
        renamed = partial(_renamed, names=names, axes=axes)
        self.statements += [
            statement.with_accesses(renamed) for statement in other.statements if statement.target.name not in loaded
        ]
        for (value, shape), given in other.operands.items():
            if value not in self.made:
                mapped = Given(names[given.dram], names[given.name])
                self.operands.setdefault((value, _mapped(shape, axes)), mapped)
        self.made |= {var: Made(names[made.name], _mapped(made.shape, axes)) for var, made in other.made.items()}
        self.left |= {var: names[name] for var, name in other.left.items()}
        self.members += other.members
        self.conditions += [each for each in other.conditions if each not in self.conditions]

    def _shared(self, other: "Group", axes: Mapping[int, int]) -> dict[str, str]:
        """What a group loads that this one has on the chip, or loads too: its names there and here."""
        names: dict[str, str] = {}
        for (value, shape), given in other.operands.items():
            known = self.operands.get((value, _mapped(shape, axes)))
            if value in self.made:
                made = self.made[value].name
                known = Given(made, made)
            if known is None:
                continue
            here, there = self.tensors[known.name], other.tensors[given.name]
            if (here.dtype, here.memory) != (there.dtype, there.memory):
                raise MisfitError("it is of another type there, or in DRAM")
            names |= {given.dram: known.dram, given.name: known.name}
        return names

    def _stream(self, stream: Stream, axis: int, made: Sequence[Statement]) -> None:
        """Take in statements of which some are done block by block, behind the loads of what they read.

        What has an axis of blocks is loaded with each of them, and all else once ahead.
        """
        loads = self.statements
        ahead = [load for load in loads if axis_name(axis) not in load.axes]
        within = [load for load in loads if axis_name(axis) in load.axes]
        begin, block, end = made[: stream.first], made[stream.first : stream.last], made[stream.last :]
        self.statements = [*ahead, *begin, *within, *block, *end]
        first = len(ahead) + len(begin)
        self.stream = Stream(axis, first, first + len(within) + len(block))

    def uncut(self, left: Iterable[relax.Expr]) -> Statements:
        """Returns what the group does, uncut; from now on it leaves these values in DRAM."""
        results = tuple(self.store(var) for var in left)
        operands = tuple(dict.fromkeys(each.dram for each in self.operands.values()))
        return Statements(tuple(self.extents), self.tensors, operands, results, tuple(self.statements), self.stream)

    def store(self, var: relax.Expr) -> str:
        """Returns the tensor in DRAM where a value is left, which a float one is stored to."""
        if var in self.left:
            return self.left[var]
        made, dtype = self.made[var], str(var.ty.dtype)
        source = self.tensors[made.name]
        name = self._name("y")
        self.tensors[name] = VectorTensor(name, dtype, made.shape)
        self.left[var] = name
        names = tuple(axis_name(axis) for axis in source.axes)
        kept = tuple(axis_name(axis) for axis in made.shape if axis != UNIT)
        value = Access(made.name, names)
        stored = value if dtype == source.dtype else Cast(CAST_TO[dtype], value)
        self.statements.append(Statement(Access(name, kept), None, stored))
        return name

    def _axes_for(self, reads: Iterable[tuple[relax.Expr, Sequence[int]]], extents: Sequence[int]) -> dict[int, int]:
        """The group's axis of each of the ``extents``, by values and the axes that they are read by; it may grow."""
        axes: dict[int, int] = {}
        for value, shape in reads:
            if value in self.left and value not in self.made:
                raise MisfitError("it reads what the program leaves in DRAM")
            if value in self.made:
                for own, other in zip(shape, self.made[value].shape, strict=True):
                    if own != UNIT and axes.setdefault(own, other) != other:
                        raise MisfitError("it reads the program's tensors along other axes than they lie")
        if len(set(axes.values())) < len(axes):
            raise MisfitError("it reads the program's tensors along other axes than they lie")
        for axis, extent in enumerate(extents):
            if axis not in axes:
                axes[axis] = len(self.extents)
                self.extents.append(extent)
        return axes

    def _operand(self, value: relax.Expr, tensor: VectorTensor, shape: tuple[int, ...]) -> str:
        """What an operand is called here; one from outside lies in DRAM, and is loaded if the operator wants that."""
        if value in self.made:
            return self.made[value].name
        key = value, shape
        if key not in self.operands:
            dram, dtype = self._name("x"), str(value.ty.dtype)
            self.tensors[dram] = VectorTensor(dram, dtype, shape)
            self.operands[key] = Given(dram, self._load(dram, tensor) if tensor.memory else dram)
        return self.operands[key].name

    def _load(self, dram: str, tensor: VectorTensor) -> str:
        """What a tensor in DRAM is called on the chip, where a statement brings it."""
        source = self.tensors[dram]
        axes = tuple(axis for axis in source.axes if axis != UNIT)
        loaded, names = self._add(tensor, axes), tuple(map(axis_name, axes))
        value = Access(dram, names)
        moved = value if source.dtype == tensor.dtype else Cast(CAST_TO[tensor.dtype], value)
        self.statements.append(Statement(Access(loaded, names), None, moved))
        return loaded

    def _add(self, tensor: VectorTensor, axes: tuple[int, ...]) -> str:
        name = self._name("t" if tensor.memory else "y")
        self.tensors[name] = VectorTensor(name, tensor.dtype, axes, tensor.memory)
        return name

    def _name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"


def _uncast(value: Expression) -> Expression:
    return _uncast(value.value) if isinstance(value, Cast) else value


def _renamed(element: Access, names: Mapping[str, str], axes: Mapping[int, int]) -> Access:
    indices = (axis_name(axes[int(index[1:])]) if isinstance(index, str) else index for index in element.indices)
    return Access(names[element.name], tuple(indices))


def _mapped(shape: tuple[int, ...], axes: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(UNIT if axis == UNIT else axes[axis] for axis in shape)
