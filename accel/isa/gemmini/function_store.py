"""What mvout does (libgemmini ``mvout``): from either memory to DRAM, with pooling or without."""

import numpy as np
import numpy.typing as npt

from accel.isa.compiled import compiled
from accel.isa.gemmini import layout as at
from accel.isa.gemmini.core import Core
from accel.isa.gemmini.function_load import saturated
from accel.isa.gemmini.function_norm import activated, before_the_last, observe

Int32 = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]


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
    if core.state[at.ACC_ACT] != at.RELU:
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
    base, columns, rows = rs2 & at.STORE_ROW, rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF
    accumulator, full, command = rs2 & at.ACCUMULATOR, rs2 & at.FULL, rs2 >> 26 & 7
    size = 4 if accumulator and full else 1
    special = full or core.state[at.ACC_ACT] > at.RELU
    relu = relu_mode(core)
    if accumulator and command != at.RESET:
        for r in range(rows):
            _observe_row(core, base + r, columns, command)
        return
    if accumulator and rows > 0 and columns > 0:
        observe(core, base, 0, at.RESET)
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
    base, columns, accumulator = rs2 & at.STORE_ROW, rs2 >> 32 & 0xFFFF, rs2 & at.ACCUMULATOR
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
