"""Whether a document describes a Gemmini: its words, memories and units follow from its parameters."""

import pydantic

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Part
from accel.accelerator.require import require
from accel.errors import InvalidAccelerator
from accel.isa.gemmini.config import gemmini_accelerator
from accel.isa.gemmini.parameters import GemminiParameters


def parameters_of(accelerator: Accelerator) -> GemminiParameters:
    """The parameters of a document.

    Raises:
        InvalidAccelerator: there is no such configuration; ``field`` is the path in the document.
    """
    try:
        return GemminiParameters.model_validate(accelerator.parameters)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = ".".join(["parameters", *(str(part) for part in first["loc"])])
        raise InvalidAccelerator(f"{path}: {first['msg']}", field=f"accelerator.{path}") from error


def check_gemmini(accelerator: Accelerator) -> None:
    """Refuse a document whose stream a Gemmini of its parameters would not understand.

    Names of composed instructions, costs and composites are the document's own; what a word means is Gemmini's.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    like = gemmini_accelerator(parameters_of(accelerator))
    require(accelerator.word_bits == like.word_bits, "word_bits", f"{accelerator.word_bits}; it must be 192")
    require(accelerator.units == like.units, "units", f"they must be {', '.join(like.units)}, in that order")
    kind = accelerator.synchronisation.kind
    require(kind == "hazards", "synchronisation.kind", f"{kind}; a Gemmini's reservation station orders hazards")
    wanted = [(memory.dtype, memory.shape, memory.depth) for memory in like.memories]
    for index, memory in enumerate(accelerator.memories):
        found = (memory.dtype, memory.shape, memory.depth)
        fits = index < len(wanted) and found == wanted[index]
        say = f"it must be {wanted[index]}" if index < len(wanted) else "a Gemmini has two memories"
        require(fits, f"memories.{index}", f"{memory.name} is {found}; with these parameters {say}")
    require(len(accelerator.memories) == len(wanted), "memories", "a Gemmini has a scratchpad and an accumulator")
    known = {part.name: part for part in like.instructions if isinstance(part, Part)}
    for index, instruction in enumerate(accelerator.instructions):
        if instruction.sequence:
            continue
        at = f"instructions.{index}"
        same = known.get(instruction.name)
        require(same is not None, at, f"Gemmini has no instruction {instruction.name}")
        alike = isinstance(instruction, Part) and same is not None and _words(instruction) == _words(same)
        require(alike, at, f"{instruction.name} is not encoded as Gemmini's is")
    missing = sorted(set(known) - {instruction.name for instruction in accelerator.instructions})
    require(not missing, "instructions", f"there is no {', '.join(missing)}")


def _words(part: Part) -> tuple[object, ...]:
    return part.unit, part.sticky, part.fields
