"""loop_conv_ws as primitive instructions: a convolution of one tile, with its bias, and with pooling.

Order and addresses are those of libgemmini's ``loop_conv_ws``; gemmini ``LoopConv.scala`` emits the same.
"""

import numpy as np
import numpy.typing as npt

from accel.isa.compiled import compiled
from accel.isa.gemmini import conv_shape as of
from accel.isa.gemmini import layout as at
from accel.isa.gemmini.conv_loads import load_bias, load_input, load_weights, weights_address
from accel.isa.gemmini.loop_registers import emit, local

Int64 = npt.NDArray[np.int64]


@compiled
def _products(
    out: Int64, count: int, shape: Int64, loops: Int64, where: tuple[int, int, int, int], weights: int, dim: int
) -> int:
    """The preloads and computes of all outputs under one tile of weights."""
    och, krow, kcol, kch = where
    dilated, down, transposed = shape[of.DILATED], shape[of.DOWN], shape[of.TRANS_IN] != 0
    batches, orows, ocols = loops[at.C_BATCHES], loops[at.C_OROWS], loops[at.C_OCOLS]
    rows, columns = shape[of.IROWS] >> down, shape[of.ICOLS] >> down
    step = 1 if transposed else dim << dilated
    width = min(loops[at.C_POCHS] - och, dim)
    depth = min(loops[at.C_KCOLS] - kcol, shape[of.PIXELS]) * min(loops[at.C_KCHS] - kch, dim)
    first = True
    for b in range(0, batches, dim if transposed else 1):
        for orow in range(orows):
            if dilated and krow * loops[at.C_DILATION] + orow - loops[at.C_UPAD] & 1:
                continue
            irow = (orow * loops[at.C_STRIDE_] + krow * loops[at.C_DILATION] + dilated >> dilated) >> down
            ocol = 0
            while ocol < ocols:
                if dilated and kcol * loops[at.C_DILATION] + ocol - loops[at.C_LPAD] & 1:
                    ocol += 1
                    continue
                icol = (ocol * loops[at.C_STRIDE_] + kcol * loops[at.C_DILATION] + dilated >> dilated) >> down
                height = min(ocols - ocol, dim << dilated) + dilated >> dilated
                a = kch // dim * batches + b
                if transposed:
                    height, a = min(batches - b, dim), b // dim * loops[at.C_KCHS] + kch
                a = shape[of.A_START] + (a * rows + irow) * columns + icol
                c = shape[of.C_START] + ((och // dim * batches + b) * orows + orow) * ocols + ocol
                stationary = local(depth, width, weights if first else at.GARBAGE)
                count = emit(out, count, at.PRELOAD, stationary, local(height, width, c))
                funct = at.COMPUTE_PRELOADED if first else at.COMPUTE_ACCUMULATED
                count = emit(out, count, funct, local(height, depth, a), local(height, width, at.GARBAGE))
                ocol += step
                first = False
    return count


@compiled
def _compute(out: Int64, count: int, shape: Int64, loops: Int64, dim: int) -> int:
    if shape[of.TRANS_IN]:
        strides = (shape[of.IROWS] * shape[of.ICOLS] & 0xFFFF) << 16 | 1 << 7
        results = (loops[at.C_OROWS] * loops[at.C_OCOLS] & 0xFFFF) << 48
        count = emit(out, count, at.CONFIG, strides | at.CONFIG_EX, results)
    krows, kcols = loops[at.C_KROWS], loops[at.C_KCOLS]
    for och in range(0, loops[at.C_POCHS], dim):
        for krow in range(krows):
            for kcol in range(0, kcols, shape[of.PIXELS]):
                for kch in range(0, loops[at.C_KCHS], dim):
                    row, column = (krows - 1 - krow, kcols - 1 - kcol) if shape[of.WROT180] else (krow, kcol)
                    weights = weights_address(shape, loops, row, column, kch, och, dim)
                    count = _products(out, count, shape, loops, (och, krow, kcol, kch), weights, dim)
    return count


@compiled
def _store(out: Int64, count: int, shape: Int64, loops: Int64, dim: int) -> int:
    batches, orows, ocols, ochs = loops[at.C_BATCHES], loops[at.C_OROWS], loops[at.C_OCOLS], loops[at.C_POCHS]
    image = loops[at.C_OUT_ROW] * loops[at.C_OUT_COL]
    for b in range(batches):
        for orow in range(orows):
            for ocol in range(0, ocols, dim):
                for och in range(0, ochs, dim):
                    address = shape[of.C_START] + ((och // dim * batches + b) * orows + orow) * ocols + ocol
                    pixel = orow * loops[at.C_OUT_COL] + ocol
                    place = (b * image + pixel) * loops[at.C_OUT_STRIDE] + och
                    if shape[of.TRANS_OUT]:
                        place = (pixel * loops[at.C_BATCH] + b) * loops[at.C_OUT_CH] + och
                    operand = local(min(ocols - ocol, dim), min(ochs - och, dim), address)
                    count = emit(out, count, at.MVOUT, loops[at.C_OUTPUT] + place, operand)
    return count


@compiled
def _store_pooled(out: Int64, count: int, shape: Int64, loops: Int64, dim: int) -> int:
    batches, ochs = loops[at.C_BATCHES], loops[at.C_POCHS]
    orows, ocols = loops[at.C_OROWS], loops[at.C_OCOLS]
    plain = shape[of.ACTIVATION] << 2 | at.CONFIG_ST
    stride = at.KEEP_SCALE << 32 | loops[at.C_OUT_STRIDE]
    sizes = (ocols & 0xFF) << 56 | (orows & 0xFF) << 48 | (loops[at.C_POCOLS] & 0xFF) << 40
    sizes |= (loops[at.C_POROWS] & 0xFF) << 32 | (loops[at.C_POOL_OUT_COL] & 0xFF) << 24
    window = (loops[at.C_PLPAD] & 3) << 10 | (loops[at.C_PUPAD] & 3) << 8
    window |= (loops[at.C_POOL_SIZE] & 3) << 6 | (loops[at.C_POOL_STRIDE] & 3) << 4
    count = emit(out, count, at.CONFIG, sizes | window | plain, stride)
    image = loops[at.C_POOL_OUT_ROW] * loops[at.C_POOL_OUT_COL]
    for b in range(batches):
        for och in range(0, ochs, dim):
            address = shape[of.C_START] + (och // dim * batches + b) * orows * ocols
            place = loops[at.C_OUTPUT] + b * image * loops[at.C_OUT_STRIDE] + och
            count = emit(out, count, at.MVOUT, place, local(0, min(ochs - och, dim), address))
    return emit(out, count, at.CONFIG, plain, stride)


@compiled
def expand_conv(out: Int64, count: int, shape: Int64, loops: Int64, sizes: Int64) -> int:
    """Write the primitive instructions of a loop_conv_ws from ``count`` on; the count after them."""
    if loops[at.C_BIAS] != 0:
        count = load_bias(out, count, shape, loops, sizes)
    if loops[at.C_INPUT] != 0:
        count = load_input(out, count, shape, loops, sizes)
    if loops[at.C_WEIGHTS] != 0:
        count = load_weights(out, count, shape, loops, sizes)
    count = _compute(out, count, shape, loops, sizes[at.DIM])
    if loops[at.C_OUTPUT] != 0:
        if shape[of.POOLED]:
            return _store_pooled(out, count, shape, loops, sizes[at.DIM])
        return _store(out, count, shape, loops, sizes[at.DIM])
    return count
