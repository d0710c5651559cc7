"""Weights that stay in the mesh: a preload of those that it holds already brings nothing, and its product reuses them.

A preload reads as many rows as the mesh has; with no rows to read a product takes as long as its own rows, so that
products of few rows each are done sooner (ExecuteController.scala ``total_rows``). What a launch finds in the mesh is
unknown, and a configuration of the products, a write to the weights' rows or any other use of the mesh ends it.
"""

import numpy as np

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.stream.configuration_registers import load_configuration_of
from accel.isa.gemmini.stream.loop_expansion import as_signed, has_no_loops
from accel.isa.kernels.compiled_kernels import Signature, compiled
from accel.isa.kernels.kernel_types import MATRIX, SCALAR
from accel.util.arrays import Int64, Words

_TURNED = 1 << 8 | 1 << 9  # data or weights are transposed
_STRIDES = 1 << 7  # only strides are set
_WEIGHT_STATIONARY = 1 << 2
_NONE = -1


@compiled
def _meets(first: int, end: int, word: int) -> bool:
    """Whether rows of the scratchpad are among those of an operand there."""
    return bool(first < (word & rocc.LOAD_ROW) + (word >> 48 & 0xFFFF) and (word & rocc.LOAD_ROW) < end)


@compiled
def _loads_into(words: Int64, index: int, block: int, dim: int, held: int) -> bool:
    """Whether a load writes to the rows of the weights ``held``; ``block`` is the stride of its blocks."""
    rs2 = words[index, 2]
    if rs2 >> 31 & 1:
        return False
    first, blocks = rs2 & rocc.LOAD_ROW, ((rs2 >> 32 & 0xFFFF) + dim - 1) // dim
    return _meets(first, first + (max(blocks, 1) - 1) * block + (rs2 >> 48 & 0xFFFF), held)


@compiled
def _holds(words: Int64, index: int) -> bool:
    """Whether the preload at ``index`` brings weights for the product behind it, which then stay."""
    paired = index + 1 < len(words) and words[index + 1, 0] == rocc.COMPUTE_PRELOADED
    rs1, rs2 = words[index, 1], words[index, 2]
    return bool(paired and rs2 >> 31 & 1 and rs1 & rocc.GARBAGE != rocc.GARBAGE)


@compiled
def _leaves_weights(words: Int64, index: int, blocks: Int64, dim: int, held: int) -> bool:
    """Whether the mesh, and the rows of the weights ``held``, are as they were after any instruction but a preload."""
    funct, rs1 = words[index, 0], words[index, 1]
    if funct == rocc.CONFIG:
        return bool(rs1 & 3 != rocc.CONFIG_EX)
    if funct in (rocc.MVIN, rocc.MVIN2, rocc.MVIN3):
        return not _loads_into(words, index, blocks[load_configuration_of(funct)], dim, held)
    if funct in (rocc.COMPUTE_PRELOADED, rocc.COMPUTE_ACCUMULATED):
        return bool(index > 0 and words[index - 1, 0] == rocc.PRELOAD)
    return funct in (rocc.MVOUT, rocc.FENCE)


@compiled
def _keep(words: Int64, dim: int) -> None:
    """Change the preloads and products of a launch's words (n, 3) whose weights are in the mesh."""
    plain, held = False, _NONE
    blocks = np.zeros(3, np.int64)
    for index in range(len(words)):
        funct, rs1 = words[index, 0], words[index, 1]
        if funct == rocc.PRELOAD:
            holds = plain and _holds(words, index)
            if holds and rs1 == held:
                words[index, 1] = rs1 | rocc.GARBAGE
                words[index + 1, 0] = rocc.COMPUTE_ACCUMULATED
            else:
                held = rs1 if holds else _NONE
            continue
        if held != _NONE and not _leaves_weights(words, index, blocks, dim, held):
            held = _NONE
        if funct == rocc.CONFIG and rs1 & 3 == rocc.CONFIG_LD:
            blocks[min(rs1 >> 3 & 3, 2)] = rs1 >> 16 & 0xFFFF
        elif funct == rocc.CONFIG and rs1 & 3 == rocc.CONFIG_EX and not rs1 & _STRIDES:
            plain = rs1 & _WEIGHT_STATIONARY != 0 and not rs1 & _TURNED


def keeping_signature() -> Signature:
    """Returns what finds weights that are in the mesh."""
    return Signature(_keep, MATRIX, SCALAR)


def with_kept_weights(words: Words, dim: int) -> Words:
    """Returns a launch's words (n, 3) in which weights that the mesh holds are not brought again.

    A launch of loops stays as it is.
    """
    signed = as_signed(words)
    if not has_no_loops(signed):
        return words
    kept = signed.copy()
    _keep(kept, dim)
    return kept.view(np.uint64)
