"""Whether a document describes a Gemmini: its words, memories and units follow from its parameters."""

import json
from typing import Any

import pydantic

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Instruction, Part
from accel.accelerator.require import require
from accel.errors import InvalidAccelerator
from accel.isa.gemmini.config import gemmini_accelerator
from accel.isa.gemmini.encoding import LATER
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
    _check_memories(accelerator, like)
    known = {part.name: part for part in like.instructions if isinstance(part, Part)}
    for index, instruction in enumerate(accelerator.instructions):
        if instruction.sequence:
            continue
        at = f"instructions.{index}"
        same = known.get(instruction.name)
        require(same is not None, at, f"Gemmini has no instruction {instruction.name}")
        assert same is not None
        _check_word(at, instruction, same)
    missing = sorted(set(known) - set(LATER) - {instruction.name for instruction in accelerator.instructions})
    require(not missing, "instructions", f"there is no {', '.join(missing)}")


def _check_memories(accelerator: Accelerator, like: Accelerator) -> None:
    two = "a Gemmini has a scratchpad and an accumulator"
    for index, memory in enumerate(accelerator.memories):
        require(index < len(like.memories), f"memories.{index}", f"{memory.name} is one too many; {two}")
        for key in ("dtype", "shape", "depth"):
            found, wanted = _json(getattr(memory, key)), _json(getattr(like.memories[index], key))
            message = f"{memory.name} has {found}; with these parameters it must be {wanted}"
            require(found == wanted, f"memories.{index}.{key}", message)
    require(len(accelerator.memories) == len(like.memories), "memories", two)


def _json(value: Any) -> str:
    return json.dumps(value, default=lambda model: model.model_dump(exclude_defaults=True))


def _check_word(path: str, found: Instruction, wanted: Part) -> None:
    """Whether a word is encoded as Gemmini's: its kind, its unit, and each field."""
    for key in ("kind", "unit", "sticky"):
        here, there = getattr(found, key, False), getattr(wanted, key)
        require(here == there, f"{path}.{key}", f"{_json(here)}; of Gemmini's {wanted.name} it is {_json(there)}")
    for index, (here, there) in enumerate(zip(found.fields, wanted.fields, strict=False)):
        require(here == there, f"{path}.fields.{index}", f"{_json(here)}; Gemmini's {wanted.name} has {_json(there)}")
    count, due = len(found.fields), len(wanted.fields)
    require(count == due, f"{path}.fields", f"{count} fields; Gemmini's {wanted.name} has {due}")
