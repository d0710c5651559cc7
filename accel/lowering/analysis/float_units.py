"""What a machine's instructions do with numbers of float32, and whether it runs vector programs."""

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy
from accel.accelerator.target import Target
from accel.expression.syntax_tree import Access, Binary

_FLOAT = "float32"


def home_memory(accelerator: Accelerator) -> str | None:
    """Returns the memory through which floats come and go: one that a copy loads and another one stores; else None."""
    copies = [each for each in accelerator.instructions if isinstance(each, Copy)]
    for memory in accelerator.memories:
        ways = {(copy.direction, copy.dram_dtype) for copy in copies if copy.memory == memory.name}
        if memory.dtype == _FLOAT and {("load", _FLOAT), ("store", _FLOAT)} <= ways:
            return memory.name
    return None


def float_room(target: Target) -> int:
    """Returns how many floats are on the chip at once to be computed with; 0 on a machine that has none there."""
    name = home_memory(target.accelerator)
    memory = None if name is None else target.accelerator.memory(name)
    return 0 if memory is None else memory.depth * memory.element_count


def runs_programs(target: Target) -> bool:
    """Returns whether a machine runs vector programs: it computes with floats, or looks numbers up in its memories."""
    lookups = any(meaning.typed.statement.looked_up for meaning in target.semantics)
    return lookups or home_memory(target.accelerator) is not None


def multiplies_floats(target: Target) -> bool:
    """Returns whether an instruction sums products of two float32 tensors on the chip."""
    if home_memory(target.accelerator) is None:
        return False
    for meaning in target.semantics:
        statement, instruction = meaning.typed.statement, meaning.instruction
        value = statement.value
        if not isinstance(instruction, Compute) or statement.combiner != "+" or statement.slides:
            continue
        if not isinstance(value, Binary) or value.operator != "*":
            continue
        if not (isinstance(value.left, Access) and isinstance(value.right, Access)):
            continue
        memories = (operand.memory for operand in instruction.operands.values())
        if all(target.accelerator.memory(memory).dtype == _FLOAT for memory in memories):
            return True
    return False
