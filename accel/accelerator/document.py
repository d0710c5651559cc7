"""The accelerator document: what a target is, as data.

Nothing here computes; the passes, the encoder and the simulator read these fields. Sizes are in
elements unless the name says bytes; times are in cycles.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from accel.accelerator.base import Count, Label, Model, Name, Position
from accel.accelerator.times import Dram, TimingParameters

DType = Literal["int8", "uint8", "int16", "int32", "uint32"]
DTYPE_BYTES: dict[DType, int] = {"int8": 1, "uint8": 1, "int16": 2, "int32": 4, "uint32": 4}


class Memory(Model):
    """An on-chip memory, addressed in elements.

    One element is a small tensor of ``shape`` and ``dtype``; ``depth`` counts elements.
    """

    name: Name
    scope: Annotated[
        str,
        Field(
            max_length=64, pattern=r"^local\.[A-Za-z0-9_]+$", description="TVM storage scope of buffers that live here"
        ),
    ]
    dtype: DType
    shape: Annotated[tuple[Count, ...], Field(min_length=1, max_length=4)]
    depth: Count
    id: Annotated[Position, Field(description="value of the memory field in copy instructions")]

    @property
    def element_count(self) -> int:
        """Scalars in one element."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def element_bytes(self) -> int:
        """Bytes of one element on chip."""
        return self.element_count * DTYPE_BYTES[self.dtype]


class BitField(Model):
    """Bits ``[lsb, lsb + bits)`` of an instruction or micro-op; it never crosses a 64-bit word."""

    name: Name
    lsb: Position
    bits: Annotated[int, Field(strict=True, ge=0, le=63, description="0 where there is nothing to choose")]
    signed: Annotated[bool, Field(strict=True)] = False
    value: Annotated[
        int | None, Field(strict=True, ge=0, lt=1 << 63, description="set where the field is constant")
    ] = None


class Operand(Model):
    """One operand of a contraction or a map: a memory and the axes of its element."""

    name: Name
    memory: Name
    axes: tuple[Name, ...]


class HardwareLoop(Model):
    """One hardware loop: the extent's field and, per operand, the field of its address step."""

    extent: Name
    factors: dict[Name, Name]


class MicroOps(Model):
    """A table of operand addresses that an instruction walks inside its hardware loops."""

    memory: Name
    begin: Name
    end: Name
    fields: Annotated[tuple[BitField, ...], Field(max_length=16)]
    operands: Annotated[dict[Name, Name], Field(description="micro-op field -> operand")]


class Tokens(Model):
    """The fields by which an instruction waits for, and signals, the neighbouring units.

    ``pop``/``push`` map the other unit's name to the field.
    """

    pop: dict[Name, Name]
    push: dict[Name, Name]


class Instruction(Model):
    """Common to all instructions: name, unit, encoding and dependence-token fields."""

    name: Name
    unit: Name
    fields: Annotated[tuple[BitField, ...], Field(max_length=64)]
    tokens: Tokens

    def bits(self, field: str) -> int:
        """Width of a field, bits; KeyError if the instruction has none of that name."""
        for candidate in self.fields:
            if candidate.name == field:
                return candidate.bits
        raise KeyError(field)


class CopyFields(Model):
    """The names of a two-dimensional copy's fields; None where it has no such field."""

    sram: Name
    dram: Name
    rows: Name
    columns: Name
    row_stride: Name
    pad_top: Name | None = None
    pad_bottom: Name | None = None
    pad_left: Name | None = None
    pad_right: Name | None = None


class Copy(Instruction):
    """A strided two-dimensional copy between DRAM and a memory.

    ``dram_dtype`` is the element type in DRAM; a store to a narrower type keeps the low bits, a load from a
    narrower one extends the sign.
    """

    kind: Literal["copy"] = "copy"
    pragma: Name
    direction: Literal["load", "store"]
    memory: Name
    dram_dtype: DType
    copy_fields: CopyFields

    def dram_bytes(self, memory: Memory) -> int:
        """Bytes of one element of its memory as it lies in DRAM."""
        return memory.element_count * DTYPE_BYTES[self.dram_dtype]


class Contract(Instruction):
    """``dst[axes] += data[axes] * weights[axes]``, summed over the axes that dst lacks, wrapping.

    With the ``reset`` field set it writes zero to dst instead.
    """

    kind: Literal["contract"] = "contract"
    pragma: Name
    dst: Operand
    data: Operand
    weights: Operand
    reset: Name
    loops: tuple[HardwareLoop, ...]
    microops: MicroOps


class MapOp(Model):
    """One operation of a map instruction, by its TIR name."""

    name: Literal["min", "max", "add", "shift_right", "multiply"]
    code: Position


class Map(Instruction):
    """``dst = op(dst, src)`` or ``dst = op(dst, imm)``, element by element.

    Where ``immediate_with`` is ``src``, it is ``dst = op(src, imm)``.
    """

    kind: Literal["map"] = "map"
    pragma: Name
    dst: Operand
    src: Operand
    ops: tuple[MapOp, ...]
    opcode: Name
    use_immediate: Name
    immediate: Name
    immediate_with: Annotated[
        Literal["dst", "src"], Field(description="the operand that an operation with an immediate reads")
    ] = "dst"
    loops: tuple[HardwareLoop, ...]
    microops: MicroOps


class Sync(Instruction):
    """Does nothing but wait for its tokens and send them."""

    kind: Literal["sync"] = "sync"


class Finish(Instruction):
    """Ends a launch."""

    kind: Literal["finish"] = "finish"


AnyInstruction = Annotated[Copy | Contract | Map | Sync | Finish, Field(discriminator="kind")]


class Accelerator(Model):
    """A whole accelerator, as one document.

    That its parts agree is for :mod:`accel.accelerator.check`; what a family can execute is for its own check.
    """

    schema_version: Literal[1] = 1
    name: Label
    title: Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
    family: Literal["vta"]
    word_bits: Annotated[int, Field(strict=True, ge=64, le=1024, multiple_of=64)]
    memories: Annotated[tuple[Memory, ...], Field(max_length=32)]
    units: Annotated[tuple[Name, ...], Field(max_length=16)]
    instructions: Annotated[tuple[AnyInstruction, ...], Field(max_length=64)]
    dram: Dram
    timing: TimingParameters
    carry_tokens: Annotated[
        bool, Field(strict=True, description="tokens left over from a launch are there in the next")
    ] = True
    source: dict[str, Any] = Field(default_factory=dict, description="the configuration it was derived from")

    def memory(self, name: str) -> Memory:
        """The memory called ``name``; KeyError if there is none."""
        for memory in self.memories:
            if memory.name == name:
                return memory
        raise KeyError(name)

    def memory_of_scope(self, scope: str) -> Memory | None:
        """The memory whose TVM storage scope is ``scope``, or None for host and DRAM buffers."""
        return next((memory for memory in self.memories if memory.scope == scope), None)

    def instruction(self, name: str) -> Copy | Contract | Map | Sync | Finish:
        """The instruction called ``name``; KeyError if there is none."""
        for instruction in self.instructions:
            if instruction.name == name:
                return instruction
        raise KeyError(name)

    @property
    def pragmas(self) -> set[str]:
        """The pragmas that instructions answer to."""
        return {i.pragma for i in self.instructions if isinstance(i, Copy | Contract | Map)}

    @property
    def contraction(self) -> Contract:
        """The matrix instruction."""
        return next(i for i in self.instructions if isinstance(i, Contract))

    def extents(self, *operands: Operand) -> dict[str, int]:
        """Extent of every axis that one element of each operand's memory has."""
        return {
            axis: extent
            for operand in operands
            for axis, extent in zip(operand.axes, self.memory(operand.memory).shape, strict=True)
        }

    @property
    def tile(self) -> tuple[int, int, int]:
        """Extents of the contraction's element: batch, output channels, input channels."""
        gemm = self.contraction
        batch, out_channels = self.memory(gemm.dst.memory).shape
        return batch, out_channels, self.memory(gemm.data.memory).shape[1]

    @property
    def map(self) -> Map:
        """The elementwise instruction."""
        return next(i for i in self.instructions if isinstance(i, Map))

    @property
    def finish(self) -> Finish:
        """The instruction that ends a launch."""
        return next(i for i in self.instructions if isinstance(i, Finish))

    def copy_instruction(self, memory: str, direction: Literal["load", "store"]) -> Copy | None:
        """The copy that moves ``memory`` in that direction, or None.

        Where there are several loads, the one whose elements in DRAM are those of the memory.
        """
        found = [
            instruction
            for instruction in self.instructions
            if isinstance(instruction, Copy) and (instruction.memory, instruction.direction) == (memory, direction)
        ]
        dtype = self.memory(memory).dtype if found else None
        return next((copy for copy in found if copy.dram_dtype == dtype), found[0] if found else None)
