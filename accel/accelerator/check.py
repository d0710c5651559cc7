"""What the parts of a document must agree on, whatever the family: names, references, bits, expressions."""

from accel.accelerator.check_fields import check_encodings
from accel.accelerator.check_instructions import check_instruction
from accel.accelerator.check_meanings import check_meanings
from accel.accelerator.check_names import check_names
from accel.accelerator.check_roles import check_roles
from accel.accelerator.document import Accelerator, Composite
from accel.accelerator.require import require, require_distinct

_FIRST = ("conv2d", "dense", "add")
_OTHERS = "bias, requantize and clip are"


def check_document(accelerator: Accelerator) -> None:
    """Refuse a document that contradicts itself: the encoding can be decoded again, and every name names something.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    require_distinct([memory.name for memory in accelerator.memories], "memories")
    require_distinct([memory.scope for memory in accelerator.memories], "memories")
    require_distinct(accelerator.units, "units")
    require_distinct([instruction.name for instruction in accelerator.instructions], "instructions")
    require_distinct([composite.name for composite in accelerator.composites], "composites")
    check_encodings(accelerator)
    check_names(accelerator)
    for index, instruction in enumerate(accelerator.instructions):
        path = f"instructions.{index}"
        check_roles(path, instruction, accelerator)
        check_instruction(path, instruction, accelerator)
        check_meanings(path, instruction, accelerator)
    for index, composite in enumerate(accelerator.composites):
        _check_composite(f"composites.{index}.operators", composite)


def _check_composite(path: str, composite: Composite) -> None:
    first, *others = composite.operators
    require(first in _FIRST, f"{path}.0", f"{first}; the first is {', '.join(_FIRST[:-1])} or {_FIRST[-1]}")
    for index, name in enumerate(others, 1):
        require(name not in _FIRST, f"{path}.{index}", f"{name} is no operator that follows another; {_OTHERS}")
