"""The registers that the loops' instructions fill, and the emission of primitive instructions."""

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.stream import kernel_layout as at
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64


@compiled
def ceil_div(value: int, by: int) -> int:
    """The quotient of two numbers, rounded up."""
    return -(-value // by)


@compiled
def local(rows: int, columns: int, address: int) -> int:
    """An operand word: rows, columns and the local address."""
    return rows << 48 | columns << 32 | address


@compiled
def emit(out: Int64, count: int, funct: int, rs1: int, rs2: int) -> int:
    """Write instruction ``count`` to ``out`` (n, 3) if it has room, so that the first pass counts; the next count."""
    if count < len(out):
        out[count, 0] = funct
        out[count, 1] = rs1
        out[count, 2] = rs2
    return count + 1


@compiled
def note_block_stride(loops: Int64, funct: int, rs1: int) -> None:
    """Remember the block stride of a config_ld; other instructions have none."""
    if funct == rocc.CONFIG and rs1 & 3 == rocc.CONFIG_LD and rs1 >> 3 & 3 < 3:
        loops[at.BLOCK_STRIDE + (rs1 >> 3 & 3)] = (rs1 >> 16 & 0xFFFF) + 1


@compiled
def _set_matmul(loops: Int64, funct: int, rs1: int, rs2: int) -> None:
    if funct == rocc.LOOP_BOUNDS:
        for part in range(3):
            loops[at.L_I + part] = rs2 >> 16 * part & 0xFFFF
            loops[at.L_PAD_I + part] = rs1 >> 16 * part & 0xFFFF
    elif funct == rocc.LOOP_AB:
        loops[at.L_A], loops[at.L_B] = rs1, rs2
    elif funct == rocc.LOOP_DC:
        loops[at.L_D], loops[at.L_C] = rs1, rs2
    elif funct == rocc.LOOP_STRIDES_AB:
        loops[at.L_A_STRIDE], loops[at.L_B_STRIDE] = rs1, rs2
    else:
        loops[at.L_D_STRIDE], loops[at.L_C_STRIDE] = rs1, rs2


@compiled
def _quarter(word: int, index: int) -> int:
    return word >> 16 * index & 0xFFFF


@compiled
def _set_conv(loops: Int64, funct: int, rs1: int, rs2: int) -> None:
    if funct == rocc.CONV_1:
        loops[at.C_BATCH], loops[at.C_IN_ROW] = _quarter(rs1, 0), _quarter(rs1, 1)
        loops[at.C_IN_CH], loops[at.C_OUT_CH] = _quarter(rs1, 2), _quarter(rs1, 3)
        loops[at.C_OUT_ROW], loops[at.C_POOL_OUT_ROW] = _quarter(rs2, 0), _quarter(rs2, 1)
        loops[at.C_OUT_COL] = _quarter(rs2, 2)
        loops[at.C_STRIDE_], loops[at.C_PADDING] = rs2 >> 48 & 0xFF, rs2 >> 56 & 0xFF
    elif funct == rocc.CONV_2:
        loops[at.C_KERNEL], loops[at.C_POOL_OUT_COL] = _quarter(rs1, 3), _quarter(rs1, 2)
        loops[at.C_POOL_SIZE] = _quarter(rs1, 1)
        loops[at.C_POOL_STRIDE], loops[at.C_POOL_PADDING] = rs1 >> 8 & 0xFF, rs1 & 0xFF
        loops[at.C_BATCHES], loops[at.C_POROWS] = _quarter(rs2, 3), _quarter(rs2, 2)
        loops[at.C_POCOLS], loops[at.C_POCHS] = _quarter(rs2, 1), _quarter(rs2, 0)
    elif funct == rocc.CONV_3:
        loops[at.C_KROWS], loops[at.C_KCOLS] = _quarter(rs1, 3), _quarter(rs1, 2)
        loops[at.C_KCHS], loops[at.C_LPAD] = _quarter(rs1, 1), _quarter(rs1, 0)
        loops[at.C_RPAD], loops[at.C_UPAD] = _quarter(rs2, 3), _quarter(rs2, 2)
        loops[at.C_DPAD], loops[at.C_PLPAD] = rs2 >> 24 & 0xFF, rs2 >> 16 & 0xFF
        loops[at.C_IN_COL] = _quarter(rs2, 0)
    elif funct == rocc.CONV_4:
        loops[at.C_OROWS], loops[at.C_PRPAD] = _quarter(rs1, 3), _quarter(rs1, 2)
        loops[at.C_PUPAD], loops[at.C_PDPAD] = rs1 >> 21 & 0xFF, rs1 >> 10 & 0xFF
        loops[at.C_DILATION] = rs1 & 0xFF
        loops[at.C_IN_STRIDE], loops[at.C_WEIGHT_STRIDE] = _quarter(rs2, 3), _quarter(rs2, 2)
        loops[at.C_OUT_STRIDE], loops[at.C_OCOLS] = _quarter(rs2, 1), _quarter(rs2, 0)
    elif funct == rocc.CONV_5:
        loops[at.C_WEIGHTS], loops[at.C_OUTPUT] = rs1, rs2
    else:
        loops[at.C_BIAS], loops[at.C_INPUT] = rs1, rs2


@compiled
def set_register(loops: Int64, funct: int, rs1: int, rs2: int) -> None:
    """One of the instructions before a loop: ``loops`` (LOOPS,) is updated."""
    if funct < rocc.CONV_1:
        _set_matmul(loops, funct, rs1, rs2)
    else:
        _set_conv(loops, funct, rs1, rs2)
