"""Gemminis that take loops wherever they can, or never: documents whose loops cost nothing, or that have none."""

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import parse_accelerator
from accel.isa.gemmini.document.gemmini_document import gemmini_accelerator
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters

SHAPES = {
    "16": GemminiParameters(),
    "8": GemminiParameters(
        dim=8, scratchpad_bytes=65536, accumulator_bytes=32768, accumulator_banks=1, dma_bus_bytes=8
    ),
    "small": GemminiParameters(scratchpad_bytes=32 * 1024, accumulator_bytes=8 * 1024),
}


def with_free_loops(parameters: GemminiParameters) -> Accelerator:
    """A Gemmini whose loops are the cheapest that there is."""
    document = gemmini_accelerator(parameters).model_dump(mode="json", exclude_none=True)
    for instruction in document["instructions"]:
        if instruction["kind"] == "layer":
            instruction |= {"cycles": "1", "alone": "0"}
    return parse_accelerator(document)


def without_loops(accelerator: Accelerator) -> Accelerator:
    """The document without its instructions as large as a layer."""
    kept = tuple(each for each in accelerator.instructions if each not in accelerator.layers)
    return accelerator.model_copy(update={"instructions": kept})
