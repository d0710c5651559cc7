"""Arrays that Gemmini's kernels share: what their places hold."""

# the configuration, (CONFIGURATION,) int64
WS, SYS_ACT, SYS_SHIFT, A_TRANSPOSE, B_TRANSPOSE, A_STRIDE, C_STRIDE = range(7)
LD_STRIDE, LD_BLOCK, LD_SHRUNK, LD_PIXELS = 7, 10, 13, 16  # three each
ST_STRIDE, ACC_ACT, POOL_STRIDE, POOL_SIZE, UPAD, LPAD, POOL_OUT, POROWS, POCOLS, OROWS, OCOLS = range(19, 30)
STAT, QB, QC, QLN2, QLN2_INV = range(30, 35)
PRE_ADDR, PRE_ROWS, PRE_COLS, OUT_ADDR, OUT_ROWS, OUT_COLS = range(35, 41)
CONFIGURATION = 41
# scales, (SCALES,) float32: of mvin, mvin2, mvin3, and of mvout
LD_SCALE, ST_SCALE = 0, 3
SCALES = 4

# the loops' registers, (LOOPS,) int64
L_I, L_J, L_K, L_PAD_I, L_PAD_J, L_PAD_K, L_A, L_B, L_D, L_C, L_A_STRIDE, L_B_STRIDE, L_D_STRIDE, L_C_STRIDE = range(14)
C_BATCH, C_IN_ROW, C_IN_CH, C_OUT_CH, C_OUT_ROW, C_POOL_OUT_ROW, C_OUT_COL, C_STRIDE_, C_PADDING = range(14, 23)
C_KERNEL, C_POOL_OUT_COL, C_POOL_SIZE, C_POOL_STRIDE, C_POOL_PADDING = range(23, 28)
C_BATCHES, C_POROWS, C_POCOLS, C_POCHS, C_KROWS, C_KCOLS, C_KCHS, C_LPAD, C_RPAD, C_UPAD, C_DPAD = range(28, 39)
C_PLPAD, C_IN_COL, C_OROWS, C_PRPAD, C_PUPAD, C_PDPAD, C_DILATION = range(39, 46)
C_IN_STRIDE, C_WEIGHT_STRIDE, C_OUT_STRIDE, C_OCOLS, C_WEIGHTS, C_OUTPUT, C_BIAS, C_INPUT = range(46, 54)
HALF_D, HALF_C, HALF_LOOP, HALF_MATMUL_D, HALF_MATMUL_C = range(54, 59)  # which half of a memory is next
BLOCK_STRIDE = 59  # of the three loads, rows and one; 0: nothing was configured, and it is dim
LOOPS = 62

# sizes that kernels need, (SIZES,) int64
DIM, SP_ROWS, ACC_ROWS, WIDE, WIDE_WORDS = range(5)
RELU_FIRST, SHIFT_ALL, NORMALISES = 5, 6, 7
SIZES = 8
