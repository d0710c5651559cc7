"""The instructions of a document: semantics, pragma, encoding, unit and costs of each."""

from typing import Annotated, Literal

from pydantic import Field

from accel.accelerator.base import Count, DocumentPart, Expression, FieldName, Name, Position, says_nothing
from accel.accelerator.memories import DTYPE_BYTES, DType, Memory
from accel.accelerator.row_functions import RowFunction

Pragma = Annotated[
    str,
    Field(
        max_length=64,
        pattern=r"^pragma_[A-Za-z0-9_]+$",
        description="the pragma under which the schedule leaves nests for it",
        examples=["pragma_gemm"],
    ),
]
Cost = Annotated[
    str,
    Field(
        max_length=1200,
        description="arithmetic over its fields and, in a copy, bytes and elements; over bus_bytes and read_latency",
        examples=["4 + ceil(bytes / bus_bytes)"],
    ),
]


class BitField(DocumentPart):
    """Bits ``[lsb, lsb + bits)`` of an instruction or micro-op; it never crosses a 64-bit word."""

    name: Annotated[Name, Field(description="what the rest of the document and the trace call it", examples=["rows"])]
    lsb: Annotated[Position, Field(description="its lowest bit", examples=[16])]
    bits: Annotated[
        int,
        Field(
            strict=True, ge=0, le=64, description="its width, bits; 0 where there is nothing to choose", examples=[8]
        ),
    ]
    type: Annotated[
        Literal["unsigned", "signed", "float32"],
        Field(description="how its bits are read; float32 has 32 of them", examples=["unsigned"]),
    ] = "unsigned"
    value: Annotated[
        int | None,
        Field(strict=True, ge=0, lt=1 << 63, description="its bits, where they are constant", examples=[2]),
    ] = None

    @property
    def limits(self) -> tuple[int, int]:
        """The integers that it holds, as a half-open range: the lowest, and the highest plus one."""
        if self.type == "signed" and self.bits:
            return -(1 << self.bits - 1), 1 << self.bits - 1
        return 0, 1 << self.bits


class Tokens(DocumentPart):
    """The fields by which an instruction waits for, and signals, other units: unit -> field of one bit."""

    pop: Annotated[
        dict[Name, FieldName],
        Field(description="wait for a token of that unit", examples=[{"load": "pop_load"}]),
    ] = Field(default_factory=dict)
    push: Annotated[
        dict[Name, FieldName],
        Field(description="send a token to that unit", examples=[{"store": "push_store"}]),
    ] = Field(default_factory=dict)


class Instruction(DocumentPart):
    """Common to all instructions.

    One with a ``sequence`` is encoded as those parts, one after the other, and its fields are called part.field.
    """

    name: Annotated[Name, Field(description="its name in TIR, trace and reports", examples=["mvin"])]
    unit: Annotated[Name, Field(description="the unit that executes it", examples=["load"])]
    fields: Annotated[
        tuple[BitField, ...], Field(max_length=64, description="its encoding; fields with a value tell it from others")
    ] = ()
    sequence: Annotated[
        tuple[Name, ...],
        Field(max_length=16, description="the parts that it is encoded as", examples=[["config_ld", "mvin"]]),
    ] = ()
    tokens: Annotated[Tokens, Field(description="where units wait for tokens")] = Tokens()
    cycles: Annotated[Cost | None, Field(description="cycles that it keeps its unit, where the family asks")] = None
    energy: Annotated[Cost | None, Field(description="energy that it takes, picojoules")] = None


class Operation(DocumentPart):
    """One of the things that an instruction can do, and the fields that choose it."""

    name: Annotated[Name, Field(description="its name in the trace", examples=["accumulate"])]
    when: Annotated[
        dict[FieldName, int],
        Field(
            max_length=16,
            description="the values of fields that choose it",
            examples=[{"opcode": 1}],
        ),
    ] = Field(default_factory=dict)
    does: Annotated[Expression, Field(examples=["C[i, j] += i32(A[i, k]) * i32(B[k, j])"])]


class Operand(DocumentPart):
    """A tensor in an on-chip memory that an instruction works on."""

    memory: Annotated[Name, Field(description="where it lies", examples=["scratchpad"])]
    shape: Annotated[
        tuple[Count, ...] | None,
        Field(
            min_length=1,
            max_length=4,
            description="scalars by axis; the last axes are those of an element of the memory, the first ones step "
            "from an element to the next; by default one element",
            examples=[[16, 16]],
        ),
    ] = None
    address: Annotated[
        FieldName | None,
        Field(
            description="the field that holds its address, elements; micro-ops may give it instead",
            examples=["a_address"],
        ),
    ] = None
    stays: Annotated[
        bool,
        Field(
            strict=True,
            description="whether the unit keeps it from one execution to the next, so that those with the same "
            "address had better follow each other",
            exclude_if=says_nothing,
        ),
    ] = False


class HardwareLoop(DocumentPart):
    """A loop that one instruction makes: where its extent stands, and how each operand's address steps."""

    extent: Annotated[FieldName, Field(description="the field that holds the number of iterations", examples=["rows"])]
    repeated_in: Annotated[
        tuple[FieldName, ...], Field(max_length=4, description="fields that must hold the same number")
    ] = ()
    limit: Annotated[
        Count | None, Field(description="most iterations, where the field could hold more", examples=[16])
    ] = None
    factors: Annotated[
        dict[Name, FieldName],
        Field(
            description="operand -> the field that holds its step, elements",
            examples=[{"A": "a_step"}],
        ),
    ] = Field(default_factory=dict)
    steps: Annotated[
        dict[Name, int],
        Field(
            description="operand -> its step where it is fixed, elements; without either it does not step",
            examples=[{"C": 1}],
        ),
    ] = Field(default_factory=dict)
    follows: Annotated[
        dict[Name, Cost],
        Field(
            description="operand of a layer -> its step where that follows from fields, as arithmetic over them",
            examples=[{"W": "16 * w_pitch"}],
            exclude_if=says_nothing,
        ),
    ] = Field(default_factory=dict)

    def moves(self, operand: str) -> bool:
        """Returns whether an operand steps in this loop by itself, and not by a window."""
        return operand in self.factors or operand in self.steps or operand in self.follows


class MicroOps(DocumentPart):
    """A table of operand addresses that an instruction walks inside its hardware loops."""

    memory: Annotated[Name, Field(description="the memory that holds the table", examples=["uop"])]
    begin: Annotated[FieldName, Field(description="the field of the first entry", examples=["uop_begin"])]
    end: Annotated[FieldName, Field(description="the field of the entry after the last", examples=["uop_end"])]
    fields: Annotated[tuple[BitField, ...], Field(max_length=16, description="the encoding of an entry")]
    operands: Annotated[
        dict[Name, Name],
        Field(description="field of an entry -> operand whose address it holds", examples=[{"dst_index": "C"}]),
    ]


class CopyFields(DocumentPart):
    """The names of a two-dimensional copy's fields; without one the number is 1, or 0 of padding."""

    sram: Annotated[FieldName, Field(description="on-chip address, elements", examples=["sram_address"])]
    dram: Annotated[FieldName, Field(description="DRAM address, in the copy's unit", examples=["dram_address"])]
    rows: Annotated[FieldName | None, Field(description="number of rows", examples=["rows"])] = None
    columns: Annotated[
        FieldName | None, Field(description="elements of a row, one after the other", examples=["columns"])
    ] = None
    row_stride: Annotated[
        FieldName | None, Field(description="from row to row in DRAM, in the copy's unit", examples=["row_stride"])
    ] = None
    pad_top: Annotated[FieldName | None, Field(description="rows of zeros above", examples=["pad_top"])] = None
    pad_bottom: Annotated[FieldName | None, Field(description="rows of zeros below", examples=["pad_bottom"])] = None
    pad_left: Annotated[FieldName | None, Field(description="elements of zeros at the left", examples=["pad_left"])] = (
        None
    )
    pad_right: Annotated[
        FieldName | None, Field(description="elements of zeros at the right", examples=["pad_right"])
    ] = None


class CopyBlocks(DocumentPart):
    """Several elements of each row: one after the other in DRAM, and ``stride`` apart on the chip.

    Of block ``b`` row ``r`` comes to the copy's address plus ``r + b * stride``.
    """

    scalars: Annotated[
        FieldName, Field(description="the field of a row's scalars in DRAM, of all its blocks", examples=["columns"])
    ]
    stride: Annotated[
        FieldName | None,
        Field(description="the field from block to block on the chip, elements", examples=["block_stride"]),
    ] = None
    apart: Annotated[
        Count | None,
        Field(
            description="elements from block to block on the chip, where no field says it",
            examples=[16],
            exclude_if=says_nothing,
        ),
    ] = None
    most: Annotated[Count, Field(ge=2, description="most blocks, of one element each", examples=[4])]


class CopyDimension(DocumentPart):
    """A further dimension of a copy: what is within is moved ``extent`` times, from places that are strides apart."""

    extent: Annotated[FieldName, Field(description="the field of how many there are", examples=["planes"])]
    dram_stride: Annotated[
        FieldName, Field(description="the field from one to the next in DRAM, in the copy's unit", examples=["plane"])
    ]
    sram_stride: Annotated[
        FieldName | None,
        Field(
            description="the field from one to the next on the chip, elements; without it, one lies behind the other",
            examples=["sram_plane"],
        ),
    ] = None
    limit: Annotated[Count | None, Field(description="the most, where the field could hold more", examples=[16])] = None


class WindowAxis(DocumentPart):
    """One direction of the windows of a store: rows, or columns. Numbers are of elements on the chip."""

    size: Annotated[FieldName, Field(description="the field of how long a window is", examples=["pool_size"])]
    stride: Annotated[FieldName, Field(description="the field from one window to the next", examples=["pool_stride"])]
    count: Annotated[FieldName, Field(description="the field of how many windows there are", examples=["pool_rows"])]
    extent: Annotated[FieldName, Field(description="the field of how long the image is", examples=["image_rows"])]
    before: Annotated[
        FieldName | None,
        Field(description="the field of how far the first window begins before the image", examples=["pad_top"]),
    ] = None

    @property
    def fields(self) -> dict[str, FieldName]:
        """Its fields by their roles."""
        named = {"size": self.size, "stride": self.stride, "count": self.count, "extent": self.extent}
        return named if self.before is None else {**named, "before": self.before}


class CopyWindows(DocumentPart):
    """The windows of an image on the chip of which a store takes the largest values.

    The image begins at the copy's address, its columns one behind the other, and its rows without gaps. What a window
    has outside of it counts as zero. In DRAM ``row_stride`` is from a window's value to that of the next column.
    """

    rows: Annotated[WindowAxis, Field(description="the fields of rows")]
    columns: Annotated[WindowAxis, Field(description="the fields of columns; they may be the same ones")]
    pitch: Annotated[
        FieldName,
        Field(
            description="the field from a row of windows to the next in DRAM, in strides of columns",
            examples=["pool_out_dim"],
        ),
    ]
    in_bank: Annotated[
        bool,
        Field(
            strict=True,
            description="whether the store waits for what is in the bank where its image begins alone, so that an "
            "image must not reach beyond that",
            exclude_if=says_nothing,
        ),
    ] = False


class Copy(Instruction):
    """A strided copy between DRAM and an on-chip memory, where its rows lie without gaps; of four extents at most.

    Without ``operations`` it moves elements as they are: a store to a narrower type keeps the low bits, a load from
    a narrower one extends the sign. In their expressions ``dram`` and ``sram`` are one
    element, and so is each operand.
    """

    kind: Annotated[Literal["copy"], Field(description="between DRAM and an on-chip memory")] = "copy"
    pragma: Pragma
    direction: Annotated[Literal["load", "store"], Field(description="load: from DRAM", examples=["load"])]
    memory: Annotated[Name, Field(description="the on-chip memory", examples=["scratchpad"])]
    dram_dtype: Annotated[DType, Field(description="type of a scalar in DRAM", examples=["int8"])]
    dram_unit: Annotated[
        Literal["element", "byte"],
        Field(
            description="what DRAM addresses and strides count; a copy that counts bytes may begin at any number",
            examples=["byte"],
        ),
    ] = "element"
    max_rows: Annotated[
        Count | None, Field(description="most rows, where the field could hold more", examples=[16])
    ] = None
    copy_fields: Annotated[CopyFields, Field(description="the fields by their roles")]
    dimensions: Annotated[
        tuple[CopyDimension, ...],
        Field(
            max_length=3,
            description="dimensions around its rows and columns, outermost first; four extents with these at most",
            examples=[[{"extent": "planes", "dram_stride": "plane", "sram_stride": "sram_plane"}]],
            exclude_if=says_nothing,
        ),
    ] = ()
    blocks: Annotated[
        CopyBlocks | None,
        Field(
            description="the fields of a copy that takes several elements of each row",
            exclude_if=says_nothing,
        ),
    ] = None
    windows: Annotated[
        CopyWindows | None,
        Field(
            description="the fields of a store that takes the largest value of each window of an image on the chip, "
            "of what its operations make of the elements",
            exclude_if=says_nothing,
        ),
    ] = None
    rows: Annotated[
        RowFunction | None,
        Field(
            description="the function of whole rows that a store computes, whose operations none says",
            exclude_if=says_nothing,
        ),
    ] = None
    operations: Annotated[
        tuple[Operation, ...], Field(max_length=16, description="what it does to each element on the way")
    ] = ()
    operands: Annotated[
        dict[Name, Operand],
        Field(
            max_length=4,
            description="elements on the chip that a store's expressions read beside `sram`, the same for all that it "
            "moves: a multiplier of each channel, say",
            examples=[{"M": {"memory": "parameters", "address": "multipliers"}}],
            exclude_if=says_nothing,
        ),
    ] = Field(default_factory=dict)
    bus_cycles: Annotated[
        Cost | None,
        Field(
            description="cycles that it keeps a bus that units share; by default those of its bytes",
            examples=["max(ceil(bytes / bus_bytes), rows)"],
            exclude_if=says_nothing,
        ),
    ] = None

    def dram_bytes(self, memory: Memory) -> int:
        """Returns the bytes that one element of ``memory`` takes in DRAM."""
        return memory.element_count * DTYPE_BYTES[self.dram_dtype]

    def element_stride(self, memory: Memory) -> int:
        """Returns how far apart neighbouring elements of ``memory`` are in DRAM, in what its fields count."""
        return self.dram_bytes(memory) if self.dram_unit == "byte" else 1

    def dram_steps(self, memory: Memory) -> int:
        """Returns how many of the places in DRAM at which it may begin an element of ``memory`` takes there.

        They are elements, or numbers where its fields count bytes.
        """
        return 1 if self.dram_unit == "element" else memory.element_count

    def step_bytes(self) -> int:
        """Returns what one of those places is in its fields: an element, or the bytes of a number."""
        return 1 if self.dram_unit == "element" else DTYPE_BYTES[self.dram_dtype]


def takes_windows(instruction: Instruction) -> bool:
    """Returns whether it is a store that takes the largest values of windows."""
    return isinstance(instruction, Copy) and instruction.windows is not None


def takes_rows(instruction: Instruction) -> bool:
    """Returns whether it is a store that computes a function of whole rows."""
    return isinstance(instruction, Copy) and instruction.rows is not None


class Compute(Instruction):
    """Arithmetic on operands in on-chip memories: a tensor expression, in hardware loops and over micro-ops if any."""

    kind: Annotated[Literal["compute"], Field(description="arithmetic in on-chip memories")] = "compute"
    pragma: Pragma
    operands: Annotated[
        dict[Name, Operand], Field(min_length=1, max_length=8, description="the tensors of its expressions by name")
    ]
    operations: Annotated[
        tuple[Operation, ...], Field(min_length=1, max_length=64, description="what it can do, chosen by fields")
    ]
    loops: Annotated[
        tuple[HardwareLoop, ...], Field(max_length=4, description="its hardware loops, outermost first")
    ] = ()
    microops: Annotated[MicroOps | None, Field(description="the table of addresses that it walks, if any")] = None


class Window(DocumentPart):
    """One direction in which a kernel moves over an operand of a layer, in positions; outside are zeros.

    The position is the sum of its loops' iterations, each times its step, less what lies ``before``. Those from 0 up to
    the ``extent`` are in DRAM, ``pitch`` elements from one to the next; all others are zero.
    """

    over: Annotated[
        dict[FieldName, FieldName],
        Field(
            min_length=1,
            max_length=4,
            description="extent of a loop -> the field that holds its step, positions: strides, dilation",
            examples=[{"rows": "stride_rows", "kernel_rows": "dilation_rows"}],
        ),
    ]
    before: Annotated[
        FieldName | None, Field(description="the field of zeros before the first, positions", examples=["pad_top"])
    ] = None
    extent: Annotated[FieldName, Field(description="the field of positions that are in DRAM", examples=["height"])]
    pitch: Annotated[
        FieldName | None,
        Field(
            description="the field from one to the next in DRAM, in the unit of addresses; without it, next to it",
            examples=["row_pitch"],
        ),
    ] = None


class LayerOperand(DocumentPart):
    """A tensor of a layer, seen as elements of a memory on the chip: in DRAM, or kept on the chip while it runs."""

    memory: Annotated[
        Name, Field(description="the memory on the chip that its elements go through", examples=["buffer"])
    ]
    dram: Annotated[
        FieldName | None,
        Field(
            description="the field of its first address in DRAM; without it, it is on the chip alone", examples=["x"]
        ),
    ] = None
    dram_dtype: Annotated[
        DType | None, Field(description="type of a scalar in DRAM, if not that of the memory", examples=["int8"])
    ] = None
    windows: Annotated[
        tuple[Window, ...], Field(max_length=3, description="how a kernel moves over it, and what pads it")
    ] = ()
    shape: Annotated[
        tuple[Count, Count] | None,
        Field(
            description="scalars of several elements that its expressions see at once: how many, and those of each",
            examples=[[16, 16]],
            exclude_if=says_nothing,
        ),
    ] = None
    pitch: Annotated[
        FieldName | None,
        Field(
            description="the field from one of these elements to the next in DRAM, in the unit of addresses; without "
            "it, next to it",
            examples=["w_pitch"],
            exclude_if=says_nothing,
        ),
    ] = None


class LayerOperation(Operation):
    """One of the things that a layer can do.

    Without ``begins`` and ``ends`` it does one thing at every point of its loops. With them what it sums is on the
    chip: it begins at every point of the loops in which the result steps, goes on over the others, and ends there.
    """

    begins: Annotated[Expression | None, Field(description="what the sums begin as", examples=["ACC[n] = B[n]"])] = None
    ends: Annotated[
        Expression | None,
        Field(description="what becomes of them", examples=["Y[n] = i8(clip(rint(f32(ACC[n]) * scale), -128, 127))"]),
    ] = None

    @property
    def statements(self) -> tuple[str, ...]:
        """All that it does, in its order."""
        return tuple(text for text in (self.begins, self.does, self.ends) if text is not None)


class Layer(Instruction):
    """A whole nest of loops over tensors in DRAM: what it needs on the chip it brings there itself."""

    kind: Annotated[Literal["layer"], Field(description="a nest of loops over tensors in DRAM")] = "layer"
    pragma: Pragma
    dram_unit: Annotated[
        Literal["element", "byte"],
        Field(description="what DRAM addresses, factors and pitches count", examples=["byte"]),
    ] = "element"
    operands: Annotated[
        dict[Name, LayerOperand],
        Field(min_length=1, max_length=8, description="the tensors of its expressions by name"),
    ]
    loops: Annotated[tuple[HardwareLoop, ...], Field(max_length=8, description="its loops, outermost first")] = ()
    operations: Annotated[
        tuple[LayerOperation, ...], Field(min_length=1, max_length=16, description="what it can do, chosen by fields")
    ]
    uses: Annotated[
        dict[Name, Cost],
        Field(
            max_length=32,
            description="memory -> elements of it that it needs, from the first on; nothing else may be there. "
            "A memory's name is the number of its elements",
            examples=[{"buffer": "in_blocks * height * width"}],
        ),
    ] = Field(default_factory=dict)
    numbers: Annotated[
        dict[Name, Annotated[int, Field(strict=True, ge=1, le=62)] | Literal["float32"]],
        Field(
            max_length=32,
            description="fields of its own where it is a sequence, which no part has, with their bits or type: fields "
            "of parts follow from them",
            examples=[{"rows": 16, "scale": "float32"}],
            exclude_if=says_nothing,
        ),
    ] = Field(default_factory=dict)
    follows: Annotated[
        dict[FieldName, Cost],
        Field(
            max_length=64,
            description="field of a part -> what it holds, as arithmetic over other fields",
            examples=[{"bounds.i": "ceil(rows / 16)"}],
            exclude_if=says_nothing,
        ),
    ] = Field(default_factory=dict)
    alone: Annotated[
        Cost | None,
        Field(
            description="cycles that the first and the last of several in a row take more, as nothing runs beside "
            "their first loads and their last stores",
            examples=["height * width"],
            exclude_if=says_nothing,
        ),
    ] = None

    def number(self, name: str) -> BitField:
        """Returns a number as a field, which is in no word.

        Raises:
            KeyError: there is none.
        """
        bits = self.numbers[name]
        if bits == "float32":
            return BitField(name=name, lsb=0, bits=32, type="float32")
        return BitField(name=name, lsb=0, bits=bits)

    @property
    def microops(self) -> None:
        """It walks no table."""

    def type_in_dram(self, name: str, memory: Memory) -> DType:
        """Returns the type of an operand's scalars, whose elements go through ``memory``."""
        return self.operands[name].dram_dtype or memory.dtype_in_dram

    def unit_bytes(self, name: str, memory: Memory) -> int:
        """Returns the bytes that an operand's addresses count."""
        return self.element_bytes(name, memory) if self.dram_unit == "element" else 1

    def element_bytes(self, name: str, memory: Memory) -> int:
        """Returns the bytes of an element of an operand in DRAM."""
        return memory.element_count * DTYPE_BYTES[self.type_in_dram(name, memory)]


class Part(Instruction):
    """A word that other instructions are made of: they name it in their ``sequence``.

    What it does by itself is the family's business; in the family ``explicit`` it holds fields and does nothing.
    """

    kind: Annotated[Literal["part"], Field(description="a word that others are made of")] = "part"
    sticky: Annotated[
        bool,
        Field(strict=True, description="it sets registers that stay; left out where they hold its values already"),
    ] = False


class Sync(Instruction):
    """Does nothing but wait for its tokens and send them."""

    kind: Annotated[Literal["sync"], Field(description="it waits and signals, and does nothing else")] = "sync"


class Finish(Instruction):
    """Ends a launch."""

    kind: Annotated[Literal["finish"], Field(description="it ends a launch")] = "finish"


AnyInstruction = Annotated[Copy | Compute | Layer | Part | Sync | Finish, Field(discriminator="kind")]
