"""Changes of a Gemmini that ask for another program: larger memories, and a larger mesh."""

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import pydantic

from accel.accelerator.base import DocumentPart
from accel.accelerator.document import Accelerator
from accel.errors import InvalidAccelerator
from accel.isa.document_changes import larger_memories, same_shape, titled, with_shape_of
from accel.isa.family import DocumentChange
from accel.isa.gemmini.document.gemmini_document import gemmini_accelerator, parameters_of
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters

_SIZES = ("scratchpad_bytes", "accumulator_bytes")  # of its memories, in their order


def changes_of_gemmini(accelerator: Accelerator) -> Iterator[DocumentChange]:
    """Yields each memory twice as large, both, and a mesh of twice as many rows and columns.

    A mesh changes all that the document says; so it is one only of a document that follows from its parameters.
    """
    yield from larger_memories(accelerator, _deepened)
    parameters = parameters_of(accelerator)
    if same_shape(accelerator, gemmini_accelerator(parameters)):
        dim = 2 * parameters.dim
        change = f"a mesh of {dim} x {dim}"
        yield DocumentChange("mesh", "the mesh", change, partial(_with_mesh, accelerator, dim, change))


def configuration_of_gemmini(accelerator: Accelerator) -> GemminiParameters:
    """Returns the parameters from which the document follows, but for instructions that it leaves out.

    Raises:
        InvalidAccelerator: the document has another shape than its parameters say.
    """
    parameters = parameters_of(accelerator)
    if not same_shape(accelerator, _with_instructions_of(accelerator, gemmini_accelerator(parameters))):
        message = f"{accelerator.name} does not follow from its parameters: its instructions were changed"
        raise InvalidAccelerator(message, field="accelerator")
    return parameters


def derived_gemmini(accelerator: Accelerator, configuration: DocumentPart) -> Accelerator:
    """Returns the document of other parameters; ports, and what was changed of its costs and DRAM, are kept."""
    parameters = GemminiParameters.model_validate(configuration.model_dump())
    base, made = gemmini_accelerator(parameters_of(accelerator)), gemmini_accelerator(parameters)
    made = _with_instructions_of(accelerator, made)
    own = {key: value for key, value in accelerator.dram.model_dump().items() if value != getattr(base.dram, key)}
    return with_shape_of(accelerator, made, base).model_copy(
        update={
            "title": made.title if accelerator.title == base.title else accelerator.title,
            "parameters": made.parameters,
            "synchronisation": made.synchronisation,
            "dram": made.dram.model_copy(update=own),
        }
    )


def _with_instructions_of(accelerator: Accelerator, made: Accelerator) -> Accelerator:
    """The document ``made`` without instructions that ``accelerator`` leaves out of those that its parameters have."""
    own = {each.name for each in gemmini_accelerator(parameters_of(accelerator)).instructions}
    left_out = own - {each.name for each in accelerator.instructions}
    kept = tuple(each for each in made.instructions if each.name not in left_out)
    return made.model_copy(update={"instructions": kept})


def _changed(accelerator: Accelerator, **values: Any) -> tuple[Accelerator, GemminiParameters]:
    """The document with other parameters, and all parameters.

    Raises:
        InvalidAccelerator: no Gemmini has them.
    """
    said = {**accelerator.parameters, **values}
    try:
        return accelerator.model_copy(update={"parameters": said}), GemminiParameters.model_validate(said)
    except pydantic.ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_context=False, include_input=False)
        path = ".".join(["parameters", *map(str, first["loc"])])
        raise InvalidAccelerator(f"{path}: {first['msg']}", field=f"accelerator.{path}") from error


def _deepened(accelerator: Accelerator, names: Collection[str]) -> Accelerator:
    known = parameters_of(accelerator)
    memories = zip(_SIZES, accelerator.memories, strict=True)
    values = {key: 2 * getattr(known, key) for key, memory in memories if memory.name in names}
    changed, parameters = _changed(accelerator, **values)
    rows = (parameters.scratchpad_rows, parameters.accumulator_rows)
    deeper = zip(accelerator.memories, rows, strict=True)
    return changed.model_copy(
        update={"memories": tuple(memory.model_copy(update={"depth": depth}) for memory, depth in deeper)}
    )


def _with_mesh(accelerator: Accelerator, dim: int, change: str) -> Accelerator:
    changed, parameters = _changed(accelerator, dim=dim)
    base = gemmini_accelerator(parameters_of(accelerator))
    return titled(with_shape_of(changed, gemmini_accelerator(parameters), base), change)
