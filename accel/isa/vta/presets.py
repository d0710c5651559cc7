"""The presets as what they are derived from; the documents themselves are in ``accel/accelerator/presets/``."""

from accel.isa.vta.ten_keys import VtaConfig
from accel.isa.vta.variant import CHISEL, PYNQ, SPECIFICATION, ULTRA96, Variant

PRESETS: dict[str, tuple[str, VtaConfig, Variant]] = {
    "vta": ("VTA 16x16", VtaConfig(), SPECIFICATION),
    "vta-chisel": ("VTA 16x16, the Chisel RTL", VtaConfig(TARGET="tsim"), CHISEL),
    "vta-pynq": ("VTA 16x16, the HLS design on Pynq", VtaConfig(TARGET="pynq"), PYNQ),
    "vta-ultra96": ("VTA 16x16, the HLS design on Ultra96", VtaConfig(TARGET="ultra96"), ULTRA96),
    "vta-8": (
        "VTA 8x8",
        VtaConfig(LOG_BLOCK=3, LOG_UOP_BUFF_SIZE=13, LOG_INP_BUFF_SIZE=13, LOG_WGT_BUFF_SIZE=14, LOG_ACC_BUFF_SIZE=15),
        SPECIFICATION,
    ),
    "vta-32": (
        "VTA 32x32 with large buffers",
        VtaConfig(LOG_BLOCK=5, LOG_INP_BUFF_SIZE=16, LOG_WGT_BUFF_SIZE=20, LOG_ACC_BUFF_SIZE=18),
        SPECIFICATION,
    ),
    "vta-small": (
        "VTA 16x16 with small buffers",
        VtaConfig(LOG_UOP_BUFF_SIZE=12, LOG_INP_BUFF_SIZE=12, LOG_WGT_BUFF_SIZE=14, LOG_ACC_BUFF_SIZE=14),
        SPECIFICATION,
    ),
}
