"""What config and preload leave behind for later instructions (GemminiISA.scala:190-258; libgemmini ``config``)."""

import numpy as np

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.stream import kernel_layout as at
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int32, Int64


def reset_registers(parameters: GemminiParameters) -> tuple[Int64, Int32]:
    """The configuration after power-on, and the bits of its scales: unit strides and scales, weight stationary."""
    state, scales = np.zeros(at.CONFIGURATION, np.int64), np.full(at.SCALES, rocc.ONE, np.int32)
    state[at.WS] = state[at.A_STRIDE] = state[at.C_STRIDE] = 1
    state[at.LD_BLOCK : at.LD_BLOCK + 3] = parameters.dim
    state[at.LD_PIXELS : at.LD_PIXELS + 3] = 1
    state[at.PRE_ADDR] = state[at.OUT_ADDR] = rocc.GARBAGE
    return state, scales


def sizes(parameters: GemminiParameters) -> Int64:
    """The sizes that kernels need."""
    out = np.zeros(at.SIZES, np.int64)
    out[at.DIM] = parameters.dim
    out[at.SP_ROWS], out[at.ACC_ROWS] = parameters.scratchpad_rows, parameters.accumulator_rows
    out[at.WIDE], out[at.WIDE_WORDS] = parameters.wide_columns, parameters.wide_words
    out[at.RELU_FIRST], out[at.SHIFT_ALL] = parameters.relu_before_scale, parameters.shift_into_accumulator
    out[at.NORMALISES] = parameters.normalizations
    return out


@compiled
def signed32(value: int) -> int:
    """The low 32 bits as a two's complement number."""
    return ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


@compiled
def _configure_execute(state: Int64, rs1: int, rs2: int) -> None:
    state[at.A_STRIDE] = rs1 >> 16 & 0xFFFF
    state[at.C_STRIDE] = rs2 >> 48 & 0xFFFF
    if rs1 >> 7 & 1:
        return
    state[at.WS] = rs1 >> 2 & 1
    state[at.SYS_ACT] = rs1 >> 3 & 3
    state[at.SYS_SHIFT] = rs2 & 0xFFFFFFFF
    state[at.A_TRANSPOSE] = rs1 >> 8 & 1
    state[at.B_TRANSPOSE] = rs1 >> 9 & 1


@compiled
def _configure_load(state: Int64, scales: Int32, rs1: int, rs2: int) -> None:
    which = rs1 >> 3 & 3
    if which >= 3:
        return
    state[at.LD_STRIDE + which] = rs2
    state[at.LD_BLOCK + which] = rs1 >> 16 & 0xFFFF
    state[at.LD_SHRUNK + which] = rs1 >> 2 & 1
    state[at.LD_PIXELS + which] = max(rs1 >> 8 & 0xFF, 1)
    scales[at.LD_SCALE + which] = signed32(rs1 >> 32)


@compiled
def _configure_store(state: Int64, scales: Int32, rs1: int, rs2: int) -> None:
    state[at.ST_STRIDE] = rs2 & 0xFFFFFFFF
    activation = rs1 >> 2 & 3
    if activation != rocc.NONE or state[at.ACC_ACT] != rocc.SOFTMAX:  # its bit is set by config_norm, and stays
        state[at.ACC_ACT] = activation
    if rs2 >> 32 & 0xFFFFFFFF != rocc.KEEP_SCALE:
        scales[at.ST_SCALE] = signed32(rs2 >> 32)
    state[at.POOL_STRIDE] = rs1 >> 4 & 3
    state[at.POOL_SIZE] = rs1 >> 6 & 3
    state[at.UPAD] = rs1 >> 8 & 3
    state[at.LPAD] = rs1 >> 10 & 3
    state[at.POOL_OUT] = rs1 >> 24 & 0xFF
    state[at.POROWS] = rs1 >> 32 & 0xFF
    state[at.POCOLS] = rs1 >> 40 & 0xFF
    state[at.OROWS] = rs1 >> 48 & 0xFF
    state[at.OCOLS] = rs1 >> 56 & 0xFF


@compiled
def _configure_norm(state: Int64, rs1: int, rs2: int) -> None:
    state[at.STAT] = rs1 >> 8 & 0xFF
    if rs1 >> 17 & 1:
        return
    state[at.QB], state[at.QC] = signed32(rs2), signed32(rs2 >> 32)
    state[at.ACC_ACT] |= (rs1 >> 16 & 1) << 2
    state[at.QLN2_INV if rs1 >> 18 & 1 else at.QLN2] = signed32(rs1 >> 32)


@compiled
def apply_config(state: Int64, scales: Int32, rs1: int, rs2: int) -> None:
    """A config of any kind: ``state`` (CONFIGURATION,) and ``scales`` (SCALES,), as bits, are updated."""
    kind = rs1 & 3
    if kind == rocc.CONFIG_EX:
        _configure_execute(state, rs1, rs2)
    elif kind == rocc.CONFIG_LD:
        _configure_load(state, scales, rs1, rs2)
    elif kind == rocc.CONFIG_ST:
        _configure_store(state, scales, rs1, rs2)
    else:
        _configure_norm(state, rs1, rs2)


@compiled
def apply_preload(state: Int64, rs1: int, rs2: int) -> None:
    """Where the next compute finds its stationary operand, and where its result goes."""
    state[at.PRE_ADDR], state[at.PRE_COLS], state[at.PRE_ROWS] = (
        rs1 & 0xFFFFFFFF,
        rs1 >> 32 & 0xFFFF,
        rs1 >> 48 & 0xFFFF,
    )
    state[at.OUT_ADDR], state[at.OUT_COLS], state[at.OUT_ROWS] = (
        rs2 & 0xFFFFFFFF,
        rs2 >> 32 & 0xFFFF,
        rs2 >> 48 & 0xFFFF,
    )


@compiled
def load_configuration_of(funct: int) -> int:
    """Which of the three configurations a mvin uses."""
    if funct == rocc.MVIN:
        return 0
    return 1 if funct == rocc.MVIN2 else 2


@compiled
def before_the_last(command: int) -> int:
    """What a command does to the blocks of a row before its last one."""
    if command == rocc.MEAN:
        return rocc.SUM
    if command == rocc.INV_STDDEV:
        return rocc.VARIANCE
    return rocc.SUM_EXP if command == rocc.INV_SUM_EXP else command
