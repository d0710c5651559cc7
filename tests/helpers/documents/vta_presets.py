"""What each preset of VTA is derived from: its title, the ten keys, and the implementation's variant."""

from accel.isa.vta.document.vta_configuration import CHISEL, SPECIFICATION, Variant, VtaConfig

_HLS = Variant(acc_8bit=False, multiply=False, token_limit=1024, immediate_pass_cycles=2)
_PYNQ = _HLS.model_copy(update={"clock_mhz": 100.0})
_ULTRA96 = _HLS.model_copy(update={"clock_mhz": 333.0, "bus_bytes": 16})

PRESETS: dict[str, tuple[str, VtaConfig, Variant]] = {
    "vta": ("VTA 16x16", VtaConfig(), SPECIFICATION),
    "vta-chisel": ("VTA 16x16, the Chisel RTL", VtaConfig(TARGET="tsim"), CHISEL),
    "vta-pynq": ("VTA 16x16, the HLS design on Pynq", VtaConfig(TARGET="pynq"), _PYNQ),
    "vta-ultra96": ("VTA 16x16, the HLS design on Ultra96", VtaConfig(TARGET="ultra96"), _ULTRA96),
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
