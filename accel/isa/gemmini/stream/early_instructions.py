"""Instructions of a launch that may be sent before others of it: what a fence at its beginning need not hold up.

Each queue keeps its order but for loads, and a configuration stays with the loads that find it. What is on the chip is
ordered by the reservation station as instructions are sent: none may go before one that it shares rows with, where
either writes them.
"""

import numpy as np

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.stream.configuration_registers import load_configuration_of
from accel.isa.gemmini.stream.errata import find_errata
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.stream.loop_expansion import as_signed, expand_loops, is_of_loops
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.build import new_machine
from accel.isa.gemmini.timing.machine.commands import EXECUTE, LOAD, STORE, queue_of
from accel.isa.gemmini.timing.machine.station import entry_at, fill_entry, note_configuration, rows_of
from accel.isa.kernels.compiled_kernels import Signature, compiled
from accel.isa.kernels.kernel_types import BYTES, MATRIX, VECTOR
from accel.util.arrays import Bools, Bytes, Int64, Words

_STATES = 3  # configurations of loads


@compiled
def _find_early(m: Int64, words: Int64, late: Bytes, early: Bytes) -> None:
    """Set ``early`` (n,) for loads and configurations before the first product that need not wait for ``late`` (n,)."""
    touched = np.zeros(m[at.SPAD_ROWS] + m[at.ACC_ROWS], np.uint8)  # rows of loads that are sent later
    behind = np.zeros(_STATES, np.uint8)  # whether a load of the state is sent later, or its configuration
    entry = entry_at(LOAD, 0)
    for index in range(len(words)):
        funct, rs1, rs2 = words[index, 0], words[index, 1], words[index, 2]
        queue = queue_of(funct, rs1)
        if queue == STORE and funct == rocc.CONFIG:
            early[index] = not late[index]
        elif queue == EXECUTE and funct == rocc.CONFIG:  # a product of few rows may not stand right before it
            early[index] = 0
        elif queue != LOAD:
            return
        elif funct == rocc.CONFIG:
            state = min(rs1 >> 3 & 3, _STATES - 1)
            early[index] = not (late[index] or behind[state])
            behind[state] = not early[index]
        else:
            state = load_configuration_of(funct)
            fill_entry(m, entry, queue, funct, rs1, rs2)
            begin, end = rows_of(m, entry + at.S_A)
            waits = late[index] or behind[state] or (rs2 & rocc.ACCUMULATE and rs2 & rocc.ACCUMULATOR)
            for row in range(begin, end):
                waits = waits or touched[row]
            early[index] = not waits
            if waits:
                behind[state] = 1
                touched[begin:end] = 1
        note_configuration(m, queue, funct, rs1, rs2)


def early_signature() -> Signature:
    """Returns what finds them."""
    return Signature(_find_early, VECTOR, MATRIX, BYTES, BYTES)


def early_instructions(words: Words, parameters: GemminiParameters, context: LaunchContext, late: Bools) -> Bools:
    """Returns which instructions (n,) of a launch's ``words`` (n, 3) may be sent before those of ``late`` (n,).

    They are among its first ones: behind the first product, or the first part of a loop, none is. ``context`` is what
    the launch finds in the registers.
    """
    signed, early = as_signed(words), np.zeros(len(words), np.uint8)
    loops = np.flatnonzero(is_of_loops(signed[:, 0]))
    first = int(loops[0]) if len(loops) else len(words)
    bare = parameters.model_copy(update={"core": None, "memory": None})
    machine = new_machine(bare, context)
    _find_early(machine, signed[:first], late[:first].astype(np.uint8), early[:first])
    return early.astype(np.bool_)


def may_run_on(words: Words, behind: Words, parameters: GemminiParameters, context: LaunchContext) -> bool:
    """Returns whether a stream (n, 3) that finds ``context`` may be followed by another without a fence between them.

    It may not where the hardware would not do then as the instructions say (:mod:`accel.isa.gemmini.stream.errata`).
    """

    def errata(stream: Words) -> int:
        expanded = expand_loops(stream, parameters, context.loops.copy())
        return len(find_errata(expanded, parameters, context.state, 0))

    fence = np.array([[rocc.FENCE, 0, 0]], np.uint64)
    return errata(np.concatenate([words, behind])) <= errata(np.concatenate([words, fence, behind]))
