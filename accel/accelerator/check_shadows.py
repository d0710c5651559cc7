"""Operations that the compiler never chooses, as one before them under the same pragma does all that they do."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy
from accel.accelerator.meanings import Meaning, meanings_of, scalar_field
from accel.accelerator.require import require


@dataclass(frozen=True)
class _Known:
    """An operation: its place, what it does without names, and the largest number of each of its fields."""

    meaning: Meaning
    path: str
    does: tuple[Any, ...]
    most: dict[str, int]


def check_shadows(accelerator: Accelerator) -> None:
    """Refuse an operation that does what another under its pragma does, with fields that hold no more.

    The compiler takes the first of the document that fits.

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


def _message(later: Meaning, first: Meaning) -> str:
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
        for number, meaning in enumerate(meanings_of(accelerator, instruction)):
            path = f"instructions.{index}.operations.{number}.does"
            if isinstance(instruction, Copy) and not instruction.operations:
                path = f"instructions.{index}.pragma"
            yield _operation(meaning, path, accelerator)


def _operation(meaning: Meaning, path: str, accelerator: Accelerator) -> _Known:
    instruction, statement = meaning.instruction, meaning.typed.statement
    text, names = _anonymous(meaning)
    most: dict[str, int] = {}
    if isinstance(instruction, Copy):
        for role, field in instruction.copy_fields.model_dump(exclude_none=True).items():
            most[role] = (1 << accelerator.bits(instruction, field)) - 1
        if instruction.max_rows is not None:
            most["rows"] = min(most["rows"], instruction.max_rows)
        where: Any = (instruction.memory, instruction.direction, instruction.dram_dtype, instruction.dram_unit)
    else:
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


def _anonymous(meaning: Meaning) -> tuple[str, list[str]]:
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
