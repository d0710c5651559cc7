"""DRAM traffic of a stream as boxes of rows; and how long Gemmini's units must work for it, whatever the schedule."""

from dataclasses import replace

import numpy as np

from accel.isa.family import Boxes, Work, dram_traffic
from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.stream import kernel_layout as at
from accel.isa.gemmini.stream.configuration_registers import apply_config, load_configuration_of
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.stream.loop_expansion import ExpandedStream, expand_loops
from accel.isa.kernels.compiled_kernels import Signature, compiled
from accel.isa.kernels.kernel_types import MATRIX, VECTOR, WORDS
from accel.util.arrays import Float64, Int32, Int64, Words

# columns of a box
_INDEX, _FIRST, _ROWS, _STRIDE, _BYTES, _WRITE = range(6)


@compiled
def _box(out: Int64, count: int, index: int, first: int, shape: tuple[int, int, int], write: int) -> int:
    """Write a box of ``shape`` rows, stride and row bytes, if there is room and it is not empty; the next count."""
    if shape[0] == 0 or shape[2] == 0:
        return count
    if count < len(out):
        out[count, 0], out[count, 1], out[count, 5] = index, first, write
        out[count, 2], out[count, 3], out[count, 4] = shape
    return count + 1


@compiled
def _store(out: Int64, count: int, index: int, rs1: int, rs2: int, state: Int64) -> int:
    columns, rows, stride = rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF, state[at.ST_STRIDE]
    accumulator = rs2 & rocc.ACCUMULATOR
    if state[at.POOL_STRIDE]:
        for prow in range(state[at.POROWS]):
            first = rs1 + prow * state[at.POOL_OUT] * stride
            count = _box(out, count, index, first, (state[at.POCOLS], stride, columns), 1)
        return count
    if accumulator and rs2 >> 26 & 7:  # a statistic
        return count
    size = 4 if accumulator and rs2 & rocc.FULL else 1
    return _box(out, count, index, rs1, (rows, stride, columns * size), 1)


@compiled
def _boxes(words: Int64, state: Int64, bits: Int32, out: Int64) -> int:
    """Count the boxes of primitive instructions (m, 3), and write as many as ``out`` (b, 6) has room for."""
    count = 0
    for index in range(len(words)):
        funct, rs1, rs2 = words[index, 0], words[index, 1], words[index, 2]
        if funct == rocc.CONFIG:
            apply_config(state, bits, rs1, rs2)
        elif funct == rocc.MVOUT:
            count = _store(out, count, index, rs1, rs2, state)
        elif funct in (rocc.MVIN, rocc.MVIN2, rocc.MVIN3) and rs1 != 0:
            which = load_configuration_of(funct)
            columns, rows, stride = rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF, state[at.LD_STRIDE + which]
            size = 4 if rs2 & rocc.ACCUMULATOR and not state[at.LD_SHRUNK + which] else 1
            count = _box(out, count, index, rs1, (rows if stride else min(rows, 1), stride, columns * size), 0)
    return count


def accesses_of(expanded: ExpandedStream, context: LaunchContext) -> Boxes:
    """Returns the accesses of DRAM of primitive instructions that find the configuration of ``context``."""
    boxes = primitive_accesses(expanded.words, context)
    return replace(boxes, instruction=expanded.origin[boxes.instruction])


def primitive_accesses(words: Int64, context: LaunchContext) -> Boxes:
    """Returns :func:`accesses_of` primitive instructions (m, 3), by their own places.

    A mvin with stride 0 reads its row once (LoadController.scala ``actual_rows_read``).
    """
    state, bits = context.state.copy(), context.bits.copy()
    count = _boxes(words, state.copy(), bits.copy(), np.empty((0, 6), np.int64))
    out = np.empty((count, 6), np.int64)
    _boxes(words, state, bits, out)
    return Boxes(
        instruction=out[:, _INDEX].copy(),
        begin=out[:, _FIRST].copy(),
        rows=out[:, _ROWS].copy(),
        row_stride=out[:, _STRIDE].copy(),
        row_bytes=out[:, _BYTES].copy(),
        write=out[:, _WRITE].astype(np.bool_),
    )


def dram_accesses(words: Words, parameters: GemminiParameters, context: LaunchContext) -> Boxes:
    """Returns the accesses of DRAM of a stream (n, 3) that finds ``context``.

    Raises:
        SimulationError: an undefined instruction, or a loop that does not fit.
    """
    return accesses_of(expand_loops(words, parameters, context.loops.copy()), context)


def effort_of(words: Words, parameters: GemminiParameters, context: LaunchContext) -> Float64:
    """Returns the elements that each instruction (n,) touches at most: a tile for each primitive instruction.

    Raises:
        SimulationError: an undefined instruction, or a loop that does not fit.
    """
    expanded = expand_loops(words, parameters, context.loops.copy())
    return np.bincount(expanded.origin, minlength=len(words)).astype(np.float64) * parameters.dim**2


_ROWS_BIT = 48  # where an operand word says its rows (GemminiISA.scala)
_MIN_ROWS = 4  # rows that a product takes at least (ExecuteController.scala total_rows)


@compiled
def _unit_cycles(words: Int64, state: Int64, bits: Int32) -> tuple[int, int]:
    """Count the cycles of the mesh for products of primitive instructions (m, 3), and of stores for their windows."""
    products, windows = 0, 0
    for index in range(len(words)):
        funct = words[index, 0]
        if funct in (rocc.COMPUTE_PRELOADED, rocc.COMPUTE_ACCUMULATED):
            products += max(words[index, 1] >> _ROWS_BIT & 0xFFFF, _MIN_ROWS)
        elif funct == rocc.CONFIG:
            apply_config(state, bits, words[index, 1], words[index, 2])
        elif funct == rocc.MVOUT and state[at.POOL_STRIDE]:
            windows += state[at.POROWS] * state[at.POCOLS] * state[at.POOL_SIZE] * state[at.POOL_SIZE]
    return products, windows


def work_of(words: Words, parameters: GemminiParameters, context: LaunchContext) -> Work:
    """Returns the work of a stream (n, 3) that finds ``context``.

    A product takes the mesh a cycle a row of A, at least four; reads and writes have a channel each. A store of windows
    reads an element of one a cycle (StoreController.scala).

    Raises:
        SimulationError: an undefined instruction, or a loop that does not fit.
    """
    expanded = expand_loops(words, parameters, context.loops.copy())
    contract, windows = _unit_cycles(expanded.words, context.state.copy(), context.bits.copy())
    bus = -(-max(dram_traffic(accesses_of(expanded, context))) // parameters.dma_bus_bytes)
    return Work(contract, contract, bus, max(contract, bus, windows), bus_bytes=parameters.dma_bus_bytes)


def traffic_signatures() -> tuple[Signature, ...]:
    """Returns what finds the accesses of DRAM, and counts the units' cycles."""
    return Signature(_boxes, MATRIX, VECTOR, WORDS, MATRIX), Signature(_unit_cycles, MATRIX, VECTOR, WORDS)
