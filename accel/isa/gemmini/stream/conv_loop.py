"""loop_conv_ws as primitive instructions: a convolution of one tile, with its loads, its bias, and with pooling."""

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.stream import conv_loop_shape as of
from accel.isa.gemmini.stream import kernel_layout as at
from accel.isa.gemmini.stream.loop_registers import emit, local, note_block_stride
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64


@compiled
def _config_load(block_stride: int, pixels: int, which: int) -> int:
    return rocc.ONE << 32 | (block_stride & 0xFFFF) << 16 | pixels << 8 | which << 3 | rocc.CONFIG_LD


@compiled
def load_bias(out: Int64, count: int, shape: Int64, loops: Int64, sizes: Int64) -> int:
    """The bias of every output, which a stride of 0 repeats; zeros without one."""
    dim, ochs = sizes[at.DIM], loops[at.C_POCHS]
    orows, ocols, batches = loops[at.C_OROWS], loops[at.C_OCOLS], loops[at.C_BATCHES]
    plane = batches * orows * ocols
    wide = min(ochs, sizes[at.WIDE_WORDS])
    config = _config_load(plane, 1, 2)
    note_block_stride(loops, rocc.CONFIG, config)
    count = emit(out, count, rocc.CONFIG, config, 0)
    for row in range(batches * orows):
        for ocol in range(0, ocols, dim):
            for och in range(0, ochs, max(wide, 1)):
                address = shape[of.D_START] + och // dim * plane + row * ocols + ocol
                place = 0 if shape[of.NO_BIAS] else loops[at.C_BIAS] + och * 4
                operand = local(min(ocols - ocol, dim), min(ochs - och, wide), address)
                count = emit(out, count, rocc.MVIN3, place, operand)
    return count


@compiled
def _columns(shape: Int64, icol: int, dim: int) -> int:
    """Columns of the input that one load takes from ``icol`` on: they are all padding, or none is."""
    inside, right = int(shape[of.ICOLS_UNPADDED]), int(shape[of.RIGHT])
    if icol < 0:
        return min(-icol, dim)
    if icol >= inside:
        return min(inside + right - icol, dim)
    return min(inside - icol, dim << int(shape[of.DOWN]))


@compiled
def load_input(out: Int64, count: int, shape: Int64, loops: Int64, sizes: Int64) -> int:
    """The input; a load takes padding or pixels, not both, and padding is loaded from address 0."""
    dim, down = sizes[at.DIM], shape[of.DOWN]
    transposed = shape[of.TRANS_IN] != 0
    ichs, batches = loops[at.C_KCHS], loops[at.C_BATCHES]
    rows, columns = shape[of.IROWS] >> down, shape[of.ICOLS] >> down
    wide = min(batches if transposed else ichs, sizes[at.WIDE])
    block = (ichs if transposed else batches) * rows * columns
    stride = loops[at.C_BATCH] if transposed else loops[at.C_IN_STRIDE]
    image = loops[at.C_IN_ROW] * loops[at.C_IN_COL]
    config = _config_load(block, shape[of.PIXELS], 0)
    note_block_stride(loops, rocc.CONFIG, config)
    count = emit(out, count, rocc.CONFIG, config, stride << down)
    step_b, step_ch = (max(wide, 1), 1) if transposed else (1, max(wide, 1))
    for b in range(0, batches, step_b):
        for irow in range(-shape[of.UP], shape[of.IROWS_UNPADDED] + shape[of.DOWN_PAD], 1 << down):
            row = irow + shape[of.UP] >> down
            icol = -shape[of.LEFT]
            while icol < shape[of.ICOLS_UNPADDED] + shape[of.RIGHT]:
                taken = _columns(shape, icol, dim)
                column = icol + shape[of.LEFT] >> down
                zeros = irow < 0 or irow >= shape[of.IROWS_UNPADDED] or icol < 0 or icol >= shape[of.ICOLS_UNPADDED]
                pixel = irow * loops[at.C_IN_COL] + icol
                for ich in range(0, ichs, step_ch):
                    if transposed:
                        place = (ich * image + pixel) * loops[at.C_BATCH] + b
                        address, width = b // dim * block + ich * rows * columns, min(batches - b, wide)
                    else:
                        place = (b * image + pixel) * loops[at.C_IN_STRIDE] + ich
                        address, width = ich // dim * block + b * rows * columns, min(ichs - ich, wide)
                    address += shape[of.A_START] + row * columns + column
                    operand = local(taken >> down, width, address)
                    count = emit(out, count, rocc.MVIN, 0 if zeros else loops[at.C_INPUT] + place, operand)
                icol += taken
    return count


@compiled
def _weights_place(shape: Int64, loops: Int64, krow: int, kcol: int, kch: int, och: int) -> int:
    """Bytes from the weights' first."""
    kernel, in_channels, out_channels = int(loops[at.C_KERNEL]), int(loops[at.C_IN_CH]), int(loops[at.C_OUT_CH])
    if shape[of.DEPTHWISE]:
        return krow * kernel + kcol
    if shape[of.TRANS_W1203]:
        return ((kch * kernel + krow) * kernel + kcol) * out_channels + och
    if shape[of.TRANS_W0132]:
        return ((krow * kernel + kcol) * out_channels + och) * in_channels + kch
    return ((krow * kernel + kcol) * in_channels + kch) * int(loops[at.C_WEIGHT_STRIDE]) + och


@compiled
def weights_address(shape: Int64, loops: Int64, krow: int, kcol: int, kch: int, och: int, dim: int) -> int:
    """The local address of a tile of weights."""
    krows, kcols, ochs, kchs = loops[at.C_KROWS], loops[at.C_KCOLS], loops[at.C_POCHS], loops[at.C_KCHS]
    place, start = krow * kcols + kcol, shape[of.B_START]
    if shape[of.TRANS_W0132]:
        return int(start + (kch // dim * krows * kcols + place) * ochs + och)
    return int(start + (och // dim * krows * kcols + place) * kchs + kch)


@compiled
def load_weights(out: Int64, count: int, shape: Int64, loops: Int64, sizes: Int64) -> int:
    """The weights, a tile of input by output channels for each place of the kernel."""
    dim, ochs, kchs = sizes[at.DIM], loops[at.C_POCHS], loops[at.C_KCHS]
    swapped = shape[of.TRANS_W0132] != 0
    wide = min(kchs if swapped else ochs, sizes[at.WIDE])
    stride = loops[at.C_WEIGHT_STRIDE]
    if shape[of.DEPTHWISE]:
        stride = 1
    elif shape[of.TRANS_W1203]:
        stride = loops[at.C_KERNEL] * loops[at.C_KERNEL] * loops[at.C_OUT_CH]
    elif swapped:
        stride = loops[at.C_IN_CH]
    block = loops[at.C_KROWS] * loops[at.C_KCOLS] * (ochs if swapped else kchs)
    config = _config_load(block, 1, 1)
    note_block_stride(loops, rocc.CONFIG, config)
    count = emit(out, count, rocc.CONFIG, config, stride)
    step_o, step_k = (dim, max(wide, 1)) if swapped else (max(wide, 1), dim)
    for och in range(0, ochs, step_o):
        for krow in range(loops[at.C_KROWS]):
            for kcol in range(loops[at.C_KCOLS]):
                for kch in range(0, kchs, step_k):
                    rows = min(ochs - och if swapped else kchs - kch, dim)
                    columns = min(kchs - kch if swapped else ochs - och, wide)
                    place = loops[at.C_WEIGHTS] + _weights_place(shape, loops, krow, kcol, kch, och)
                    address = weights_address(shape, loops, krow, kcol, kch, och, dim)
                    count = emit(out, count, rocc.MVIN2, place, local(rows, columns, address))
    return count


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
                stationary = local(depth, width, weights if first else rocc.GARBAGE)
                count = emit(out, count, rocc.PRELOAD, stationary, local(height, width, c))
                funct = rocc.COMPUTE_PRELOADED if first else rocc.COMPUTE_ACCUMULATED
                count = emit(out, count, funct, local(height, depth, a), local(height, width, rocc.GARBAGE))
                ocol += step
                first = False
    return count


@compiled
def compute(out: Int64, count: int, shape: Int64, loops: Int64, dim: int) -> int:
    """The products, a tile of weights after the other."""
    if shape[of.TRANS_IN]:
        strides = (shape[of.IROWS] * shape[of.ICOLS] & 0xFFFF) << 16 | 1 << 7
        results = (loops[at.C_OROWS] * loops[at.C_OCOLS] & 0xFFFF) << 48
        count = emit(out, count, rocc.CONFIG, strides | rocc.CONFIG_EX, results)
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
def store(out: Int64, count: int, shape: Int64, loops: Int64, dim: int) -> int:
    """The stores of all outputs."""
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
                    count = emit(out, count, rocc.MVOUT, loops[at.C_OUTPUT] + place, operand)
    return count


@compiled
def store_pooled(out: Int64, count: int, shape: Int64, loops: Int64, dim: int) -> int:
    """The stores of all pooled outputs, and what configures them before and after."""
    batches, ochs = loops[at.C_BATCHES], loops[at.C_POCHS]
    orows, ocols = loops[at.C_OROWS], loops[at.C_OCOLS]
    plain = shape[of.ACTIVATION] << 2 | rocc.CONFIG_ST
    stride = rocc.KEEP_SCALE << 32 | loops[at.C_OUT_STRIDE]
    sizes = (ocols & 0xFF) << 56 | (orows & 0xFF) << 48 | (loops[at.C_POCOLS] & 0xFF) << 40
    sizes |= (loops[at.C_POROWS] & 0xFF) << 32 | (loops[at.C_POOL_OUT_COL] & 0xFF) << 24
    window = (loops[at.C_PLPAD] & 3) << 10 | (loops[at.C_PUPAD] & 3) << 8
    window |= (loops[at.C_POOL_SIZE] & 3) << 6 | (loops[at.C_POOL_STRIDE] & 3) << 4
    count = emit(out, count, rocc.CONFIG, sizes | window | plain, stride)
    image = loops[at.C_POOL_OUT_ROW] * loops[at.C_POOL_OUT_COL]
    for b in range(batches):
        for och in range(0, ochs, dim):
            address = shape[of.C_START] + (och // dim * batches + b) * orows * ocols
            place = loops[at.C_OUTPUT] + b * image * loops[at.C_OUT_STRIDE] + och
            count = emit(out, count, rocc.MVOUT, place, local(0, min(ochs - och, dim), address))
    return emit(out, count, rocc.CONFIG, plain, stride)


@compiled
def expand_conv(out: Int64, count: int, shape: Int64, loops: Int64, sizes: Int64) -> int:
    """Write the primitive instructions of a loop_conv_ws from ``count`` on; the count after them."""
    if loops[at.C_BIAS] != 0:
        count = load_bias(out, count, shape, loops, sizes)
    if loops[at.C_INPUT] != 0:
        count = load_input(out, count, shape, loops, sizes)
    if loops[at.C_WEIGHTS] != 0:
        count = load_weights(out, count, shape, loops, sizes)
    count = compute(out, count, shape, loops, sizes[at.DIM])
    if loops[at.C_OUTPUT] != 0:
        if shape[of.POOLED]:
            return store_pooled(out, count, shape, loops, sizes[at.DIM])
        return store(out, count, shape, loops, sizes[at.DIM])
    return count
