"""Contexts that accumulators and bias need: more than one where loads and uses are of units that cannot wait."""

import numpy as np

from accel.accelerator.contraction import Contraction
from accel.accelerator.document import Accelerator, TokenSync
from accel.accelerator.instructions import Compute, Copy
from accel.region.epilogue import Epilogue
from accel.region.shapes import Convolution
from accel.region.tilings import Candidates
from accel.util.arrays import Int64


def needs_double_buffer(epilogue: Epilogue, accelerator: Accelerator, gemm: Contraction) -> bool:
    """Whether the unit that loads accumulators cannot wait for the one that stores them.

    The contraction of the tile between has to: a load then needs another context than the last store's.
    """
    if epilogue.start == "zero" or not isinstance(accelerator.synchronisation, TokenSync):
        return False
    copies = [copy for copy in accelerator.instructions if isinstance(copy, Copy)]
    results = [copy for copy in copies if copy.memory == gemm.dst.memory.name]
    stores = [copy for copy in results if copy.direction == "store"]
    return any(
        load.unit != store.unit and (store.unit not in load.tokens.pop or load.unit not in store.tokens.push)
        for load in results
        if load.direction == "load"
        for store in stores
    )


def bias_contexts(
    c: Candidates, conv: Convolution, epilogue: Epilogue, accelerator: Accelerator, gemm: Contraction, order: str
) -> Int64:
    """Contexts of the bias that a step adds: those of the loop over output channels if another unit loads it.

    A multiplier takes as much again.
    """
    results = gemm.dst.memory.name
    if not epilogue.tensors:
        return np.zeros_like(c.out_blocks)
    loads = {i.unit for i in accelerator.instructions if isinstance(i, Copy) and _loads_accumulators(i, results)}
    adds = {i.unit for i in accelerator.instructions if isinstance(i, Compute) and _works_on(i, results)}
    contexts = vector_contexts(c, conv, order)
    return epilogue.tensors * (np.minimum(contexts, 1) if len(loads | adds) == 1 else contexts)


def vector_contexts(c: Candidates, conv: Convolution, order: str) -> Int64:
    """Contexts of what each channel has one of: those of the loop over output channels."""
    contexts: dict[str, int | Int64] = {"stream": 1, "weights": c.contexts, "data": c.result_contexts}
    turns = c.tiles if order == "data" else conv.out_blocks // c.out_blocks
    return np.asarray(np.minimum(contexts[order], turns), np.int64)


def _loads_accumulators(copy: Copy, memory: str) -> bool:
    return copy.memory == memory and copy.direction == "load"


def _works_on(compute: Compute, memory: str) -> bool:
    return any(operand.memory == memory for operand in compute.operands.values())
