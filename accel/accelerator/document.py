"""The accelerator document: what a target is, as data, and how its units wait for each other."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from accel.accelerator.base import Count, DocumentPart, Label, Name, says_nothing
from accel.accelerator.calibration import CalibrationRecord
from accel.accelerator.host_costs import AnyHost
from accel.accelerator.instructions import AnyInstruction, BitField, Compute, Copy, Finish, Instruction, Layer
from accel.accelerator.memories import Dram, Memory
from accel.accelerator.tables import AnyTable
from accel.util.arrays import Int64

_Count = TypeVar("_Count", int, Int64)


class TokenSync(DocumentPart):
    """Units run apart, and wait only for the tokens that instructions pop from and push to queues between units."""

    kind: Annotated[Literal["tokens"], Field(description="units run apart and wait for tokens")] = "tokens"
    limit: Annotated[
        Count, Field(le=1 << 20, description="where the counter of a token queue stops, tokens", examples=[255])
    ] = 255
    carry: Annotated[
        bool, Field(strict=True, description="tokens left over from a launch are there in the next", examples=[True])
    ] = True


class HazardSync(DocumentPart):
    """An instruction waits for those before it in the program that touch the same addresses, if one of them writes.

    Units run apart: one that waits does not hold up the others.
    """

    kind: Annotated[
        Literal["hazards"],
        Field(description="units run apart, and an instruction waits for earlier ones that touch its addresses"),
    ] = "hazards"
    window: Annotated[
        Count, Field(le=4096, description="instructions that wait or run at one time, of all units", examples=[16])
    ] = 16


class InOrderSync(DocumentPart):
    """Instructions start in the order of the program, one a cycle at most.

    One whose unit is busy, or whose addresses an unfinished one touches, waits, and all behind it wait too.
    """

    kind: Annotated[Literal["in_order"], Field(description="instructions start in the order of the program")] = (
        "in_order"
    )


Synchronisation = Annotated[TokenSync | HazardSync | InOrderSync, Field(discriminator="kind")]


Operator = Literal["conv2d", "dense", "add", "bias", "requantize", "clip"]


class Composite(DocumentPart):
    """Operators of the graph that go to the accelerator together, in one launch."""

    name: Annotated[Name, Field(description="its name in the report", examples=["conv_requantize"])]
    operators: Annotated[
        tuple[Operator, ...],
        Field(
            min_length=1,
            max_length=8,
            description="the first is conv2d, dense or add, and the others follow it",
            examples=[["conv2d", "bias", "requantize", "clip"]],
        ),
    ]


class Accelerator(DocumentPart):
    """A whole accelerator, as one document.

    Whether its parts agree is checked when it is loaded, and whether it can be executed by its family's own check.
    """

    schema_version: Annotated[Literal[2], Field(description="of this schema", examples=[2])] = 2
    name: Annotated[Label, Field(description="what jobs and files call it", examples=["my-accelerator"])]
    title: Annotated[
        str,
        Field(
            max_length=200,
            pattern=r"^[^\x00-\x1f\x7f]+$",
            description="its name in texts",
            examples=["My accelerator, 16x16"],
        ),
    ]
    family: Annotated[Name, Field(description="the family of instruction sets that executes it", examples=["explicit"])]
    clock_mhz: Annotated[
        float, Field(strict=True, gt=0, le=100_000, allow_inf_nan=False, description="the clock, MHz", examples=[500.0])
    ] = 100.0
    word_bits: Annotated[
        int,
        Field(strict=True, ge=64, le=1024, multiple_of=64, description="width of an instruction, bits", examples=[128]),
    ]
    memories: Annotated[tuple[Memory, ...], Field(max_length=32, description="its on-chip memories")]
    units: Annotated[
        tuple[Name, ...],
        Field(max_length=16, description="what executes instructions, each unit one at a time", examples=[["load"]]),
    ]
    synchronisation: Annotated[Synchronisation, Field(description="how units wait for each other")]
    instructions: Annotated[tuple[AnyInstruction, ...], Field(max_length=64, description="its instruction set")]
    tables: Annotated[
        tuple[AnyTable, ...],
        Field(
            max_length=16,
            description="what expressions look numbers up in",
            exclude_if=says_nothing,
        ),
    ] = ()
    composites: Annotated[
        tuple[Composite, ...],
        Field(max_length=16, description="what it takes from the graph at once; by default all that it can"),
    ] = ()
    dram: Annotated[Dram, Field(description="the memory outside")] = Dram()
    host: Annotated[
        AnyHost,
        Field(
            description="the processor beside it, which end-to-end times count; `none`: it costs nothing",
            exclude_if=says_nothing,
        ),
    ] = None
    parameters: Annotated[
        dict[str, Any],
        Field(
            description="what its family asks for beside; see the family's own schema",
            examples=[{"queue_depths": {"load": 512}}],
        ),
    ] = Field(default_factory=dict)
    source: Annotated[
        dict[str, Any],
        Field(
            description="the configuration that it was derived from",
            examples=[{"vta_config": {"LOG_BLOCK": 4}}],
        ),
    ] = Field(default_factory=dict)
    calibration: Annotated[
        CalibrationRecord | None,
        Field(
            description="how near its cycles came to recordings of hardware, as `cyclops calibrate` writes it",
            exclude_if=says_nothing,
        ),
    ] = None

    def untimed(self) -> "Accelerator":
        """Returns the document as far as instruction words follow from it: documents that differ in time alone are one.

        It has no name, costs, clock, ports, host or ``parameters``, and of the DRAM the alignment alone. It is for
        keys, not for running: a family may need what it lacks.
        """
        return self.model_copy(
            update={
                "name": "",
                "title": "",
                "clock_mhz": 0.0,
                "memories": tuple(memory.model_copy(update={"ports": 0}) for memory in self.memories),
                "instructions": tuple(
                    instruction.model_copy(
                        update={"cycles": None, "energy": None}
                        | ({"bus_cycles": None} if isinstance(instruction, Copy) else {})
                        | ({"alone": None} if isinstance(instruction, Layer) else {})
                    )
                    for instruction in self.instructions
                ),
                "dram": Dram(alignment_bytes=self.dram.alignment_bytes),
                "host": None,
                "parameters": {},
                "source": {},
                "calibration": None,
            }
        )

    def unsized(self) -> "Accelerator":
        """Returns the :meth:`untimed` document without the depths of its memories, each of which is 1.

        What lowering makes of a region follows from it, for every document where the region's buffers lie alike.
        """
        memories = tuple(memory.model_copy(update={"ports": 0, "depth": 1}) for memory in self.memories)
        return self.untimed().model_copy(update={"memories": memories})

    @property
    def shares_bus(self) -> bool:
        """Whether the copies of several units take turns on the DRAM bus."""
        return bool(self.dram.shared_by)

    def memory(self, name: str) -> Memory:
        """Returns the memory called ``name``.

        Raises:
            KeyError: there is none.
        """
        for memory in self.memories:
            if memory.name == name:
                return memory
        raise KeyError(name)

    def fits(self, used: Mapping[str, int]) -> bool:
        """Returns whether so many elements of memories, by their names, fit beside each other."""
        return all(needed <= there for needed, there in self.rooms(used))

    def rooms(self, used: Mapping[str, _Count]) -> Iterator[tuple[_Count, int]]:
        """Yields what is needed and what there is of each memory that has bytes of its own, in the same unit.

        ``used`` are elements by the name of the memory or the view. Those of one memory need as many bytes as all of
        them together: elements of one size are whole multiples of a smaller one's.

        Raises:
            KeyError: a name that no memory has.
        """
        held: dict[str, list[tuple[Memory, _Count]]] = {}
        for name, elements in used.items():
            memory = self.memory(name)
            held.setdefault(memory.holder, []).append((memory, elements))
        for each in held.values():
            (memory, elements), *others = each
            if not others:
                yield elements, memory.depth
                continue
            size = math.gcd(*(memory.element_bytes for memory, _ in each))
            needed = elements * (memory.element_bytes // size)
            for other, more in others:
                needed = needed + more * (other.element_bytes // size)
            yield needed, memory.bytes // size

    def memory_of_scope(self, scope: str) -> Memory | None:
        """Returns the memory whose TVM storage scope is ``scope``; None for a scope of host and DRAM buffers."""
        return next((memory for memory in self.memories if memory.scope == scope), None)

    def instruction(self, name: str) -> AnyInstruction:
        """Returns the instruction called ``name``.

        Raises:
            KeyError: there is none.
        """
        for instruction in self.instructions:
            if instruction.name == name:
                return instruction
        raise KeyError(name)

    def parts(self, instruction: Instruction) -> "tuple[Instruction, ...]":
        """Returns the instructions that encode ``instruction``: the parts of its sequence, or itself."""
        return tuple(self.instruction(name) for name in instruction.sequence) or (instruction,)

    def field(self, instruction: Instruction, name: str) -> BitField:
        """Returns the field called ``name``, which is part.field in a sequence, or a number of its own.

        Raises:
            KeyError: there is none.
        """
        if isinstance(instruction, Layer) and name in instruction.numbers:
            return instruction.number(name)
        part, _, plain = name.rpartition(".")
        owner = self.instruction(part) if part in instruction.sequence else instruction
        for field in owner.fields:
            if field.name == plain and bool(part) == bool(instruction.sequence):
                return field
        raise KeyError(name)

    def bits(self, instruction: Instruction, name: str) -> int:
        """Returns width of a field, bits.

        Raises:
            KeyError: there is none.
        """
        return self.field(instruction, name).bits

    @property
    def pragmas(self) -> set[str]:
        """The pragmas of the copies, computes and layers."""
        return {i.pragma for i in self.instructions if isinstance(i, Copy | Compute | Layer)}

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The instructions as large as a layer."""
        return tuple(i for i in self.instructions if isinstance(i, Layer))

    @property
    def finish(self) -> Finish | None:
        """The instruction that ends a launch; None if the document has none."""
        return next((i for i in self.instructions if isinstance(i, Finish)), None)

    def copy_instruction(self, memory: str, direction: Literal["load", "store"]) -> Copy | None:
        """Returns the copy of ``memory`` in ``direction``; None if there is none.

        Of several, it is the first whose type in DRAM is that of the memory there, else the first.
        """
        found = [
            instruction
            for instruction in self.instructions
            if isinstance(instruction, Copy) and (instruction.memory, instruction.direction) == (memory, direction)
        ]
        dtype = self.memory(memory).dtype_in_dram if found else None
        return next((copy for copy in found if copy.dram_dtype == dtype), found[0] if found else None)
