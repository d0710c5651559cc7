"""The arrays of VTA's functional kernel: what their columns hold."""

# columns of the instruction table
TABLE = 17
OP = 0
SRAM, DRAM, ROWS, COLUMNS, STRIDE, TOP, LEFT, HEIGHT, WIDTH = range(1, 10)
BEGIN, COUNT, OUTER, INNER, DST_OUT, DST_IN, SRC_OUT, SRC_IN, WGT_OUT, WGT_IN = range(1, 11)
DST_LIMIT, SRC_LIMIT, WGT_LIMIT, CODE, USE_IMM, IMM = range(11, TABLE)
# values of OP
NOTHING, LOAD_UOP, LOAD_INP, LOAD_WGT, LOAD_ACC, LOAD_ACC8, STORE, GEMM, RESET, ALU = range(10)
# values of USE_IMM: the second operand is src; it is IMM and the first is dst; it is IMM and the first is src
BOTH, WITH_DST, WITH_SRC = range(3)
# values of CODE
MIN, MAX, ADD, SHIFT_RIGHT, MULTIPLY = range(5)
# the status: which index was out of range, at which instruction and micro-op, its value
STATUS = 4
FINE, BAD_DST, BAD_SRC, BAD_WGT = range(4)
