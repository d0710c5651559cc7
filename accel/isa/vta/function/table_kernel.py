"""A launch's table as one pass over its words; :mod:`accel.isa.vta.function.launch_table` makes the arrays."""

import numpy as np
import numpy.typing as npt

from accel.isa.kernels.compiled_kernels import compiled
from accel.isa.vta.function.functional_table import (
    ALU,
    BEGIN,
    BOTH,
    CODE,
    COLUMNS,
    COUNT,
    DRAM,
    DST_IN,
    DST_LIMIT,
    DST_OUT,
    GEMM,
    HEIGHT,
    INNER,
    NO_LIMIT,
    NOTHING,
    OP,
    OUTER,
    RESET,
    ROWS,
    SRAM,
    SRC_IN,
    SRC_LIMIT,
    SRC_OUT,
    STRIDE,
    USE_IMM,
    WGT_IN,
    WGT_LIMIT,
    WGT_OUT,
    WIDTH,
    WITH_DST,
)
from accel.util.arrays import Int64, Words

# columns of the fields: a field's value, shifted left by UP, then right by DOWN, is added SIGN times
FIELD = 6
COLUMN, WORD, UP, DOWN, SIGNED, SIGN = range(FIELD)
# columns of an instruction's constants: its operation, the depth of the memory that it copies to or from or that its
# micro-ops are in, the bytes of an element in DRAM, the depths of its operands' memories, and USE_IMM of an immediate
CONSTANT = 7
OPERATION, DEPTH, BYTES, DST_DEPTH, SRC_DEPTH, WGT_DEPTH, IMMEDIATE = range(CONSTANT)
# where a row has what the kernel alone needs: padding of a copy that takes none, and whether the matrix is zeroed
PADDED, ZEROES = WGT_IN, USE_IMM
# what is wrong: nothing; a range in DRAM, in a memory, padding, the micro-ops' end, their begin, an ALU operation
GOOD, BAD_DRAM, BAD_MEMORY, BAD_PADDING, BAD_END, BAD_BEGIN, BAD_CODE = range(7)


@compiled
def fill_table(  # noqa: C901, PLR0912  one pass: what an instruction is taken apart by
    kind: npt.NDArray[np.int16],
    words: Words,
    fields: Int64,
    starts: Int64,
    constants: Int64,
    codes: Int64,
    dram_bytes: int,
    table: Int64,
) -> tuple[int, int, int]:
    """Fill ``table`` (n, TABLE), which is zero, of a launch of n instructions.

    Kind k has the rows ``[starts[k], starts[k + 1])`` of ``fields``. ``codes`` are the operations of the values of the
    ALU's opcode, -1 where there is none.

    Returns what is wrong, the instruction, and the number that is. Ranges that the fields alone determine come first.
    """
    wrong, at, number = GOOD, 0, 0
    for row in range(len(kind)):
        of, entry = kind[row], table[row]
        for index in range(starts[of], starts[of + 1]):
            field = fields[index]
            shifted = words[row, field[WORD]] << np.uint64(field[UP])
            value = np.int64(shifted) >> field[DOWN] if field[SIGNED] else np.int64(shifted >> np.uint64(field[DOWN]))
            entry[field[COLUMN]] += field[SIGN] * value
        limits = constants[of]
        operation = limits[OPERATION]
        entry[OP] = operation
        if operation == NOTHING:
            continue
        if operation < GEMM:
            padded = entry[PADDED]
            entry[PADDED] = 0
            if entry[ROWS] * entry[COLUMNS] == 0:
                entry[:] = 0
                continue
            end = (entry[DRAM] + (entry[ROWS] - 1) * entry[STRIDE] + entry[COLUMNS]) * limits[BYTES]
            if end > dram_bytes:
                return BAD_DRAM, row, end - 1
            last = entry[SRAM] + entry[HEIGHT] * entry[WIDTH] - 1
            if last >= limits[DEPTH]:
                return BAD_MEMORY, row, last
            if padded:
                return BAD_PADDING, row, 0
            continue
        last = entry[BEGIN] + entry[COUNT] - 1
        if last >= limits[DEPTH]:
            return BAD_END, row, last
        if entry[COUNT] < 0:
            return BAD_BEGIN, row, last + 1
        if entry[OUTER] * entry[INNER] == 0:
            entry[COUNT] = 0
        outer, inner = entry[OUTER] - 1, entry[INNER] - 1
        entry[DST_LIMIT] = limits[DST_DEPTH] - 1 - outer * entry[DST_OUT] - inner * entry[DST_IN]
        entry[SRC_LIMIT] = limits[SRC_DEPTH] - 1 - outer * entry[SRC_OUT] - inner * entry[SRC_IN]
        entry[WGT_LIMIT] = NO_LIMIT
        if operation == ALU:
            entry[USE_IMM] = limits[IMMEDIATE] if entry[USE_IMM] else BOTH
            if entry[USE_IMM] == WITH_DST:
                entry[SRC_LIMIT] = NO_LIMIT
            code = codes[entry[CODE]] if entry[CODE] < len(codes) else -1
            if code < 0 and wrong == GOOD:
                wrong, at, number = BAD_CODE, row, entry[CODE]
            entry[CODE] = code
        elif entry[ZEROES]:
            entry[ZEROES] = 0
            entry[OP] = RESET
            entry[SRC_LIMIT] = NO_LIMIT
        else:
            entry[WGT_LIMIT] = limits[WGT_DEPTH] - 1 - outer * entry[WGT_OUT] - inner * entry[WGT_IN]
    return wrong, at, number
