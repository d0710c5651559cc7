"""How long Gemmini's units must work for a stream, whatever the schedule: the lower bound that a report shows."""

import numpy as np

from accel.isa.family import Work
from accel.isa.gemmini.context import Context
from accel.isa.gemmini.encoding import COMPUTE_ACCUMULATED, COMPUTE_PRELOADED
from accel.isa.gemmini.expand import Words, expand
from accel.isa.gemmini.parameters import GemminiParameters
from accel.isa.gemmini.traffic import accesses_of

_ROWS = 48  # where an operand word says its rows (GemminiISA.scala)
_LEAST = 4  # rows that a product takes at least (ExecuteController.scala total_rows)


def work_of(words: Words, parameters: GemminiParameters, context: Context | None = None) -> Work:
    """The work of a stream (n, 3) that finds ``context``, or starts after power-on.

    A product takes the mesh a cycle a row of A, at least four; reads and writes have a channel each.
    """
    found = Context.fresh(parameters) if context is None else context
    expanded = expand(words, parameters, found.loops.copy())
    primitive = expanded.words
    products = np.isin(primitive[:, 0], (COMPUTE_PRELOADED, COMPUTE_ACCUMULATED))
    rows = primitive[products, 1] >> _ROWS & 0xFFFF
    contract = int(np.maximum(rows, _LEAST).sum())
    moved = accesses_of(expanded, found)
    bus = -(-max(moved.bytes_read, moved.bytes_written) // parameters.dma_bus_bytes)
    return Work(contract, contract, bus, max(contract, bus))
