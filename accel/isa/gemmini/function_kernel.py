"""Gemmini's meaning: a stream of primitive instructions, one after the other.

The hardware's three queues overlap, but wait for each other wherever rows overlap (ReservationStation.scala), so that
the order of the program is the meaning. Bounds are checked before (:mod:`accel.isa.gemmini.check`).
"""

import numpy as np
import numpy.typing as npt

from accel.isa.compiled import compiled
from accel.isa.gemmini import layout as at
from accel.isa.gemmini.configure import configure, load_state, preload
from accel.isa.gemmini.core import Core
from accel.isa.gemmini.function_compute import fetch_operands, in_place, multiply, multiply_in_place
from accel.isa.gemmini.function_load import mvin
from accel.isa.gemmini.function_store import mvout

Int64 = npt.NDArray[np.int64]


@compiled
def run(core: Core, words: Int64) -> None:
    """Run the primitive instructions ``words`` (n, 3)."""
    # a call with all of the core costs as much as a product of tiles, so that the usual one gets what it needs alone
    state, spad, acc, mesh, left = core.state, core.spad, core.acc, core.mesh, core.left
    dim = len(mesh)
    for index in range(len(words)):
        funct, rs1, rs2 = words[index, 0], words[index, 1], words[index, 2]
        if funct == at.PRELOAD:
            preload(state, rs1, rs2)
        elif funct in (at.COMPUTE_PRELOADED, at.COMPUTE_ACCUMULATED):
            depth = min(rs1 >> 32 & 0xFFFF, dim)
            fetch_operands(state, spad, mesh, left, 1 if funct == at.COMPUTE_PRELOADED else 0, rs1)
            if in_place(state, rs2, dim):
                multiply_in_place(state, acc, mesh, left, depth)
            else:
                multiply(core, rs2, depth)
        elif funct in (at.MVIN, at.MVIN2, at.MVIN3):
            mvin(core, load_state(funct), rs1, rs2)
        elif funct == at.MVOUT:
            mvout(core, rs1, rs2)
        elif funct == at.CONFIG:
            configure(state, core.bits, rs1, rs2)
