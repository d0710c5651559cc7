"""What a loop_conv_ws is about: its flags, its extents and where its tensors lie.

Names follow libgemmini: o is an output's, i an input's (padding included), k the kernel's.
"""

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.stream import kernel_layout as at
from accel.isa.gemmini.stream.loop_registers import ceil_div
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64

# what is derived from the registers and the instruction, (SHAPE,)
WROT180, TRANS_OUT, TRANS_W1203, TRANS_W0132, TRANS_IN, DEPTHWISE, PIXELS = range(7)
POOLED, DOWN, DILATED, ACTIVATION = range(7, 11)
IROWS, ICOLS, IROWS_UNPADDED, ICOLS_UNPADDED, A_ROWS, B_ROWS, C_ROWS = range(11, 18)
A_START, B_START, C_START, D_START, NO_BIAS = range(18, 23)
UP, DOWN_PAD, LEFT, RIGHT = range(23, 27)  # the input's padding, in elements that are stored
SHAPE = 27

FINE, TOO_LARGE, BAD_DILATION, NO_DILATION, EMPTY = range(5)


@compiled
def _halved(value: int, dilated: int) -> int:
    """Half of ``value`` and of one more, towards 0 as C divides, if the input is dilated."""
    if not dilated:
        return value
    return value + 1 >> 1 if value >= -1 else -(-(value + 1) >> 1)


@compiled
def _flags(shape: Int64, rs1: int, rs2: int) -> None:
    shape[NO_BIAS] = rs1 & 1
    for bit in range(6):
        shape[WROT180 + bit] = rs1 >> bit + 1 & 1
    shape[PIXELS] = max(rs1 >> 8 & 0xFF, 1)
    shape[POOLED] = 1 - (rs2 & 1)
    shape[DOWN] = rs2 >> 1 & 1
    shape[DILATED] = rs2 >> 2 & 1
    shape[ACTIVATION] = 1 if rs2 >> 3 & 3 else 0  # a truth value in libgemmini: any is ReLU


@compiled
def _extents(shape: Int64, loops: Int64, dim: int) -> None:
    dilated = shape[DILATED]
    krows = loops[at.C_KROWS] + (loops[at.C_DILATION] - 1) * (loops[at.C_KROWS] - 1)
    kcols = loops[at.C_KCOLS] + (loops[at.C_DILATION] - 1) * (loops[at.C_KCOLS] - 1)
    irows = loops[at.C_OROWS] * loops[at.C_STRIDE_] + krows - 1
    icols = loops[at.C_OCOLS] * loops[at.C_STRIDE_] + kcols - 1
    for side, register in ((UP, at.C_UPAD), (DOWN_PAD, at.C_DPAD), (LEFT, at.C_LPAD), (RIGHT, at.C_RPAD)):
        shape[side] = loops[register] + dilated >> dilated
    shape[IROWS_UNPADDED] = _halved(irows - loops[at.C_UPAD] - loops[at.C_DPAD], dilated)
    shape[ICOLS_UNPADDED] = _halved(icols - loops[at.C_LPAD] - loops[at.C_RPAD], dilated)
    shape[IROWS] = shape[IROWS_UNPADDED] + shape[UP] + shape[DOWN_PAD]
    shape[ICOLS] = shape[ICOLS_UNPADDED] + shape[LEFT] + shape[RIGHT]
    image = (shape[IROWS] >> shape[DOWN]) * (shape[ICOLS] >> shape[DOWN])
    ichs, ochs, batches = loops[at.C_KCHS], loops[at.C_POCHS], loops[at.C_BATCHES]
    kernel = loops[at.C_KROWS] * loops[at.C_KCOLS]
    shape[A_ROWS] = (ceil_div(batches, dim) * ichs if shape[TRANS_IN] else ceil_div(ichs, dim) * batches) * image
    shape[B_ROWS] = kernel * (ceil_div(ichs, dim) * ochs if shape[TRANS_W0132] else ceil_div(ochs, dim) * ichs)
    shape[C_ROWS] = ceil_div(ochs, dim) * batches * loops[at.C_OROWS] * loops[at.C_OCOLS]


@compiled
def conv_fault(shape: Int64, loops: Int64, rs1: int, rs2: int, sizes: Int64) -> int:
    """Fill ``shape`` (SHAPE,); what is wrong with the loop: half of each memory holds its tensors."""
    _flags(shape, rs1, rs2)
    if shape[DILATED] and loops[at.C_STRIDE_] != 1:
        return BAD_DILATION
    if loops[at.C_DILATION] == 0:
        return NO_DILATION
    _extents(shape, loops, sizes[at.DIM])
    if shape[IROWS] < 0 or shape[ICOLS] < 0:  # without its padding it may be: then all that is read is padding
        return EMPTY
    # products of larger ones could overflow
    if (
        max(shape[IROWS], shape[ICOLS]) >= 1 << 16
        or shape[A_ROWS] + shape[B_ROWS] > sizes[at.SP_ROWS] // 2
        or shape[C_ROWS] > sizes[at.ACC_ROWS] // 2
    ):
        return TOO_LARGE
    # an empty tensor fits always, and the loops over the others must end nevertheless
    most = sizes[at.SP_ROWS] + sizes[at.ACC_ROWS]
    image = shape[IROWS] * shape[ICOLS] * loops[at.C_BATCHES]
    outputs = loops[at.C_OROWS] * loops[at.C_OCOLS] * loops[at.C_BATCHES]
    kernel = loops[at.C_KROWS] * loops[at.C_KCOLS]
    pooled = loops[at.C_BATCHES] * loops[at.C_POCHS]
    if max(image >> 2, outputs, kernel, pooled // 64, loops[at.C_KCHS] // 64, loops[at.C_BATCHES]) > most:
        return TOO_LARGE
    return FINE


@compiled
def place_conv(shape: Int64, loops: Int64, rs1: int, sizes: Int64, alternate: int) -> None:
    """Where the tensors lie; the accumulator's halves take turns, and with ``alternate`` the scratchpad's too."""
    half, acc_half = sizes[at.SP_ROWS] // 2, sizes[at.ACC_ROWS] // 2
    a_half, b_half = rs1 >> 18 & 3, rs1 >> 16 & 3
    default = loops[at.HALF_LOOP] if alternate else 0
    shape[A_START] = half * (default if a_half == 0 else a_half == 2)
    shape[B_START] = half * ((default if b_half == 0 else b_half == 2) + 1) - shape[B_ROWS]
    shape[C_START] = (rocc.ACCUMULATOR | rocc.ACCUMULATE) + acc_half * loops[at.HALF_C]
    shape[D_START] = rocc.ACCUMULATOR + acc_half * loops[at.HALF_D]
    loops[at.HALF_LOOP] ^= 1
    if loops[at.C_BIAS] != 0:
        loops[at.HALF_D] ^= 1
    if loops[at.C_OUTPUT] != 0:
        loops[at.HALF_C] ^= 1
