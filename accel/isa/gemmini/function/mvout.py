"""What mvout does (libgemmini ``mvout``): from either memory to DRAM, with pooling, activations and normalisations.

The normalisations are I-BERT's integer GELU, softmax and layernorm. A design with ``normalizations`` does the last two
as the RTL does (AccumulatorScale.scala): what a statistic scales is rounded, and nothing scales it again. Without them
they are libgemmini's, which truncates what it makes of a layernorm, and has the scale of config_st behind both.
"""

import math

import numpy as np

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.function.core_state import (
    BY_DEVIATION,
    BY_SUM,
    COUNT,
    FRESH,
    MAX,
    MEAN,
    RUNNING_MAX,
    TOTAL,
    Core,
)
from accel.isa.gemmini.function.mvin import saturated
from accel.isa.gemmini.stream import kernel_layout as at
from accel.isa.gemmini.stream.configuration_registers import before_the_last, signed32
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Bytes, Int32, Int64

_LOWEST = -(1 << 31)


@compiled
def _truncated(value: np.float32) -> int:
    """A float as int32; what does not fit is the lowest one, as in C on x86."""
    if not (np.float32(-2147483648.0) <= value < np.float32(2147483648.0)):
        return _LOWEST
    return int(np.int64(value))


@compiled
def _gelu(value: int, state: Int64) -> int:
    qb, qc = state[at.QB], state[at.QC]
    clipped = min(signed32(abs(value)), signed32(-qb))
    root = signed32(clipped + qb)
    polynomial = signed32(signed32(root * root) + qc)
    erf = -polynomial if value < 0 else polynomial
    return signed32(value * signed32(erf + qc))


@compiled
def _exp(value: int, state: Int64) -> int:
    value = signed32(value)
    z = signed32(signed32(-value) * state[at.QLN2_INV]) >> 16
    rest = signed32(value + signed32(z * state[at.QLN2]))
    root = signed32(rest + state[at.QB])
    return signed32(signed32(root * root) + state[at.QC]) >> (z & 31)


@compiled
def activated(core: Core, value: int) -> int:
    """An accumulator's element before it is scaled, by the activation that config_st and config_norm chose."""
    state, stat = core.state, core.state[at.STAT]
    if state[at.ACC_ACT] == rocc.IGELU:
        return _gelu(value, state)
    if state[at.ACC_ACT] == rocc.LAYERNORM:
        centred = np.float32(signed32(value - core.statistics[stat, MEAN])) * core.reciprocals[stat, BY_DEVIATION]
        return int(np.int64(saturated(centred))) if core.sizes[at.NORMALISES] else _truncated(centred)
    if state[at.ACC_ACT] == rocc.SOFTMAX:
        share = np.float32(_exp(value - core.statistics[stat, MAX], state)) * core.reciprocals[stat, BY_SUM]
        return int(np.int64(saturated(share)))
    return value


@compiled
def _quotient(value: int, by: int) -> int:
    """Division that truncates, as C's does."""
    quotient = abs(value) // abs(by)
    return quotient if (value < 0) == (by < 0) else -quotient


@compiled
def _finish(core: Core, command: int) -> None:
    stat = core.state[at.STAT]
    row, reciprocals = core.statistics[stat], core.reciprocals[stat]
    if command == rocc.MEAN:
        row[MEAN] = _quotient(row[TOTAL], row[COUNT])
    elif command == rocc.INV_STDDEV:
        variance = _quotient(row[TOTAL], row[COUNT])
        deviation = np.int64(math.sqrt(np.float64(variance))) if variance > 0 else _LOWEST
        deviation = 1 if variance == 0 else deviation
        reciprocals[BY_DEVIATION] = np.float32(1.0) / np.float32(deviation)
    elif command == rocc.INV_SUM_EXP:
        row[RUNNING_MAX] = _LOWEST
        total = np.float32(row[TOTAL])
        reciprocals[BY_SUM] = np.float32(127.0) / total if total != 0 else np.float32(np.inf)


@compiled
def observe(core: Core, place: int, columns: int, command: int) -> None:
    """Take ``columns`` elements of the accumulator's row ``place`` into the statistics."""
    row = core.statistics[core.state[at.STAT]]
    if row[FRESH]:
        row[TOTAL], row[COUNT], row[RUNNING_MAX] = 0, 0, _LOWEST
    row[FRESH] = command in (rocc.RESET, rocc.MEAN, rocc.INV_STDDEV)
    if command == rocc.RESET:
        return
    if command in (rocc.SUM_EXP, rocc.INV_SUM_EXP):
        row[MAX] = row[RUNNING_MAX]
    for c in range(columns):
        value = np.int64(core.acc[place, c])
        if command in (rocc.SUM, rocc.MEAN):
            row[TOTAL] = signed32(row[TOTAL] + value)
        elif command in (rocc.VARIANCE, rocc.INV_STDDEV):
            centred = signed32(value - row[MEAN])
            row[TOTAL] = signed32(row[TOTAL] + centred * centred)
        elif command == rocc.MAX:
            row[RUNNING_MAX] = max(row[RUNNING_MAX], value)
        else:
            row[TOTAL] = signed32(row[TOTAL] + _exp(value - row[MAX], core.state))
    if command in (rocc.SUM, rocc.MEAN, rocc.VARIANCE, rocc.INV_STDDEV):
        row[COUNT] = signed32(row[COUNT] + columns)
    _finish(core, command)


@compiled
def _scaled(acc: Int32, row: int, columns: int, dram: Bytes, place: int, scale: np.float32, relu: int) -> None:
    """One row of at most ``dim`` elements as int8; ``relu`` is 0 for none, 1 after the scale, 2 before it."""
    before = np.int32(0) if relu == 2 else np.int32(-(1 << 31))
    after = np.float32(0.0) if relu == 1 else np.float32(-128.0)
    for c in range(columns):
        value = saturated(np.float32(max(acc[row, c], before)) * scale)
        dram[np.uintp(place + c)] = np.uint8(np.int8(max(value, after)))


@compiled
def _special(core: Core, row: int, place: int, columns: int, full: int) -> None:
    """One row with another activation than ReLU, or at full width."""
    scale = core.scales[at.ST_SCALE]
    if core.sizes[at.NORMALISES] and core.state[at.ACC_ACT] in (rocc.LAYERNORM, rocc.SOFTMAX):
        scale = np.float32(1.0)
    for c in range(columns):
        value = activated(core, int(np.int64(core.acc[row, c])))
        if not full:
            core.dram[place + c] = np.uint8(np.int8(saturated(np.float32(value) * scale)))
        else:
            for byte in range(4):
                core.dram[place + 4 * c + byte] = np.uint8(value >> 8 * byte & 0xFF)


@compiled
def relu_mode(core: Core) -> int:
    """0 for no ReLU, 1 for one after the scale, 2 for one before it."""
    if core.state[at.ACC_ACT] != rocc.RELU:
        return 0
    return 2 if core.sizes[at.RELU_FIRST] else 1


@compiled
def _observe_row(core: Core, row: int, columns: int, command: int) -> None:
    """A row in blocks of ``dim``, each ``dim`` rows below the last, into the statistics."""
    dim = core.spad.shape[1]
    for first in range(0, columns, dim):
        step = command if first + dim >= columns else before_the_last(command)
        observe(core, row + first, min(columns - first, dim), step)


@compiled
def _plain(core: Core, rs1: int, rs2: int) -> None:
    dim = core.spad.shape[1]
    base, columns, rows = rs2 & rocc.STORE_ROW, rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF
    accumulator, full, command = rs2 & rocc.ACCUMULATOR, rs2 & rocc.FULL, rs2 >> 26 & 7
    size = 4 if accumulator and full else 1
    special = full or core.state[at.ACC_ACT] > rocc.RELU
    relu = relu_mode(core)
    if accumulator and command != rocc.RESET:
        for r in range(rows):
            _observe_row(core, base + r, columns, command)
        return
    if accumulator and rows > 0 and columns > 0:
        observe(core, base, 0, rocc.RESET)
    for r in range(rows):
        for first in range(0, columns, dim):
            width, row = min(columns - first, dim), base + first + r
            place = rs1 + r * core.state[at.ST_STRIDE] + first * size
            if not accumulator:
                for c in range(width):
                    core.dram[np.uintp(place + c)] = np.uint8(core.spad[row, c])
            elif special:
                _special(core, row, place, width, full)
            else:
                _scaled(core.acc, row, width, core.dram, place, core.scales[at.ST_SCALE], relu)


@compiled
def _element(core: Core, accumulator: int, row: int, column: int, relu: int) -> int:
    """One element as int8."""
    if not accumulator:
        return int(np.int64(core.spad[row, column]))
    word = int(np.int64(core.acc[row, column]))
    word = 0 if relu == 2 and word < 0 else word
    value = int(np.int64(saturated(np.float32(word) * core.scales[at.ST_SCALE])))
    return 0 if relu == 1 and value < 0 else value


@compiled
def _pooled(core: Core, rs1: int, rs2: int) -> None:
    """The largest of each window; what lies outside of the image counts as 0."""
    state, relu = core.state, relu_mode(core)
    base, columns, accumulator = rs2 & rocc.STORE_ROW, rs2 >> 32 & 0xFFFF, rs2 & rocc.ACCUMULATOR
    size, stride = state[at.POOL_SIZE], state[at.POOL_STRIDE]
    for prow in range(state[at.POROWS]):
        for pcol in range(state[at.POCOLS]):
            place = rs1 + (prow * state[at.POOL_OUT] + pcol) * state[at.ST_STRIDE]
            for c in range(columns):
                largest = -128
                for w in range(size * size):
                    orow = prow * stride + w // size - state[at.UPAD]
                    ocol = pcol * stride + w % size - state[at.LPAD]
                    value = 0
                    if 0 <= orow < state[at.OROWS] and 0 <= ocol < state[at.OCOLS]:
                        value = _element(core, accumulator, base + orow * state[at.OCOLS] + ocol, c, relu)
                    largest = max(largest, value)
                core.dram[place + c] = np.uint8(largest & 0xFF)


@compiled
def mvout(core: Core, rs1: int, rs2: int) -> None:
    """Run a mvout."""
    if core.state[at.POOL_STRIDE] != 0:
        _pooled(core, rs1, rs2)
    else:
        _plain(core, rs1, rs2)
