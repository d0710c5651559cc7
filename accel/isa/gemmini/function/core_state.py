"""Everything that an instruction can touch, as the compiled functions take it."""

from typing import NamedTuple

import numpy as np

from accel.isa.gemmini.document.gemmini_parameters import STATISTICS, GemminiParameters
from accel.isa.gemmini.stream.configuration_registers import reset_registers, sizes
from accel.isa.kernels.kernel_types import BYTES, MATRIX, VECTOR, WORD_MATRIX, WORDS, Array, Fields
from accel.util.arrays import Bytes, Float32, Int8, Int32, Int64

# columns of the statistics, and of their reciprocals
TOTAL, COUNT, RUNNING_MAX, MEAN, MAX, FRESH = range(6)
COLUMNS = 6
BY_DEVIATION, BY_SUM = range(2)


class Core(NamedTuple):
    """The arrays of one accelerator, and DRAM.

    Attributes:
        sizes: (SIZES,) what it was built with.
        state: (CONFIGURATION,) what config and preload left.
        bits: (SCALES,) the scales as bits.
        scales: (SCALES,) the same memory as floats.
        spad: (rows, dim) the scratchpad.
        acc: (rows, dim) the accumulator.
        dram: (bytes,)
        mesh: (dim, dim) what the processing elements hold.
        left: (dim, dim) room for an operand.
        right: (dim, dim) room for an operand.
        result: (dim, dim) room for a result.
        statistics: (STATISTICS, COLUMNS) of the normalisations.
        reciprocals: (STATISTICS, 2) by which they scale.
    """

    sizes: Int64
    state: Int64
    bits: Int32
    scales: Float32
    spad: Int8
    acc: Int32
    dram: Bytes
    mesh: Int32
    left: Int32
    right: Int32
    result: Int32
    statistics: Int64
    reciprocals: Float32


CORE = Fields(
    Core,
    (
        VECTOR,
        VECTOR,
        WORDS,
        Array("float32", 1),
        Array("int8", 2),
        WORD_MATRIX,
        BYTES,
        WORD_MATRIX,
        WORD_MATRIX,
        WORD_MATRIX,
        WORD_MATRIX,
        MATRIX,
        Array("float32", 2),
    ),
)
"""Their types, field by field."""


def new_core(parameters: GemminiParameters) -> Core:
    """As after power-on, memories zero and nothing configured, without DRAM."""
    dim = parameters.dim
    state, bits = reset_registers(parameters)
    statistics = np.zeros((STATISTICS, COLUMNS), np.int64)
    statistics[:, FRESH] = 1
    return Core(
        sizes=sizes(parameters),
        state=state,
        bits=bits,
        scales=bits.view(np.float32),
        spad=np.zeros((parameters.scratchpad_rows, dim), np.int8),
        acc=np.zeros((parameters.accumulator_rows, dim), np.int32),
        dram=np.zeros(0, np.uint8),
        mesh=np.zeros((dim, dim), np.int32),
        left=np.zeros((dim, dim), np.int32),
        right=np.zeros((dim, dim), np.int32),
        result=np.zeros((dim, dim), np.int32),
        statistics=statistics,
        reciprocals=np.zeros((STATISTICS, 2), np.float32),
    )
