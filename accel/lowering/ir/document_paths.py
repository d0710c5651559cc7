"""Paths in the accelerator document: the ``field`` of errors that a part of the accelerator causes."""

from accel.accelerator.document import Accelerator

INSTRUCTIONS = "accelerator.instructions"


def memory_path(accelerator: Accelerator, name: str, key: str) -> str:
    """A property of a memory, such as ``accelerator.memories.2.depth``."""
    names = [memory.name for memory in accelerator.memories]
    return f"accelerator.memories.{names.index(name)}.{key}"


def instruction_path(accelerator: Accelerator, name: str) -> str:
    """An instruction, such as ``accelerator.instructions.3``."""
    names = [instruction.name for instruction in accelerator.instructions]
    return f"{INSTRUCTIONS}.{names.index(name)}"


def field_path(accelerator: Accelerator, instruction: str, field: str) -> str:
    """The width of a field, such as ``accelerator.instructions.3.fields.1.bits``."""
    fields = [known.name for known in accelerator.instruction(instruction).fields]
    return f"{instruction_path(accelerator, instruction)}.fields.{fields.index(field)}.bits"
