"""Support of a document: what ``explicit`` can execute of one that agrees with itself; the rest is refused."""

from itertools import combinations

from accel.accelerator.checks.cost_checks import check_cost
from accel.accelerator.document import Accelerator
from accel.accelerator.field_roles import field_roles
from accel.accelerator.instructions import Compute, Copy, Instruction, Layer, Operation, Part
from accel.accelerator.require import require
from accel.isa.explicit import operations
from accel.isa.explicit.operations import sorts_of

_WIDEST = {
    "sram": operations.ADDRESS_BITS,
    "dram": operations.ADDRESS_BITS,
    "row_stride": operations.ADDRESS_BITS,
    "dram_stride": operations.ADDRESS_BITS,
    "sram_stride": operations.STEP_BITS,
}


def check_explicit(accelerator: Accelerator) -> None:
    """Refuse a document that the family cannot execute.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    found = ", ".join(accelerator.parameters)
    require(not accelerator.parameters, "parameters", f"{found}; the family explicit has no parameters")
    _check_memories(accelerator)
    for index, instruction in enumerate(accelerator.instructions):
        path = f"instructions.{index}"
        _check_bits(path, instruction, accelerator)
        if instruction.cycles is not None:
            check_cost(f"{path}.cycles", instruction.cycles, instruction, accelerator, operations.MAX_CYCLES)
        if isinstance(instruction, Copy):
            several = "a copy of the family explicit takes one line of each row; give it columns instead"
            require(instruction.blocks is None, f"{path}.blocks", several)
            largest = "a store of the family explicit takes no windows; an instruction of maxima does"
            require(instruction.windows is None, f"{path}.windows", largest)
            whole = "a store of the family explicit has no function of rows; instructions that reduce do"
            require(instruction.rows is None, f"{path}.rows", whole)
        if isinstance(instruction, Copy) and instruction.bus_cycles is not None:
            check_cost(f"{path}.bus_cycles", instruction.bus_cycles, instruction, accelerator, operations.MAX_CYCLES)
        if isinstance(instruction, Compute):
            _check_compute(path, instruction)
        if isinstance(instruction, Layer):
            _check_layer(path, instruction)
        if instruction.sequence:
            _check_sequence(path, instruction, accelerator)
    _check_parts(accelerator)
    _check_endings(accelerator)
    _check_sorts(accelerator)


def _check_memories(accelerator: Accelerator) -> None:
    total = 0
    for index, memory in enumerate(accelerator.memories):
        size = f"{memory.element_bytes} bytes of an element; at most {operations.MAX_ELEMENT_BYTES}"
        require(memory.element_bytes <= operations.MAX_ELEMENT_BYTES, f"memories.{index}.shape", size)
        require(memory.banks == 1, f"memories.{index}.banks", "the clock of explicit knows no banks; expected 1")
        total += memory.bytes if memory.view_of is None else 0
        together = f"{total} bytes of memories together; at most {operations.MAX_CHIP_BYTES}"
        require(total <= operations.MAX_CHIP_BYTES, f"memories.{index}.depth", together)


def _check_bits(path: str, instruction: Instruction, accelerator: Accelerator) -> None:
    """Fields narrow enough that products of them are exact."""
    for role, name in field_roles(instruction):
        if role.startswith("tokens."):
            continue
        bits, last = accelerator.bits(instruction, name), role.rpartition(".")[2]
        most = operations.COUNT_BITS
        if role.startswith("operands."):
            most = operations.ADDRESS_BITS
            if ".over." in role or last in ("before", "extent"):
                most = operations.COUNT_BITS
            elif last == "pitch":
                most = operations.STEP_BITS
        elif ".factors." in role:
            most = operations.STEP_BITS
        else:
            most = _WIDEST.get(last, most)
        require(bits <= most, f"{path}.{role}", f"{name} has {bits} bits; at most {most}")


def _check_compute(path: str, compute: Compute) -> None:
    by_fields = "the family explicit has no micro-ops; each operand has its address in a field"
    require(compute.microops is None, f"{path}.microops", by_fields)
    for name, operand in compute.operands.items():
        require(operand.address is not None, f"{path}.operands.{name}.address", by_fields)
    loops = f"{len(compute.loops)} hardware loops; at most {operations.LOOPS}"
    require(len(compute.loops) <= operations.LOOPS, f"{path}.loops", loops)
    for index, loop in enumerate(compute.loops):
        for name, step in loop.steps.items():
            far = f"{step}; a step is less than 2^{operations.STEP_BITS} elements, up or down"
            require(abs(step) < 1 << operations.STEP_BITS, f"{path}.loops.{index}.steps.{name}", far)


def _check_layer(path: str, layer: Layer) -> None:
    beyond: list[tuple[str, object]] = [("numbers", layer.numbers), ("follows", layer.follows), ("alone", layer.alone)]
    for name, operand in layer.operands.items():
        beyond.append((f"operands.{name}.shape", operand.shape))
    for index, loop in enumerate(layer.loops):
        beyond.append((f"loops.{index}.follows", loop.follows))
    for at, given in beyond:
        require(not given, f"{path}.{at}", "a layer of the family explicit has all in fields, element by element")
    for index, loop in enumerate(layer.loops):
        for name, step in loop.steps.items():
            far = f"{step}; a step is less than 2^{operations.STEP_BITS} elements"
            require(step < 1 << operations.STEP_BITS, f"{path}.loops.{index}.steps.{name}", far)


def _check_sequence(path: str, instruction: Instruction, accelerator: Accelerator) -> None:
    """The last part is where the whole is executed: it is there each time, and takes the whole's time."""
    parts = accelerator.parts(instruction)
    last, at = parts[-1], f"{path}.sequence.{len(parts) - 1}"
    sticky = f"{last.name} is sticky; the last part is where {instruction.name} is executed, and is never left out"
    require(isinstance(last, Part) and not last.sticky, at, sticky)
    unit = f"{last.name} is of unit {last.unit}, and {instruction.name} of {instruction.unit}; they must be of one"
    require(last.unit == instruction.unit, f"{path}.unit", unit)
    for role in ("cycles", "energy"):
        given = f"{last.name} has {role} of its own; those of {instruction.name}, which it ends, count"
        require(getattr(last, role) is None, at, given)
    tokens = f"{last.name} has tokens of its own; those of {instruction.name}, which it ends, count"
    require(not last.tokens.pop and not last.tokens.push, at, tokens)


def _check_parts(accelerator: Accelerator) -> None:
    used = {name for instruction in accelerator.instructions for name in instruction.sequence}
    for index, part in enumerate(accelerator.instructions):
        idle = f"no sequence names {part.name}, and a part does nothing by itself; name it in one, or leave it out"
        require(not isinstance(part, Part) or part.name in used, f"instructions.{index}", idle)


def _check_endings(accelerator: Accelerator) -> None:
    """Instructions that end with the same part are told apart by what chooses their operations."""
    whole = [(index, i) for index, i in enumerate(accelerator.instructions) if isinstance(i, Copy | Compute | Layer)]
    ending = [(index, i) for index, i in whole if i.sequence]
    for (_, first), (index, second) in combinations(ending, 2):
        if first.sequence[-1] != second.sequence[-1]:
            continue
        for one in first.operations or (_ANY,):
            for other in second.operations or (_ANY,):
                apart = any(other.when.get(name, value) != value for name, value in one.when.items())
                same = (
                    f"{second.name} cannot be told from {first.name}, which ends with {second.sequence[-1]} too: no "
                    f"field has another value in {other.name} and in {one.name}"
                )
                require(apart, f"instructions.{index}.operations", same)


_ANY = Operation(name="copy", does="sram[] = dram[]")


def _check_sorts(accelerator: Accelerator) -> None:
    sorts = sorts_of(accelerator)
    many = f"{len(sorts)} operations of all instructions; at most {operations.MAX_SORTS}"
    require(len(sorts) <= operations.MAX_SORTS, "instructions", many)
    for sort in sorts:
        at = next(i for i, other in enumerate(accelerator.instructions) if other.name == sort.instruction.name)
        work = f"{sort.meaning.operation.name} computes {sort.points} values at once; at most {operations.MAX_POINTS}"
        require(sort.points <= operations.MAX_POINTS, f"instructions.{at}.operations", work)
