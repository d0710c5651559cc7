"""The memory plan as a document: who lies where in each on-chip memory, layer by layer."""

from typing import Literal

import pydantic
from pydantic import Field

Role = Literal["data", "constant", "result", "intermediate", "micro-ops"]


class OnChipMemory(pydantic.BaseModel):
    """A memory of the accelerator."""

    name: str = Field(examples=["inp"])
    elements: int = Field(description="that it holds", examples=[2048])
    element_bytes: int = Field(examples=[16])


class Allocation(pydantic.BaseModel):
    """A buffer of a layer in an on-chip memory, where it stays as long as the layer runs."""

    memory: str = Field(examples=["inp"])
    begin: int = Field(description="first element in the memory")
    end: int = Field(description="the element after the last, of all its copies")
    copies: int = Field(description="parts of equal size, one for each tile that is under way at a time")
    buffer: str = Field(description="as the TIR after `allocate` calls it", examples=["data_local.inp_buffer"])
    role: Role = Field(
        description="`data` and `constant`: copied from DRAM; `result`: copied to it; `intermediate`: neither"
    )
    tensors: list[str] = Field(description="segments of the program that are copied to it or from it")
    first_instruction: int | None = Field(
        description="the first that touches it, in the program; null where none does: a loop left it out"
    )
    last_instruction: int | None = Field(description="the last; null as before")
    begin_cycle: int | None = Field(description="when the first of them starts, on the program's clock")
    end_cycle: int | None = Field(description="when the last of them has ended")


class LayerMemory(pydantic.BaseModel):
    """The buffers of a launch; the next one's lie in the same memories."""

    name: str = Field(description="as in `layers` of the report", examples=["conv1"])
    begin_cycle: int = Field(description="on the program's clock")
    end_cycle: int
    allocations: list[Allocation]


class MemoryPlan(pydantic.BaseModel):
    """Who lies where in the on-chip memories, and when, ``memory.json``.

    An entry is a buffer of a layer, of which there are some: it does not grow with the instructions.
    """

    memories: list[OnChipMemory]
    layers: list[LayerMemory]
