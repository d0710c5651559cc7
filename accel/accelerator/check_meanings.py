"""What instructions do and cost: expressions that can be read, and that fit their operands and fields."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from accel.accelerator.check_roles import field_at, field_names
from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import BitField, Compute, Copy, Instruction, Operation
from accel.accelerator.meanings import operand_types, plain_copy, scalar_field, scalar_type
from accel.accelerator.require import require, require_distinct, require_known
from accel.expression.check import check
from accel.expression.cost import parse_cost
from accel.expression.errors import ExpressionError
from accel.expression.parse import parse

_SCALAR_BITS = 32
COST_NAMES = ("bus_bytes", "read_latency")
COPY_COST_NAMES = ("bytes", "elements")


def check_meanings(path: str, instruction: Instruction, accelerator: Accelerator) -> None:
    """Operations can be told apart, and their expressions and costs mean something.

    Raises:
        InvalidAccelerator: ``field`` is the path of the expression.
    """
    if isinstance(instruction, Copy | Compute):
        require_distinct([operation.name for operation in instruction.operations], f"{path}.operations")
        for index, operation in enumerate(instruction.operations):
            at = f"{path}.operations.{index}"
            _check_when(f"{at}.when", operation, instruction, accelerator)
            _check_choice(f"{at}.when", operation, instruction.operations[:index])
            _check_does(f"{at}.does", operation.does, instruction, accelerator)
    if isinstance(instruction, Copy) and not instruction.operations:
        moved = plain_copy(instruction, accelerator.memory(instruction.memory))
        _check_does(f"{path}.dram_dtype", moved.does, instruction, accelerator)
    for role in ("cycles", "energy"):
        text = getattr(instruction, role)
        if text is not None:
            _check_cost(f"{path}.{role}", text, instruction, accelerator)


def _check_when(path: str, operation: Operation, instruction: Instruction, accelerator: Accelerator) -> None:
    for name, value in operation.when.items():
        at = f"{path}.{name}"
        field = field_at(accelerator, instruction, name, at)
        low, high = _values(field)
        require(low <= value < high, at, f"{value}; {name} of {field.bits} bits holds {low} to {high - 1}")
        if field.value is not None:
            require(field.value == value, at, f"{value}; {name} is constant and {field.value}")


def _values(field: BitField) -> tuple[int, int]:
    return (-(1 << field.bits - 1), 1 << field.bits - 1) if field.type == "signed" else (0, 1 << field.bits)


def _check_choice(path: str, operation: Operation, others: Sequence[Operation]) -> None:
    """No instruction is two of its operations."""
    for other in others:
        apart = any(other.when.get(name, value) != value for name, value in operation.when.items())
        require(apart, path, f"{operation.name} cannot be told from {other.name}: no field has another value in both")


def _check_does(path: str, text: str, instruction: Copy | Compute, accelerator: Accelerator) -> None:
    with _at(path):
        statement = parse(text)
        if isinstance(instruction, Copy):
            target, source = ("sram", "dram") if instruction.direction == "load" else ("dram", "sram")
            right = statement.target.name == target and set(statement.operands) <= {source}
            require(right, path, f"found {text!r}; a {instruction.direction} writes {target} and reads {source}")
        scalars = _scalars(accelerator, instruction)
        for name in statement.scalars:
            if name in scalars:
                field = accelerator.field(instruction, scalar_field(accelerator, instruction, name))
                fits = f"{name} has {field.bits} bits; a number in an expression has {_SCALAR_BITS} at most"
                require(field.bits <= _SCALAR_BITS, path, fits)
        check(statement, operand_types(accelerator, instruction), scalars)


def _scalars(accelerator: Accelerator, instruction: Instruction) -> dict[str, str]:
    """Types of the fields that an expression may name: by their own names, of which a sequence may have two."""
    names = [name.rpartition(".")[2] for name in field_names(accelerator, instruction)]
    return {name: scalar_type(accelerator, instruction, name) for name in names if names.count(name) == 1}


def _check_cost(path: str, text: str, instruction: Instruction, accelerator: Accelerator) -> None:
    with _at(path):
        cost = parse_cost(text)
    known = [*field_names(accelerator, instruction), *_scalars(accelerator, instruction), *COST_NAMES]
    if isinstance(instruction, Copy):
        known += COPY_COST_NAMES
    for name in cost.names:
        require_known(name, dict.fromkeys(known), path, "field or number")


@contextmanager
def _at(path: str) -> Iterator[None]:
    """Give an expression's error its place in the document."""
    try:
        yield
    except ExpressionError as error:
        require(condition=False, path=path, message=error.detail)
