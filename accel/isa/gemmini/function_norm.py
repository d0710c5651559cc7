"""Normalisations on the way out of the accumulator: I-BERT's integer GELU, softmax and layernorm.

libgemmini ``apply_pre_activation_acc``, ``apply_norm``; int32 wraps around, and a shift takes the low five bits, as
on the processors that libgemmini runs on.
"""

import math

import numpy as np
import numpy.typing as npt

from accel.isa.compiled import compiled
from accel.isa.gemmini import layout as at
from accel.isa.gemmini.configure import signed32
from accel.isa.gemmini.core import BY_DEVIATION, BY_SUM, COUNT, FRESH, MAX, MEAN, RUNNING_MAX, TOTAL, Core
from accel.isa.gemmini.function_load import saturated

Int64 = npt.NDArray[np.int64]

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
    if state[at.ACC_ACT] == at.IGELU:
        return _gelu(value, state)
    if state[at.ACC_ACT] == at.LAYERNORM:
        centred = np.float32(signed32(value - core.statistics[stat, MEAN]))
        return _truncated(centred * core.reciprocals[stat, BY_DEVIATION])
    if state[at.ACC_ACT] == at.SOFTMAX:
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
    if command == at.MEAN:
        row[MEAN] = _quotient(row[TOTAL], row[COUNT])
    elif command == at.INV_STDDEV:
        variance = _quotient(row[TOTAL], row[COUNT])
        deviation = np.int64(math.sqrt(np.float64(variance))) if variance > 0 else _LOWEST
        deviation = 1 if variance == 0 else deviation
        reciprocals[BY_DEVIATION] = np.float32(1.0) / np.float32(deviation)
    elif command == at.INV_SUM_EXP:
        row[RUNNING_MAX] = _LOWEST
        total = np.float32(row[TOTAL])
        reciprocals[BY_SUM] = np.float32(127.0) / total if total != 0 else np.float32(np.inf)


@compiled
def observe(core: Core, place: int, columns: int, command: int) -> None:
    """Take ``columns`` elements of the accumulator's row ``place`` into the statistics."""
    row = core.statistics[core.state[at.STAT]]
    if row[FRESH]:
        row[TOTAL], row[COUNT], row[RUNNING_MAX] = 0, 0, _LOWEST
    row[FRESH] = command in (at.RESET, at.MEAN, at.INV_STDDEV)
    if command == at.RESET:
        return
    if command in (at.SUM_EXP, at.INV_SUM_EXP):
        row[MAX] = row[RUNNING_MAX]
    for c in range(columns):
        value = np.int64(core.acc[place, c])
        if command in (at.SUM, at.MEAN):
            row[TOTAL] = signed32(row[TOTAL] + value)
        elif command in (at.VARIANCE, at.INV_STDDEV):
            centred = signed32(value - row[MEAN])
            row[TOTAL] = signed32(row[TOTAL] + centred * centred)
        elif command == at.MAX:
            row[RUNNING_MAX] = max(row[RUNNING_MAX], value)
        else:
            row[TOTAL] = signed32(row[TOTAL] + _exp(value - row[MAX], core.state))
    if command in (at.SUM, at.MEAN, at.VARIANCE, at.INV_STDDEV):
        row[COUNT] = signed32(row[COUNT] + columns)
    _finish(core, command)


@compiled
def before_the_last(command: int) -> int:
    """What a command does to the blocks of a row before its last one."""
    if command == at.MEAN:
        return at.SUM
    if command == at.INV_STDDEV:
        return at.VARIANCE
    return at.SUM_EXP if command == at.INV_SUM_EXP else command
