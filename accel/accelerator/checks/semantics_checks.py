"""Checks of semantics: expressions fit operands and fields, and no operation shadows a later one."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from accel.accelerator.cost_ranges import depths_of_memories
from accel.accelerator.document import Accelerator
from accel.accelerator.field_roles import field_at, field_names
from accel.accelerator.instructions import BitField, Compute, Copy, Instruction, Layer, LayerOperation, Operation
from accel.accelerator.require import require, require_distinct, require_known, together
from accel.accelerator.semantics import Semantics, operand_types, plain_copy, scalar_field, semantics_of, type_of_scalar
from accel.expression.cost_expression import parse_cost
from accel.expression.parser import parse_statement
from accel.expression.syntax_tree import ExpressionError
from accel.expression.typecheck import check_reach, check_statement

_SCALAR_BITS = 32
COST_NAMES = ("bus_bytes", "read_latency")
COPY_COST_NAMES = ("bytes", "elements")


def check_semantics(path: str, instruction: Instruction, accelerator: Accelerator) -> None:
    """Refuses operations that the same fields choose, and expressions that do not fit operands and fields.

    Raises:
        InvalidAccelerator: ``field`` is the path of the expression.
    """
    if not isinstance(instruction, Copy | Compute | Layer):
        return
    scalars = _scalars(accelerator, instruction)
    with together() as apart:
        with apart():
            require_distinct([operation.name for operation in instruction.operations], f"{path}.operations")
        for index, operation in enumerate(instruction.operations):
            at = f"{path}.operations.{index}"
            with apart():
                _check_when(f"{at}.when", operation, instruction, accelerator)
                _check_choice(f"{at}.when", operation, instruction.operations[:index])
            with apart():
                _check_does(f"{at}.does", operation.does, instruction, accelerator, scalars, operation.when)
            for role in ("begins", "ends") if isinstance(operation, LayerOperation) else ():
                if (text := getattr(operation, role)) is not None:
                    with apart():
                        _check_does(f"{at}.{role}", text, instruction, accelerator, scalars, operation.when)
        if isinstance(instruction, Copy) and not instruction.operations:
            moved = plain_copy(instruction, accelerator.memory(instruction.memory))
            _check_does(f"{path}.dram_dtype", moved.does, instruction, accelerator, scalars)


def check_costs(path: str, instruction: Instruction, accelerator: Accelerator) -> None:
    """Refuses costs that are no expression, or name what there is not.

    Raises:
        InvalidAccelerator: ``field`` is the path of the cost.
    """
    known = [*field_names(accelerator, instruction), *_own_names(accelerator, instruction), *COST_NAMES]
    if isinstance(instruction, Copy):
        known += COPY_COST_NAMES
    with together() as apart:
        for role in ("cycles", "energy", "bus_cycles", "alone"):
            text = getattr(instruction, role, None)
            if text is not None:
                with apart():
                    _check_cost(f"{path}.{role}", text, known)
        for at, text in _worked_out(instruction) if isinstance(instruction, Layer) else ():
            with apart():
                memories = depths_of_memories(accelerator) if at.startswith("uses.") else ()
                _check_cost(f"{path}.{at}", text, [*known, *memories])


def _worked_out(layer: Layer) -> Iterator[tuple[str, str]]:
    """What of a layer is arithmetic over fields beside its costs: the path of each, and its text."""
    yield from ((f"uses.{memory}", text) for memory, text in layer.uses.items())
    yield from ((f"follows.{field}", text) for field, text in layer.follows.items())
    for index, loop in enumerate(layer.loops):
        yield from ((f"loops.{index}.follows.{name}", text) for name, text in loop.follows.items())


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
        distinct = any(other.when.get(name, value) != value for name, value in operation.when.items())
        require(
            distinct, path, f"{operation.name} cannot be told from {other.name}: no field has another value in both"
        )


def _check_does(
    path: str,
    text: str,
    instruction: Copy | Compute | Layer,
    accelerator: Accelerator,
    scalars: Mapping[str, str],
    when: Mapping[str, int] | None = None,
) -> None:
    with _at_path(path):
        statement = parse_statement(text)
        if isinstance(instruction, Copy):
            target, source = ("sram", "dram") if instruction.direction == "load" else ("dram", "sram")
            beside = ", ".join(("", *instruction.operands))
            right = statement.target.name == target and set(statement.operands) <= {source, *instruction.operands}
            reads = f"a {instruction.direction} writes {target} and reads {source}{beside}"
            require(right, path, f"found {text!r}; {reads}")
        for name in statement.scalars:
            if name in scalars:
                field = accelerator.field(instruction, scalar_field(accelerator, instruction, name))
                fits = f"{name} has {field.bits} bits; a number in an expression has {_SCALAR_BITS} at most"
                require(field.bits <= _SCALAR_BITS, path, fits)
        tensors = operand_types(accelerator, instruction)
        tables = {table.name: table.lookup() for table in accelerator.tables}
        typed = check_statement(statement, tensors, scalars, tables)
        most = {}
        for name in statement.index_scalars:
            whole = scalar_field(accelerator, instruction, name)
            field = accelerator.field(instruction, whole)
            require(field.type == "unsigned", path, f"{name} is {field.type}; a field that is a step is unsigned")
            most[name] = (when or {}).get(whole, _values(field)[1] - 1 if field.value is None else field.value)
        check_reach(statement, tensors, typed.extents, most)


def _scalars(accelerator: Accelerator, instruction: Instruction) -> dict[str, str]:
    """Types of the fields that an expression may name."""
    names = _own_names(accelerator, instruction)
    return {name: type_of_scalar(accelerator.field(instruction, whole)) for name, whole in names.items()}


def _own_names(accelerator: Accelerator, instruction: Instruction) -> dict[str, str]:
    """Fields that an expression may name by their own names, of which the parts may have two; with the whole ones."""
    whole = field_names(accelerator, instruction)  # a layer's numbers first
    names = [name.rpartition(".")[2] for name in whole]
    counts, own = Counter(names), instruction.numbers if isinstance(instruction, Layer) else ()
    found: dict[str, str] = {}
    for name, each in zip(names, whole, strict=True):
        if counts[name] == 1 or name in own:
            found.setdefault(name, each)
    return found


def _check_cost(path: str, text: str, known: Sequence[str]) -> None:
    with _at_path(path):
        cost = parse_cost(text)
    for name in cost.names:
        require_known(name, dict.fromkeys(known), path, "field or number")


@contextmanager
def _at_path(path: str) -> Iterator[None]:
    """Give an expression's error its place in the document."""
    try:
        yield
    except ExpressionError as error:
        require(condition=False, path=path, message=error.detail)


@dataclass(frozen=True)
class _Known:
    """An operation: its path, its semantics without names, and the largest number of each of its fields."""

    meaning: Semantics
    path: str
    does: tuple[Any, ...]
    most: dict[str, int]


def check_shadows(accelerator: Accelerator) -> None:
    """Refuses an operation with the semantics of an earlier one under its pragma, and fields that hold no more.

    The compiler takes the first operation of the document that fits, so the later one would never be used.

    Raises:
        InvalidAccelerator: ``field`` is the path of the later operation, or of the pragma of a copy without operations.
    """
    found: list[_Known] = []
    for known in _known(accelerator):
        for other in found:
            shadowed = known.does == other.does and all(
                value <= other.most.get(name, value) for name, value in known.most.items()
            )
            require(not shadowed, known.path, _message(known.meaning, other.meaning))
        found.append(known)


def _message(later: Semantics, first: Semantics) -> str:
    names = [
        meaning.instruction.name
        if isinstance(meaning.instruction, Copy) and not meaning.instruction.operations
        else f"{meaning.instruction.name}.{meaning.operation.name}"
        for meaning in (later, first)
    ]
    return (
        f"{names[0]} is never chosen: under {first.instruction.pragma}, {names[1]} before it does the same "
        f"({first.operation.does}), with fields as wide; it needs another expression, or a pragma of its own"
    )


def _known(accelerator: Accelerator) -> Iterator[_Known]:
    for index, instruction in enumerate(accelerator.instructions):
        if not isinstance(instruction, Copy | Compute):
            continue
        for number, meaning in enumerate(semantics_of(accelerator, instruction)):
            path = f"instructions.{index}.operations.{number}.does"
            if isinstance(instruction, Copy) and not instruction.operations:
                path = f"instructions.{index}.pragma"
            yield _operation(meaning, path, accelerator)


def _operation(meaning: Semantics, path: str, accelerator: Accelerator) -> _Known:
    instruction, statement = meaning.instruction, meaning.typed.statement
    text, names = _anonymous(meaning)
    most: dict[str, int] = {}
    if isinstance(instruction, Copy):
        for role, field in instruction.copy_fields.model_dump(exclude_none=True).items():
            most[role] = (1 << accelerator.bits(instruction, field)) - 1
        if instruction.max_rows is not None:
            most["rows"] = min(most["rows"], instruction.max_rows)
        for number, dimension in enumerate(instruction.dimensions):
            for role, field in dimension.model_dump(exclude_none=True, exclude={"limit"}).items():
                most[f"{role}{number}"] = (1 << accelerator.bits(instruction, field)) - 1
            if dimension.limit is not None:
                most[f"extent{number}"] = min(most[f"extent{number}"], dimension.limit)
        beside = tuple(instruction.operands[name].memory for name in names if name in instruction.operands)
        where: Any = (instruction.memory, instruction.direction, instruction.dram_dtype, instruction.dram_unit, beside)
    else:
        assert isinstance(instruction, Compute)  # layers are chosen by their cost
        tensors = [name for name in names if name in meaning.typed.tensors]
        shapes = tuple(meaning.typed.tensors[name].shape for name in tensors)
        where = (*_places(instruction, tensors, accelerator, most), shapes)
    scalars = []
    for number, name in enumerate(name for name in names if name in statement.scalars):
        field = accelerator.field(instruction, scalar_field(accelerator, instruction, name))
        scalars.append(field.type)
        most[f"scalar{number}"] = (1 << field.bits) - 1
    does = (instruction.kind, instruction.pragma, text, where, tuple(scalars), tuple(sorted(most)))
    return _Known(meaning, path, does, most)


def _anonymous(meaning: Semantics) -> tuple[str, list[str]]:
    """The statement with its names numbered in the order of their first use, and those names in that order."""
    statement = meaning.typed.statement
    known = {*meaning.typed.tensors, *statement.axes, *statement.scalars}
    numbers: dict[str, str] = {}

    def renamed(found: re.Match[str]) -> str:
        return numbers.setdefault(found[0], f"n{len(numbers)}") if found[0] in known else found[0]

    return re.sub(r"[A-Za-z_]\w*", renamed, str(statement)), list(numbers)


def _places(
    compute: Compute, tensors: Sequence[str], accelerator: Accelerator, most: dict[str, int]
) -> tuple[Any, ...]:
    """Where the operands lie and how loops step them, in the order of the expression; ``most`` is added to."""
    for number, name in enumerate(tensors):
        address = compute.operands[name].address
        if address is not None:
            most[f"address{number}"] = (1 << accelerator.bits(compute, address)) - 1
    loops = []
    for at, loop in enumerate(compute.loops):
        extent = (1 << accelerator.bits(compute, loop.extent)) - 1
        most[f"extent{at}"] = extent if loop.limit is None else min(extent, loop.limit)
        for number, name in enumerate(tensors):
            if name in loop.factors:
                most[f"step{at}.{number}"] = (1 << accelerator.bits(compute, loop.factors[name])) - 1
        loops.append(tuple(loop.steps.get(name, 0) for name in tensors))
    where = tuple(compute.operands[name].memory for name in tensors)
    return where, tuple(loops), compute.microops and compute.microops.memory
