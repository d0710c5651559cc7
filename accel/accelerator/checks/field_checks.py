"""Checks of instructions: bits of fields and encodings, roles, and the units, memories and loops that they name."""

import math
from collections.abc import Sequence

from accel.accelerator.checks.layer_checks import check_layer
from accel.accelerator.document import Accelerator
from accel.accelerator.field_roles import field_at, field_roles
from accel.accelerator.instructions import (
    AnyInstruction,
    BitField,
    Compute,
    Copy,
    CopyBlocks,
    CopyDimension,
    HardwareLoop,
    Instruction,
    Layer,
    MicroOps,
    Operand,
    Part,
)
from accel.accelerator.require import require, require_distinct, require_known, together
from accel.accelerator.row_functions import CONSTANTS, READS, RowFunction

_FLOAT_BITS = 32
_MOST_DIMENSIONS = 3


def check_fields(path: str, fields: Sequence[BitField], word_bits: int) -> None:
    """Refuses fields that cross a 64-bit word or share a bit, and constants that do not fit.

    Raises:
        InvalidAccelerator: ``field`` is ``path`` and the number of the field.
    """
    with together() as apart:
        with apart():
            require_distinct([field.name for field in fields], path)
        for index, field in enumerate(fields):
            with apart():
                _check_field(f"{path}.{index}", field, fields[:index], word_bits)


def _check_field(at: str, field: BitField, before: Sequence[BitField], word_bits: int) -> None:
    require(
        field.lsb < word_bits and field.lsb + field.bits <= word_bits,
        at,
        f"{field.name} ends at bit {field.lsb + field.bits}; the last bit is {word_bits - 1}",
    )
    crosses = f"{field.name} has bits {field.lsb} to {field.lsb + field.bits - 1}; it must lie in one 64-bit word"
    require(field.lsb % 64 + field.bits <= 64, at, crosses)
    for other in before:
        shares = f"{field.name} shares bits with {other.name}, which ends before bit {other.lsb + other.bits}"
        require(not _mask(field) & _mask(other), at, f"{shares}; each bit may be of one field")
    _check_type(at, field)


def _mask(field: BitField) -> int:
    return ((1 << field.bits) - 1) << field.lsb


def _check_type(at: str, field: BitField) -> None:
    if field.type == "float32":
        require(field.bits == _FLOAT_BITS, at, f"{field.name} is float32 and has {field.bits} bits; it must have 32")
    require(field.type != "signed" or field.bits > 0, at, f"{field.name} is signed and has no bits; it needs 1")
    if field.value is not None:
        require(field.type == "unsigned", at, f"{field.name} is constant and {field.type}; it must be unsigned")
        require(field.value < 1 << field.bits, at, _too_large(field))


def _too_large(field: BitField) -> str:
    return f"{field.value} does not fit the {field.bits} bits of {field.name}, which hold up to {(1 << field.bits) - 1}"


def check_encoding(path: str, instruction: AnyInstruction, accelerator: Accelerator) -> None:
    """Refuses an encoding that overlaps itself, and a sequence of unknown parts.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    check_fields(f"{path}.fields", instruction.fields, accelerator.word_bits)
    if instruction.sequence:
        can_be_sequence = isinstance(instruction, Copy | Compute | Layer)
        require(
            can_be_sequence,
            f"{path}.sequence",
            f"a {instruction.kind} is no sequence; only a copy, a compute or a layer can be",
        )
        has_fields = f"{instruction.name} has its fields in its parts, and none of its own"
        require(not instruction.fields, f"{path}.fields", has_fields)
        require_distinct(instruction.sequence, f"{path}.sequence")
        parts = [other.name for other in accelerator.instructions if isinstance(other, Part)]
        for at, name in enumerate(instruction.sequence):
            require_known(name, parts, f"{path}.sequence.{at}", "instruction of kind part")


def check_patterns(accelerator: Accelerator) -> None:
    """Refuses words that two instructions could be: any two have a bit that is constant in both and differs.

    Raises:
        InvalidAccelerator: ``field`` is the path of the later one's fields.
    """
    patterns: list[tuple[str, int, int]] = []
    for index, instruction in enumerate(accelerator.instructions):
        if instruction.sequence:
            continue
        constants = [field for field in instruction.fields if field.value is not None]
        mask = sum(_mask(field) for field in constants)
        value = sum((field.value or 0) << field.lsb for field in constants)
        for other, other_mask, other_value in patterns:
            require(
                bool((value ^ other_value) & mask & other_mask),
                f"instructions.{index}.fields",
                f"{instruction.name} cannot be told from {other}: some bits must be constant in both and differ",
            )
        patterns.append((instruction.name, mask, value))


def _may_share(role: str, other: str) -> bool:
    """Whether one field may have two roles: the stride, or the size, of rows and of columns."""
    last = role.rpartition(".")[2]
    both = role.startswith("windows.") and other.startswith("windows.") and other.rpartition(".")[2] == last
    return (".over." in role and ".over." in other) or (both and last in ("size", "stride"))


def check_roles(path: str, instruction: Instruction, accelerator: Accelerator) -> None:
    """Refuses a role without a field of its own that is unsigned and not constant, and a token of more than one bit.

    Raises:
        InvalidAccelerator: ``field`` is the path of the role.
    """
    used: dict[str, str] = {}
    with together() as apart:
        for role, name in field_roles(instruction):
            at = f"{path}.{role}"
            with apart():
                field = field_at(accelerator, instruction, name, at)
                shared = _may_share(role, used.get(name, ""))
                own = f"{name} is {used.get(name)} already; each role needs a field of its own"
                require(name not in used or shared, at, own)
                require(field.value is None, at, f"{name} is constant; a role needs a field without a value")
                require(field.type == "unsigned", at, f"{name} is {field.type}; it must be unsigned")
                if role.startswith("tokens."):
                    require(field.bits == 1, at, f"{name} has {field.bits} bits; a token has one")
                used[name] = role
        operations = instruction.operations if isinstance(instruction, Copy | Compute | Layer) else ()
        for index, operation in enumerate(operations):
            for name in operation.when:
                with apart():
                    both = f"{name} is {used.get(name)} too; what chooses an operation must be another field"
                    require(name not in used, f"{path}.operations.{index}.when.{name}", both)


def check_unit(path: str, instruction: Instruction, accelerator: Accelerator) -> None:
    """Refuses an undefined unit, and tokens of units that are undefined or do not wait by them.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    with together() as apart:
        with apart():
            require_known(instruction.unit, accelerator.units, f"{path}.unit", "unit")
        kind = accelerator.synchronisation.kind
        others = [name for name in accelerator.units if name != instruction.unit]
        for direction, fields in instruction.tokens.model_dump().items():
            at = f"{path}.tokens.{direction}"
            with apart():
                require(kind == "tokens" or not fields, at, f"units wait by {kind}; there are no tokens")
                for unit in fields:
                    require_known(unit, others, at, "other unit")


def check_instruction(path: str, instruction: Instruction, accelerator: Accelerator) -> None:
    """Refuses undefined memories and operands, and shapes and limits that do not fit.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    if isinstance(instruction, Copy):
        _check_copy(path, instruction, accelerator)
    if isinstance(instruction, Compute):
        _check_compute(path, instruction, accelerator)
    if isinstance(instruction, Layer):
        check_layer(path, instruction, accelerator)


def _check_copy(path: str, copy: Copy, accelerator: Accelerator) -> None:
    require_known(copy.memory, [memory.name for memory in accelerator.memories], f"{path}.memory", "memory")
    fields = copy.copy_fields
    for role in ("pad_top", "pad_bottom", "pad_left", "pad_right"):
        stores = copy.direction == "store" and getattr(fields, role) is not None
        require(not stores, f"{path}.copy_fields.{role}", "a store has no padding")
    if copy.max_rows is not None:
        require(fields.rows is not None, f"{path}.max_rows", "the copy has no field of rows")
        assert fields.rows is not None
        _check_limit(f"{path}.max_rows", copy.max_rows, accelerator.bits(copy, fields.rows))
    for index, dimension in enumerate(copy.dimensions):
        _check_dimension(f"{path}.dimensions.{index}", dimension, copy, accelerator)
    most = _MOST_DIMENSIONS - (fields.rows is not None)
    beside = "" if fields.rows is None else " beside rows"
    many = f"{len(copy.dimensions)} dimensions; there may be {most}{beside}"
    require(len(copy.dimensions) <= most, f"{path}.dimensions", many)
    if copy.blocks is not None:
        _check_blocks(f"{path}.blocks", copy, copy.blocks, accelerator)
    if copy.windows is not None:
        _check_windows(f"{path}.windows", copy)
        _check_own_pragma(path, copy, "windows", accelerator)
    if copy.rows is not None:
        _check_rows(f"{path}.rows", copy, copy.rows, accelerator)
        _check_own_pragma(path, copy, "rows", accelerator)
    with together() as apart:
        for name, operand in copy.operands.items():
            with apart():
                _check_copy_operand(f"{path}.operands.{name}", name, operand, copy, accelerator)


def _check_own_pragma(path: str, copy: Copy, what: str, accelerator: Accelerator) -> None:
    """Refuse a store of ``what`` whose pragma another instruction has."""
    own = f"{copy.pragma} is another instruction's too; a store of {what} needs a pragma of its own"
    others = (each for each in accelerator.instructions if isinstance(each, Copy | Compute | Layer))
    require(sum(each.pragma == copy.pragma for each in others) == 1, f"{path}.pragma", own)


def _check_windows(path: str, copy: Copy) -> None:
    fields = copy.copy_fields
    require(copy.direction == "store", path, "a load brings elements as they are; a store takes windows")
    along = "windows take the place of rows and columns; leave their fields out"
    require(fields.rows is None and fields.columns is None, path, along)
    stride = "windows need the field from one column of them to the next in DRAM; name it as copy_fields.row_stride"
    require(fields.row_stride is not None, path, stride)
    require(not copy.dimensions, path, "a store of windows has no further dimensions; leave these out")
    require(not copy.operands, path, "a store of windows reads nothing beside them; leave the operands out")
    require(bool(copy.operations), path, "a store of windows says what it makes of elements; it needs operations")


def _check_rows(path: str, copy: Copy, function: RowFunction, accelerator: Accelerator) -> None:
    """A store of int8 whose fields are there, with all constants of its function."""
    require(copy.direction == "store", path, "a load brings elements as they are; a store has functions of rows")
    narrow = f"{copy.dram_dtype}; what a store makes of a row is int8"
    require(copy.dram_dtype == "int8", f"{path.removesuffix('.rows')}.dram_dtype", narrow)
    require(copy.copy_fields.rows is not None, path, "the store has no field of rows; a function of rows needs one")
    none = "the function says what is stored; leave the operations, windows, dimensions and operands out"
    beside = copy.operations or copy.windows is not None or copy.dimensions or copy.operands
    require(not beside, path, none)
    for role, name in function.fields.items():
        field_at(accelerator, copy, name, f"{path}.{role}")
    known, count = CONSTANTS[function.function], len(READS[function.function])
    missing = [each for each in known if not function.constants.get(each)]
    require(
        not missing, f"{path}.constants", f"{function.function} has a constant {', '.join(missing)}; name its field"
    )
    more = [each for each in function.constants if each not in known]
    require(not more, f"{path}.constants", f"{function.function} has no constant {', '.join(more)}; leave it out")
    passes = f"{function.function} takes {count} passes over a row, and these are {len(function.passes)}"
    require(len(function.passes) == count, f"{path}.passes", passes)


def _check_dimension(path: str, dimension: CopyDimension, copy: Copy, accelerator: Accelerator) -> None:
    require(copy.blocks is None, path, "a copy of blocks takes one rectangle; it needs dimensions or blocks, not both")
    if dimension.limit is not None:
        _check_limit(f"{path}.limit", dimension.limit, accelerator.bits(copy, dimension.extent))


def _check_copy_operand(path: str, name: str, operand: Operand, copy: Copy, accelerator: Accelerator) -> None:
    require(copy.direction == "store", path, "a load reads DRAM alone; operands beside it are a store's")
    require(name not in ("dram", "sram"), path, f"{name} is an end of the copy; an operand needs another name")
    _check_operand(path, operand, accelerator)
    one = "an operand of a store is one element of its memory; leave the shape out"
    require(operand.shape is None, f"{path}.shape", one)
    require(operand.address is not None, f"{path}.address", "a store finds its operand by a field; it needs an address")
    require(not operand.stays, f"{path}.stays", "a store keeps nothing; leave it out")


def _check_blocks(path: str, copy: Copy, blocks: CopyBlocks, accelerator: Accelerator) -> None:
    fields, memory = copy.copy_fields, accelerator.memory(copy.memory)
    require(fields.rows is not None, path, "the copy has no field of rows, and blocks are of each row")
    require(fields.columns is None, path, "the copy has a field of columns; blocks stand in their place")
    scalars = blocks.most * memory.element_count
    bits = accelerator.bits(copy, blocks.scalars)
    few = f"{blocks.most} elements of {memory.name} are {scalars} scalars, and {blocks.scalars} has {bits} bits"
    require(scalars < 1 << bits, f"{path}.most", f"{few}; it needs {scalars.bit_length()}")
    one = "blocks are as far apart as a field says, `stride`, or all alike, `apart`; it needs one of the two"
    require((blocks.stride is None) != (blocks.apart is None), path, one)
    if blocks.stride is None:
        return
    reach = accelerator.bits(copy, blocks.stride)
    none = f"{blocks.stride} has {reach} bits and can only be 0; it needs 1 bit at least"
    require(reach > 0, f"{path}.stride", none)


def _check_limit(path: str, limit: int, bits: int) -> None:
    most = (1 << bits) - 1
    require(limit <= most, path, f"{limit}; its field of {bits} bits holds {most} at most")


def _check_compute(path: str, compute: Compute, accelerator: Accelerator) -> None:
    given = set(compute.microops.operands.values()) if compute.microops is not None else set()
    with together() as apart:
        for name, operand in compute.operands.items():
            at = f"{path}.operands.{name}"
            with apart():
                _check_operand(at, operand, accelerator)
                sources = (operand.address is not None) + (name in given)
                require(
                    sources == 1, at, "its address must come from a field (address) or from the micro-ops, not both"
                )
        if compute.microops is not None:
            with apart():
                _check_microops(f"{path}.microops", compute.microops, compute, accelerator)
        for index, loop in enumerate(compute.loops):
            with apart():
                _check_loop(f"{path}.loops.{index}", loop, compute, accelerator)


def _check_operand(path: str, operand: Operand, accelerator: Accelerator) -> None:
    require_known(operand.memory, [memory.name for memory in accelerator.memories], f"{path}.memory", "memory")
    memory = accelerator.memory(operand.memory)
    if operand.shape is None:
        return
    element, shape = list(memory.shape), list(operand.shape)
    last = f"the last axes must be those of an element of {memory.name}, {element}; found {shape}"
    require(shape[-len(element) :] == element, f"{path}.shape", last)
    steps = math.prod(shape[: len(shape) - len(element)])
    require(steps <= memory.depth, f"{path}.shape", f"{steps} elements of {memory.name}, which has {memory.depth}")


def _check_loop(path: str, loop: HardwareLoop, compute: Compute, accelerator: Accelerator) -> None:
    for role, names in (("factors", loop.factors), ("steps", loop.steps)):
        for name in names:
            require_known(name, compute.operands, f"{path}.{role}", "operand")
    require(not loop.follows, f"{path}.follows", "a step that follows from fields is a layer's; expected factors")
    both = sorted(loop.factors.keys() & loop.steps.keys())
    require(not both, f"{path}.steps", f"{', '.join(both)} has its step in a field already (factors)")
    if loop.limit is not None:
        _check_limit(f"{path}.limit", loop.limit, accelerator.bits(compute, loop.extent))


def _check_microops(path: str, table: MicroOps, compute: Compute, accelerator: Accelerator) -> None:
    require_known(table.memory, [memory.name for memory in accelerator.memories], f"{path}.memory", "memory")
    bits = min(8 * accelerator.memory(table.memory).element_bytes, 64)
    check_fields(f"{path}.fields", table.fields, bits)
    at = f"{path}.operands"
    names = [field.name for field in table.fields]
    for name, operand in table.operands.items():
        require_known(name, names, at, "field of a micro-op")
        require_known(operand, compute.operands, at, "operand")
        field = table.fields[names.index(name)]
        plain = field.type == "unsigned" and field.value is None
        require(plain, f"{path}.fields", f"{field.name} must be unsigned and not constant")
    require_distinct(list(table.operands.values()), at)
