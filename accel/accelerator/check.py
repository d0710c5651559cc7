"""What the parts of a document must agree on, whatever the family: names, references, and the bits of the words."""

from collections.abc import Iterator, Sequence

from accel.accelerator.document import Accelerator, BitField, Contract, Copy, Instruction, Map
from accel.errors import InvalidAccelerator


def require(condition: bool, path: str, message: str) -> None:  # noqa: FBT001 - reads as an assertion
    """Refuse a document.

    Raises:
        InvalidAccelerator: ``condition`` does not hold; ``path`` is the place in the document.
    """
    if not condition:
        raise InvalidAccelerator(f"{path}: {message}", field=f"accelerator.{path}")


def check_document(accelerator: Accelerator) -> None:
    """Refuse a document that contradicts itself: the encoding can be decoded again, and every name names something.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    _check_names("memories", [memory.name for memory in accelerator.memories])
    _check_names("memories", [memory.scope for memory in accelerator.memories])
    _check_names("units", accelerator.units)
    _check_names("instructions", [instruction.name for instruction in accelerator.instructions])
    for index, instruction in enumerate(accelerator.instructions):
        path = f"instructions.{index}"
        _check_fields(f"{path}.fields", instruction.fields, accelerator.word_bits)
        _check_roles(path, instruction)
        _check_references(path, instruction, accelerator)
    _check_patterns(accelerator)


def roles(instruction: Instruction) -> Iterator[tuple[str, str]]:
    """What the fields of an instruction are for: the path of the role, and the field that has it."""
    for direction in ("pop", "push"):
        for unit, field in getattr(instruction.tokens, direction).items():
            yield f"tokens.{direction}.{unit}", field
    if isinstance(instruction, Copy):
        for role, field in instruction.copy_fields.model_dump(exclude_none=True).items():
            yield f"copy_fields.{role}", field
    if isinstance(instruction, Contract):
        yield "reset", instruction.reset
    if isinstance(instruction, Map):
        yield "opcode", instruction.opcode
        yield "use_immediate", instruction.use_immediate
        yield "immediate", instruction.immediate
    if isinstance(instruction, Contract | Map):
        yield "microops.begin", instruction.microops.begin
        yield "microops.end", instruction.microops.end
        for index, loop in enumerate(instruction.loops):
            yield f"loops.{index}.extent", loop.extent
            for operand, field in loop.factors.items():
                yield f"loops.{index}.factors.{operand}", field


def operand_names(instruction: Contract | Map) -> list[str]:
    """The names that loops and micro-ops call the operands by."""
    if isinstance(instruction, Contract):
        return [instruction.dst.name, instruction.data.name, instruction.weights.name]
    return [instruction.dst.name, instruction.src.name]


def _check_names(path: str, names: Sequence[str]) -> None:
    for index, name in enumerate(names):
        require(name not in names[:index], f"{path}.{index}", f"there are two called {name}")


def _check_fields(path: str, fields: Sequence[BitField], word_bits: int) -> None:
    """Fields lie in one 64-bit word each, and no two share a bit."""
    _check_names(path, [field.name for field in fields])
    taken = 0
    for index, field in enumerate(fields):
        at, mask = f"{path}.{index}", ((1 << field.bits) - 1) << field.lsb
        require(
            field.lsb < word_bits and field.lsb + field.bits <= word_bits,
            at,
            f"{field.name} ends at bit {field.lsb + field.bits} of {word_bits}",
        )
        require(field.lsb % 64 + field.bits <= 64, at, f"{field.name} crosses a 64-bit word")
        require(not taken & mask, at, f"{field.name} shares bits with a field before it")
        taken |= mask
        if field.value is not None:
            require(not field.signed, at, f"{field.name} is constant and signed")
            require(field.value < 1 << field.bits, at, f"{field.value} does not fit the {field.bits} bits")


def _check_roles(path: str, instruction: Instruction) -> None:
    fields = {field.name: field for field in instruction.fields}
    used: set[str] = set()
    for role, name in roles(instruction):
        at = f"{path}.{role}"
        require(name in fields, at, f"{instruction.name} has no field {name}")
        require(name not in used, at, f"{name} has another role already")
        require(fields[name].value is None, at, f"{name} is constant")
        signed = role == "immediate"
        require(fields[name].signed == signed, at, f"{name} must be {'signed' if signed else 'unsigned'}")
        used.add(name)


def _check_references(path: str, instruction: Instruction, accelerator: Accelerator) -> None:
    memories = {memory.name: memory for memory in accelerator.memories}
    require(instruction.unit in accelerator.units, f"{path}.unit", f"there is no unit {instruction.unit}")
    for direction in ("pop", "push"):
        for unit in getattr(instruction.tokens, direction):
            known = unit in accelerator.units and unit != instruction.unit
            require(known, f"{path}.tokens.{direction}", f"{unit} is no other unit")
    if isinstance(instruction, Copy):
        require(instruction.memory in memories, f"{path}.memory", f"there is no memory {instruction.memory}")
    if isinstance(instruction, Contract | Map):
        operands = (
            {"dst": instruction.dst, "data": instruction.data, "weights": instruction.weights}
            if isinstance(instruction, Contract)
            else {"dst": instruction.dst, "src": instruction.src}
        )
        for role, operand in operands.items():
            at = f"{path}.{role}"
            require(operand.memory in memories, f"{at}.memory", f"there is no memory {operand.memory}")
            rank = len(memories[operand.memory].shape)
            require(len(operand.axes) == rank, f"{at}.axes", f"an element of {operand.memory} has {rank} axes")
        _check_names(f"{path}.operands", operand_names(instruction))
        _check_microops(path, instruction, set(memories))


def _check_microops(path: str, instruction: Contract | Map, memories: set[str]) -> None:
    table, operands = instruction.microops, operand_names(instruction)
    require(table.memory in memories, f"{path}.microops.memory", f"there is no memory {table.memory}")
    _check_fields(f"{path}.microops.fields", table.fields, 64)
    names = [field.name for field in table.fields]
    at = f"{path}.microops.operands"
    for field, operand in table.operands.items():
        require(field in names, at, f"a micro-op has no field {field}")
        require(operand in operands, at, f"{instruction.name} has no operand {operand}")
    require(sorted(table.operands.values()) == sorted(operands), at, f"each of {', '.join(operands)} needs one field")
    for index, loop in enumerate(instruction.loops):
        factors = f"{path}.loops.{index}.factors"
        require(set(loop.factors) == set(operands), factors, f"each of {', '.join(operands)} needs one step")
    if isinstance(instruction, Map):
        _check_names(f"{path}.ops", [op.name for op in instruction.ops])
        _check_names(f"{path}.ops", [str(op.code) for op in instruction.ops])
        most = 1 << instruction.bits(instruction.opcode)
        for index, op in enumerate(instruction.ops):
            require(op.code < most, f"{path}.ops.{index}.code", f"{op.code} does not fit the field's {most} codes")


def _check_patterns(accelerator: Accelerator) -> None:
    """Every word is at most one instruction: of any two, some bit is constant in both and differs."""
    patterns = []
    for instruction in accelerator.instructions:
        constants = [field for field in instruction.fields if field.value is not None]
        mask = sum(((1 << field.bits) - 1) << field.lsb for field in constants)
        patterns.append((mask, sum((field.value or 0) << field.lsb for field in constants)))
    for second, (mask, value) in enumerate(patterns):
        for first, (other_mask, other_value) in enumerate(patterns[:second]):
            require(
                bool((value ^ other_value) & mask & other_mask),
                f"instructions.{second}.fields",
                f"{accelerator.instructions[second].name} cannot be told from {accelerator.instructions[first].name}: "
                "no constant field differs",
            )
