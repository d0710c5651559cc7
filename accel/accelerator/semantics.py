"""The semantics of a document's instructions, as checked expressions."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import (
    BitField,
    Compute,
    Copy,
    HardwareLoop,
    Instruction,
    Layer,
    LayerOperation,
    Operation,
)
from accel.accelerator.memories import Memory
from accel.expression.element_types import CAST_TO, TensorType
from accel.expression.lookup_tables import LookupTable
from accel.expression.parser import parse_statement
from accel.expression.simplify import simplify_product
from accel.expression.syntax_tree import Statement
from accel.expression.typecheck import Typed, check_statement
from accel.util.same_object import SameObject

_SCALARS = {"unsigned": "int32", "signed": "int32", "float32": "float32"}


@dataclass(frozen=True)
class Semantics:
    """One operation of an instruction, checked against the document's memories and fields.

    ``typed`` is its statement in the form that programs have: a product without casts that change nothing.
    """

    instruction: Copy | Compute | Layer
    operation: Operation
    typed: Typed


@dataclass(frozen=True)
class LayerSemantics:
    """One operation of a layer: what it does at every point of its loops, or how its sums begin, go on and end.

    Without sums ``begins`` and ``ends`` are None.
    """

    instruction: Layer
    operation: LayerOperation
    begins: Semantics | None
    does: Semantics
    ends: Semantics | None

    @property
    def statements(self) -> tuple[Semantics, ...]:
        """All of them, in their order."""
        return tuple(each for each in (self.begins, self.does, self.ends) if each is not None)

    @property
    def written(self) -> str:
        """The operand that it leaves in DRAM."""
        return self.statements[-1].typed.statement.target.name

    def sums_over(self, loop: HardwareLoop) -> bool:
        """Returns whether it sums over a loop: its result does not step there."""
        return not loop.moves(self.written)

    @property
    def sums(self) -> str | None:
        """The operand that is on the chip while it sums; None where it does not."""
        return None if self.ends is None else self.does.typed.statement.target.name


def all_semantics(accelerator: Accelerator) -> tuple[Semantics, ...]:
    """Returns the semantics of all instructions, in the order of the document; of the latest ones they are known.

    Raises:
        ExpressionError: an expression cannot be parsed, or does not fit its operands.
    """
    return _semantics_of_document(SameObject(accelerator))


@functools.lru_cache(maxsize=16)
def _semantics_of_document(same: SameObject[Accelerator]) -> tuple[Semantics, ...]:
    return tuple(
        meaning
        for instruction in same.value.instructions
        if isinstance(instruction, Copy | Compute)
        for meaning in semantics_of(same.value, instruction)
    )


def semantics_of(accelerator: Accelerator, instruction: Copy | Compute) -> Iterator[Semantics]:
    """Yields the semantics of one instruction's operations; a copy without operations moves elements unchanged.

    A store with a function of rows has none: no expression of an element says it.

    Raises:
        ExpressionError: an expression cannot be parsed, or does not fit its operands.
    """
    if isinstance(instruction, Copy) and instruction.rows is not None:
        return
    tensors = operand_types(accelerator, instruction)
    operations = instruction.operations
    if isinstance(instruction, Copy) and not operations:
        operations = (plain_copy(instruction, accelerator.memory(instruction.memory)),)
    for operation in operations:
        statement = parse_statement(operation.does)
        scalars = {name: scalar_type(accelerator, instruction, name) for name in statement.scalars}
        tables = _tables_of(statement, accelerator)
        typed = _typed(operation.does, tuple(tensors.items()), tuple(scalars.items()), tables)
        yield Semantics(instruction, operation, typed)


def _tables_of(statement: Statement, accelerator: Accelerator) -> tuple[tuple[str, LookupTable], ...]:
    return tuple((table.name, table.lookup()) for table in accelerator.tables if table.name in statement.tables)


@functools.lru_cache(maxsize=1024)  # as with what is parsed: a document's are asked for again and again
def _typed(
    does: str,
    tensors: tuple[tuple[str, TensorType], ...],
    scalars: tuple[tuple[str, str], ...],
    tables: tuple[tuple[str, LookupTable], ...],
) -> Typed:
    return simplify_product(check_statement(parse_statement(does), dict(tensors), dict(scalars), dict(tables)))


def all_layers(accelerator: Accelerator) -> tuple[LayerSemantics, ...]:
    """Returns the semantics of all layers, in the order of the document.

    Raises:
        ExpressionError: an expression cannot be parsed, or does not fit its operands.
    """
    return tuple(meaning for layer in accelerator.layers for meaning in layer_semantics(accelerator, layer))


def layer_semantics(accelerator: Accelerator, layer: Layer) -> Iterator[LayerSemantics]:
    """Yields the semantics of a layer's operations.

    Raises:
        ExpressionError: an expression cannot be parsed, or does not fit its operands.
    """
    tensors = tuple(operand_types(accelerator, layer).items())

    def of(operation: LayerOperation, text: str) -> Semantics:
        statement = parse_statement(text)
        scalars = tuple((name, scalar_type(accelerator, layer, name)) for name in statement.scalars)
        tables = _tables_of(statement, accelerator)
        return Semantics(layer, operation, _typed(text, tensors, scalars, tables))

    for each in layer.operations:
        begins = None if each.begins is None else of(each, each.begins)
        yield LayerSemantics(
            layer, each, begins, of(each, each.does), None if each.ends is None else of(each, each.ends)
        )


def operand_types(accelerator: Accelerator, instruction: Copy | Compute | Layer) -> dict[str, TensorType]:
    """Returns the tensors that an instruction's expressions may name.

    Of a copy they are ``dram``, ``sram`` and its operands, an element of each.
    """
    if isinstance(instruction, Layer):
        memories = {name: accelerator.memory(operand.memory) for name, operand in instruction.operands.items()}
        return {
            name: TensorType(instruction.type_in_dram(name, memory), instruction.operands[name].shape or memory.shape)
            for name, memory in memories.items()
        }
    if isinstance(instruction, Copy):
        memory = accelerator.memory(instruction.memory)
        beside = {name: accelerator.memory(operand.memory) for name, operand in instruction.operands.items()}
        return {
            "dram": TensorType(instruction.dram_dtype, memory.shape),
            "sram": TensorType(memory.dtype, memory.shape),
        } | {name: TensorType(each.dtype, each.shape) for name, each in beside.items()}
    types = {}
    for name, operand in instruction.operands.items():
        memory = accelerator.memory(operand.memory)
        types[name] = TensorType(memory.dtype, operand.shape or memory.shape)
    return types


def scalar_type(accelerator: Accelerator, instruction: Instruction, name: str) -> str:
    """Returns the type of a field that is a scalar of an expression.

    In a sequence the expression has the field's own name, without the part's.

    Raises:
        KeyError: there is no field of that name.
    """
    return type_of_scalar(accelerator.field(instruction, scalar_field(accelerator, instruction, name)))


def type_of_scalar(field: BitField) -> str:
    """Returns the type that a field has as a scalar of an expression."""
    return _SCALARS[field.type]


def scalar_field(accelerator: Accelerator, instruction: Instruction, name: str) -> str:
    """Returns the whole name of the field that is a scalar of an expression.

    Raises:
        KeyError: there is no field of that name.
    """
    if not instruction.sequence or (isinstance(instruction, Layer) and name in instruction.numbers):
        return accelerator.field(instruction, name).name
    for part in accelerator.parts(instruction):
        if any(field.name == name for field in part.fields):
            return f"{part.name}.{name}"
    raise KeyError(name)


def plain_copy(copy: Copy, memory: Memory) -> Operation:
    """Returns the operation of a copy that moves elements unchanged, with a cast where the types differ."""
    axes = ", ".join(f"a{axis}" for axis in range(len(memory.shape)))
    target, source = ("sram", "dram") if copy.direction == "load" else ("dram", "sram")
    dtype = memory.dtype if copy.direction == "load" else copy.dram_dtype
    value = f"{source}[{axes}]" if memory.dtype == copy.dram_dtype else f"{CAST_TO[dtype]}({source}[{axes}])"
    return Operation(name="copy", does=f"{target}[{axes}] = {value}")
