"""VTA's ten keys: the original ``vta_config.json``, and the sizes that follow from it.

Source: tvm-vta ``config/pkg_config.py`` (the bitstream's name), ``include/vta/hw_spec_const.h`` (depths).
"""

from pydantic import Field

from accel.accelerator.base import Model
from accel.accelerator.memories import Memory
from accel.isa.vta.encoding import MICROOP_BITS

MEMORIES = ("uop", "wgt", "inp", "acc")  # by the numbers of LOAD's memory type


class VtaConfig(Model):
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
