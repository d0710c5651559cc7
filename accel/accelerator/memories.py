"""The memories of a document, on the chip and off it. Sizes are in elements unless the name says bytes."""

import math
from typing import Annotated, Literal

from pydantic import Field

from accel.accelerator.base import Count, DocumentPart, Energy, Name, says_nothing

DType = Literal["int8", "uint8", "int16", "int32", "uint32", "float32"]
ChipType = Literal["int8", "uint8", "int16", "int32", "uint32", "float32", "int48", "int64"]
"""Types of scalars on the chip: those of DRAM, and wider sums, which DRAM has as int32."""
CHIP_ONLY = ("int48", "int64")
"""Types of scalars that DRAM does not have."""
DTYPE_BYTES: dict[ChipType, int] = {
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int48": 6,
    "int64": 8,
}


class Memory(DocumentPart):
    """An on-chip memory, addressed in elements. One element is a small tensor of ``shape`` and ``dtype``."""

    name: Annotated[Name, Field(description="what instructions and reports call it", examples=["scratchpad"])]
    scope: Annotated[
        str,
        Field(
            max_length=64,
            pattern=r"^local\.[A-Za-z0-9_]+$",
            description="TVM storage scope of buffers that live here, and never in host memory",
            examples=["local.scratchpad"],
        ),
    ]
    dtype: Annotated[ChipType, Field(description="type of a scalar", examples=["int8"])]
    shape: Annotated[
        tuple[Count, ...],
        Field(min_length=1, max_length=4, description="scalars of one element, by axis", examples=[[16]]),
    ]
    depth: Annotated[Count, Field(description="elements that it holds", examples=[2048])]
    ports: Annotated[
        Count,
        Field(le=16, description="instructions that may use it at the same time", examples=[1]),
    ] = 2
    banks: Annotated[
        Count,
        Field(
            le=64,
            description="equal parts of its addresses, of which each is read by one operand at a time: those that an "
            "instruction reads together are placed in different ones",
            examples=[4],
            exclude_if=lambda banks: banks == 1,  # documents from before have the same id
        ),
    ] = 1
    view_of: Annotated[
        Name | None,
        Field(
            description="the memory whose bytes these are, seen as elements of another type or shape; without it, it "
            "has bytes of its own",
            examples=["registers"],
            exclude_if=says_nothing,
        ),
    ] = None

    @property
    def dtype_in_dram(self) -> DType:
        """The type of its scalars in DRAM, where nothing else is said: its own, or int32 of wider sums."""
        match self.dtype:
            case "int48" | "int64":
                return "int32"
            case dtype:
                return dtype

    @property
    def element_count(self) -> int:
        """Scalars in one element."""
        return math.prod(self.shape)

    @property
    def element_bytes(self) -> int:
        """Bytes of one element on chip."""
        return self.element_count * DTYPE_BYTES[self.dtype]

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return self.depth * self.element_bytes

    @property
    def holder(self) -> str:
        """The name of the memory that has the bytes: its own, but of a view."""
        return self.view_of or self.name


class Dram(DocumentPart):
    """The memory bus and the bursts that go over it."""

    bus_bytes: Annotated[Count, Field(description="bytes a beat, one beat a cycle", examples=[16])] = 8
    read_latency: Annotated[
        int,
        Field(strict=True, ge=0, le=100_000, description="cycles from a read request to its first beat", examples=[40]),
    ] = 16
    burst_beats: Annotated[Count, Field(le=256, description="beats of the longest burst", examples=[64])] = 256
    burst_boundary_bytes: Annotated[
        Count, Field(le=1 << 16, description="a burst does not cross these bytes", examples=[4096])
    ] = 2048
    alignment_bytes: Annotated[
        Count,
        Field(le=1 << 20, description="bytes that a tensor's address is a multiple of", examples=[64]),
    ] = 4096
    shared_by: Annotated[
        tuple[Name, ...],
        Field(
            max_length=16,
            description="units whose copies take turns on the bus, where the family's clock asks; by default each copy "
            "has it for itself",
            examples=[["load", "store"]],
            exclude_if=says_nothing,
        ),
    ] = ()
    read_energy: Annotated[
        Energy | None,
        Field(
            description="picojoules of a byte that is read",
            examples=[160.0],
            exclude_if=says_nothing,
        ),
    ] = None
    write_energy: Annotated[
        Energy | None,
        Field(
            description="picojoules of a byte that is written",
            examples=[160.0],
            exclude_if=says_nothing,
        ),
    ] = None
