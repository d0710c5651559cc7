"""Configuration of a VTA: the ten keys of ``vta_config.json`` with the sizes that follow, and the variant.

A variant is where implementations differ beyond the ten keys; each field's default is the specification's.
"""

from typing import Annotated, Literal

from pydantic import Field

from accel.accelerator.base import DocumentPart
from accel.accelerator.memories import Memory
from accel.isa.vta.document.instruction_fields import MICROOP_BITS, UNITS

MEMORIES = ("uop", "wgt", "inp", "acc")  # by the numbers of LOAD's memory type


class VtaConfig(DocumentPart):
    """The original ``vta_config.json``: log2 of bits (widths), of elements (batch, block), of bytes (buffers).

    Whether such an accelerator can be is checked when its document is derived.
    """

    TARGET: str = "sim"
    HW_VER: str = "0.0.2"
    LOG_INP_WIDTH: int = Field(3, strict=True)
    LOG_WGT_WIDTH: int = Field(3, strict=True)
    LOG_ACC_WIDTH: int = Field(5, strict=True)
    LOG_BATCH: int = Field(0, strict=True)
    LOG_BLOCK: int = Field(4, strict=True)
    LOG_UOP_BUFF_SIZE: int = Field(15, strict=True)
    LOG_INP_BUFF_SIZE: int = Field(15, strict=True)
    LOG_WGT_BUFF_SIZE: int = Field(18, strict=True)
    LOG_ACC_BUFF_SIZE: int = Field(17, strict=True)

    @property
    def label(self) -> str:
        """The name that the original gives to its bitstream, such as ``1x16_i8w8a32_15_15_18_17``."""
        widths = f"i{1 << self.LOG_INP_WIDTH}w{1 << self.LOG_WGT_WIDTH}a{1 << self.LOG_ACC_WIDTH}"
        sizes = (self.LOG_UOP_BUFF_SIZE, self.LOG_INP_BUFF_SIZE, self.LOG_WGT_BUFF_SIZE, self.LOG_ACC_BUFF_SIZE)
        return "_".join([f"{1 << self.LOG_BATCH}x{1 << self.LOG_BLOCK}", widths, *map(str, sizes)])

    def buffer_bytes(self) -> dict[str, int]:
        """Bytes of each memory."""
        return {name: 1 << int(getattr(self, buffer_key(name))) for name in MEMORIES}

    def elements(self) -> dict[str, Memory]:
        """Each memory with one element."""
        batch, block = 1 << self.LOG_BATCH, 1 << self.LOG_BLOCK
        shapes = {"uop": (1,), "wgt": (block, block), "inp": (batch, block), "acc": (batch, block)}
        dtypes = {"uop": "uint32", "wgt": "int8", "inp": "int8", "acc": "int32"}
        return {
            name: Memory.model_validate(
                {"name": name, "scope": f"local.{name}_buffer", "dtype": dtypes[name], "shape": shapes[name]}
                | {"depth": 1}
            )
            for name in MEMORIES
        }

    def index_bits(self) -> dict[str, int]:
        """log2 of the elements of each memory; negative where the buffer is smaller than one element."""
        element = {
            "uop": MICROOP_BITS.bit_length() - 1,
            "wgt": self.LOG_WGT_WIDTH + 2 * self.LOG_BLOCK,
            "inp": self.LOG_INP_WIDTH + self.LOG_BATCH + self.LOG_BLOCK,
            "acc": self.LOG_ACC_WIDTH + self.LOG_BATCH + self.LOG_BLOCK,
        }
        return {name: int(getattr(self, buffer_key(name))) + 3 - bits for name, bits in element.items()}


def buffer_key(memory: str) -> str:
    """The key of a memory's size."""
    return f"LOG_{memory.upper()}_BUFF_SIZE"


_QUEUE_DEPTH = 512  # Configs.scala: instQueueEntries; vivado.tcl has the same


class QueueDepths(DocumentPart):
    """Instructions that wait for each unit."""

    load: int = Field(_QUEUE_DEPTH, strict=True, ge=1, le=1 << 20)
    compute: int = Field(_QUEUE_DEPTH, strict=True, ge=1, le=1 << 20)
    store: int = Field(_QUEUE_DEPTH, strict=True, ge=1, le=1 << 20)


class Variant(DocumentPart):
    """What distinguishes one implementation from another; the document that is derived says each again."""

    immediate_with: Literal["dst", "src"] = Field(
        "dst", description="operand that an ALU operation with an immediate reads; the Chisel RTL reads src"
    )
    acc_8bit: bool = Field(
        True, strict=True, description="a LOAD of int8 into the accumulator (memory type 5); no hardware has it"
    )
    multiply: bool = Field(True, strict=True, description="the ALU operation MUL (4); no hardware has it")
    out_memory: bool = Field(
        False,
        strict=True,
        description="a store reads a memory of its own, which products and the ALU write beside the accumulator, and "
        "loads and resets do not, as in the Chisel RTL; the program must not store what it only loaded or cleared",
    )
    alu_stale_cycles: int = Field(
        0,
        strict=True,
        ge=0,
        le=64,
        description="cycles after a pass of the ALU in which a pass of the same instruction may still read what was "
        "there before; the Chisel RTL, whose ALU has no bypass: 2",
    )
    microop_depth: int | None = Field(
        None, strict=True, ge=1, description="micro-ops on chip; null: as many as LOG_UOP_BUFF_SIZE says; the RTL: 2048"
    )
    bus_bytes: int = Field(8, strict=True, description="bytes a beat of the memory bus: 4, 8, 16, 32, 64 or 128")
    read_latency: Annotated[int, Field(strict=True, ge=0, le=100_000)] = Field(
        16, description="cycles from a read request to its first beat"
    )
    queue_depths: QueueDepths = Field(QueueDepths(), description="instructions that wait for each unit")
    token_limit: int = Field(
        255, strict=True, ge=1, le=1 << 20, description="where the counter of a token queue stops; the HLS design: 1024"
    )
    carry_tokens: bool = Field(
        True, strict=True, description="tokens left over from a launch are there in the next, as on all hardware"
    )
    immediate_pass_cycles: int = Field(
        1, strict=True, ge=1, le=1024, description="ALU cycles a micro-op with an immediate; the HLS design: 2"
    )
    two_operand_pass_cycles: int = Field(
        2, strict=True, ge=1, le=1024, description="ALU cycles a micro-op with two operands"
    )
    clock_mhz: float = Field(
        100.0, gt=0, le=100_000, strict=True, allow_inf_nan=False, description="the clock, MHz; Ultra96: 333"
    )

    def depths(self) -> dict[str, int]:
        """The queue depths by unit."""
        return {unit: int(getattr(self.queue_depths, unit)) for unit in UNITS}


SPECIFICATION = Variant()
_CHISEL_STALE = 2  # of the four stages behind the index generator the second reads and the last writes
CHISEL = Variant(
    immediate_with="src",
    acc_8bit=False,
    multiply=False,
    out_memory=True,
    alu_stale_cycles=_CHISEL_STALE,
    microop_depth=2048,
)
