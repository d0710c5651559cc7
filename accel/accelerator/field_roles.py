"""The roles of an instruction's fields: addresses, extents, strides, tokens; and the fields by name."""

import math
from collections.abc import Iterator, Sequence

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import (
    BitField,
    Compute,
    Copy,
    HardwareLoop,
    Instruction,
    Layer,
    Operand,
    WindowAxis,
)
from accel.accelerator.memories import Memory
from accel.accelerator.require import listed
from accel.errors import InvalidAccelerator


def field_roles(instruction: Instruction) -> Iterator[tuple[str, str]]:
    """Yields the roles of an instruction's fields: the path of each role, and the name of its field."""
    for direction in ("pop", "push"):
        for unit, field in getattr(instruction.tokens, direction).items():
            yield f"tokens.{direction}.{unit}", field
    if isinstance(instruction, Copy):
        yield from _copy_roles(instruction)
    if isinstance(instruction, Compute):
        yield from _compute_roles(instruction)
    if isinstance(instruction, Layer):
        yield from _layer_roles(instruction)


def _copy_roles(copy: Copy) -> Iterator[tuple[str, str]]:
    for role, field in copy.copy_fields.model_dump(exclude_none=True).items():
        yield f"copy_fields.{role}", field
    for index, dimension in enumerate(copy.dimensions):
        for role, field in dimension.model_dump(exclude_none=True, exclude={"limit"}).items():
            yield f"dimensions.{index}.{role}", field
    if copy.blocks is not None:
        yield "blocks.scalars", copy.blocks.scalars
        if copy.blocks.stride is not None:
            yield "blocks.stride", copy.blocks.stride
    if copy.windows is not None:
        for along in ("rows", "columns"):
            axis: WindowAxis = getattr(copy.windows, along)
            yield from ((f"windows.{along}.{role}", field) for role, field in axis.fields.items())
        yield "windows.pitch", copy.windows.pitch
    for name, operand in copy.operands.items():
        if operand.address is not None:
            yield f"operands.{name}.address", operand.address


def _compute_roles(instruction: Compute) -> Iterator[tuple[str, str]]:
    for name, operand in instruction.operands.items():
        if operand.address is not None:
            yield f"operands.{name}.address", operand.address
    if instruction.microops is not None:
        yield "microops.begin", instruction.microops.begin
        yield "microops.end", instruction.microops.end
    yield from _loop_roles(instruction.loops)


def _layer_roles(layer: Layer) -> Iterator[tuple[str, str]]:
    for name, operand in layer.operands.items():
        if operand.dram is not None:
            yield f"operands.{name}.dram", operand.dram
        if operand.pitch is not None:
            yield f"operands.{name}.pitch", operand.pitch
        for index, window in enumerate(operand.windows):
            at = f"operands.{name}.windows.{index}"
            for extent, field in window.over.items():
                yield f"{at}.over.{extent}", field
            for role in ("before", "extent", "pitch"):
                if (field_name := getattr(window, role)) is not None:
                    yield f"{at}.{role}", field_name
    yield from _loop_roles(layer.loops)


def _loop_roles(loops: Sequence[HardwareLoop]) -> Iterator[tuple[str, str]]:
    for index, loop in enumerate(loops):
        yield f"loops.{index}.extent", loop.extent
        for at, field in enumerate(loop.repeated_in):
            yield f"loops.{index}.repeated_in.{at}", field
        for operand_name, field in loop.factors.items():
            yield f"loops.{index}.factors.{operand_name}", field


def field_names(accelerator: Accelerator, instruction: Instruction) -> list[str]:
    """Returns the whole names of an instruction's fields; in a sequence they are part.field."""
    if not instruction.sequence:
        return [field.name for field in instruction.fields]
    numbers = list(instruction.numbers) if isinstance(instruction, Layer) else []
    return numbers + [f"{part.name}.{field.name}" for part in accelerator.parts(instruction) for field in part.fields]


def field_at(accelerator: Accelerator, instruction: Instruction, name: str, path: str) -> BitField:
    """Returns the field called ``name``, which the document names at ``path``.

    Raises:
        InvalidAccelerator: there is none; ``field`` is ``path``.
    """
    try:
        return accelerator.field(instruction, name)
    except KeyError:
        known = listed(field_names(accelerator, instruction))
        raise InvalidAccelerator(
            f"{path}: {instruction.name} has no field {name}; {known}", field=f"accelerator.{path}"
        ) from None


def span(operand: Operand, memory: Memory) -> int:
    """Returns the elements of ``memory`` that ``operand`` covers."""
    return 1 if operand.shape is None else math.prod(operand.shape) // memory.element_count
