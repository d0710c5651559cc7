"""Which operations do the statements of vector programs: each statement is matched once a target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tvm import tirx

from accel.accelerator.cost_ranges import cost_fields
from accel.accelerator.instructions import Copy
from accel.accelerator.semantics import Semantics
from accel.accelerator.target import Target
from accel.errors import CompileError
from accel.expression.cost_expression import parse_cost
from accel.expression.element_types import TensorType
from accel.expression.syntax_tree import Access, Combiner, Scalar, Statement
from accel.expression.unify import tvm_store
from accel.lowering.inject.operation_matching import DRAM, matching_operations
from accel.lowering.ir.document_paths import INSTRUCTIONS
from accel.region.vector_program import UNIT, VectorProgram, VectorTensor

Operands = tuple[tuple[str, int], ...]
"""The operands of an operation, and which elements of a statement they are; its target's is the first."""


@dataclass(frozen=True)
class DoneAlike:
    """What is the same for statements that instructions do in the same time.

    Attributes:
        combiner: of the statement.
        accesses: tensors and indices, the target's first.
        ways: each operation that does it, of those that cost the same the first, and its operands.
        left_out: whether it changes nothing.
    """

    combiner: Combiner | None
    accesses: tuple[str, ...]
    ways: tuple[tuple[int, Operands], ...]
    left_out: bool


class ProgramOperations:
    """The operations of a target that do statements of programs."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._places = {id(meaning): place for place, meaning in enumerate(target.semantics)}
        self._priced = _first_of_a_price(target)
        self._asked: dict[tuple[str, tuple[VectorTensor, ...]], list[tuple[int, Operands]]] = {}
        self._known: dict[tuple[str, tuple[VectorTensor, ...]], list[tuple[int, Operands]]] = {}

    def first(self, statement: Statement, program: VectorProgram) -> Semantics:
        """Returns the operation that does a statement; the first of several.

        Raises:
            CompileError: there is none.
        """
        found = self._ways(statement, program)
        if not found:
            raise CompileError(f"no instruction does {statement}", field=INSTRUCTIONS)
        return self._target.semantics[found[0][0]]

    def does(self, statement: Statement, program: VectorProgram) -> bool:
        """Returns whether an operation does a statement over tensors of a program."""
        return bool(self._ways(statement, program))

    def operands(self, statement: Statement, program: VectorProgram) -> dict[str, Access]:
        """Returns what the operands of the first operation that does a statement are in it, its target's among them.

        Raises:
            CompileError: there is none.
        """
        meaning, elements = self.first(statement, program), statement.elements
        found = {meaning.typed.statement.target.name: statement.target}
        return found | {name: elements[number] for name, number in self._ways(statement, program)[0][1]}

    def done_alike(self, program: VectorProgram) -> tuple[DoneAlike, ...]:
        """Returns what programs have in common that take the same cycles, statement by statement.

        Nothing else that lowering finds of a program depends on what its statements compute.
        """
        return tuple(
            DoneAlike(
                statement.combiner,
                tuple(map(str, statement.elements)),
                tuple((self._priced[place], operands) for place, operands in self._ways(statement, program)),
                statement.changes_nothing,
            )
            for statement in program.parsed
        )

    def _ways(self, statement: Statement, program: VectorProgram) -> list[tuple[int, Operands]]:
        """The operations that do a statement, by their places among all, with their operands."""
        tensors = tuple(program.tensor(element.name) for element in statement.elements)
        asked = str(statement), tensors
        if statement.looked_up or asked not in self._asked:
            self._asked[asked] = self._ways_over(statement, tensors, program)
        return self._asked[asked]

    def _ways_over(
        self, statement: Statement, tensors: Sequence[VectorTensor], program: VectorProgram
    ) -> list[tuple[int, Operands]]:
        """The operations that do a statement over tensors of a program.

        Where its elements lie in their tensors is nothing to them, but for tables.
        """
        elements = statement.elements
        names = {element: f"e{number}" for number, element in enumerate(elements)}
        if not statement.looked_up:
            statement = statement.with_accesses(lambda access: Access(names[access], ()))
            tensors = [
                replace(each, name=names[element], axes=()) for each, element in zip(tensors, elements, strict=True)
            ]
        key = str(statement), tuple(tensors)
        if key not in self._known:
            self._known[key] = self._matched(statement, {tensor.name: tensor for tensor in tensors}, program)
        return self._known[key]

    def _matched(
        self, statement: Statement, tensors: Mapping[str, VectorTensor], program: VectorProgram
    ) -> list[tuple[int, Operands]]:
        apart: dict[Access | Scalar, tirx.Expr] = {}

        def element(leaf: Access | Scalar, _dtype: str) -> tirx.Expr:
            if leaf not in apart:
                tensor = tensors[leaf.name]
                scope = self._target.accelerator.memory(tensor.memory).scope if tensor.memory else DRAM
                apart[leaf] = tirx.decl_buffer((1,), tensor.dtype, leaf.name, scope=scope)[0]
            return apart[leaf]

        store = tvm_store(statement, {name: _type(tensor, program) for name, tensor in tensors.items()}, element)
        numbers = {apart[leaf].source: number for number, leaf in enumerate(statement.elements)}
        return [
            (
                self._places[id(match.meaning)],
                tuple((name, numbers[load.source]) for name, load in match.operands.items()),
            )
            for match in matching_operations(store, self._target.semantics, self._target)
        ]


def _type(tensor: VectorTensor, program: VectorProgram) -> TensorType:
    """A tensor without dimensions of extent 1."""
    return TensorType(tensor.dtype, tuple(program.extents[axis] for axis in tensor.axes if axis != UNIT))


def types_of(statement: Statement, program: VectorProgram) -> dict[str, TensorType]:
    """Returns the tensors of a statement of a program, without dimensions of extent 1."""
    names = (statement.target.name, *statement.operands)
    return {name: _type(program.tensor(name), program) for name in names}


def _first_of_a_price(target: Target) -> list[int]:
    """The first operation of each one's instruction; itself where a cost names a field that chooses operations."""
    found: list[int] = []
    first: dict[str, int] = {}
    for place, meaning in enumerate(target.semantics):
        instruction = meaning.instruction
        texts = [instruction.cycles, instruction.bus_cycles if isinstance(instruction, Copy) else None]
        fields = cost_fields(target.accelerator, instruction)
        named = {fields.get(name, name) for text in texts if text for name in parse_cost(text).names}
        chosen = named & set(meaning.operation.when)
        found.append(place if chosen else first.setdefault(instruction.name, place))
    return found
