"""Recorded streams on our model of the registers, primitive instruction by primitive instruction."""

from dataclasses import dataclass

import numpy as np

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.stream.configuration_registers import sizes
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.stream.loop_expansion import as_signed, expand_loops
from accel.isa.gemmini.timing.machine import log_columns as log
from accel.isa.gemmini.timing.machine.build import UNLIMITED, new_machine
from accel.isa.gemmini.timing.machine.machine import STALLED, run_machine
from accel.isa.recordings import Recording
from accel.util.arrays import Int64


@dataclass(frozen=True)
class Replay:
    """What the model makes of a recorded stream of n instructions; m primitive ones as in :class:`Recording`.

    Attributes:
        cycles: as recorded; -1: it never ends.
        times: (m, 3) as recorded: entered the station, handed over, complete (-1: with being handed over).
        primitives: (m, 3) their words.
        accepted: (n,) cycles in which each instruction was accepted.
    """

    cycles: int
    times: Int64
    primitives: Int64
    accepted: Int64


def replay(recording: Recording, parameters: GemminiParameters, latency: int) -> Replay:
    """Run a recorded stream on the model, with a memory of ``latency`` cycles.

    Raises:
        SimulationError: an undefined instruction, or a loop that does not fit.
    """
    changed = parameters.model_copy(update={"memory_latency": latency})
    context = LaunchContext.fresh(changed)
    words = as_signed(recording.words)
    open_requests = min(recording.in_flight, UNLIMITED)
    m = new_machine(changed, context, spacing=recording.spacing, open_requests=open_requests)
    commands = np.zeros((2, longest_convolution(recording.words, changed, context) + 1, 3), np.int64)
    accepted = np.full(len(words), -1, np.int64)
    cycles, rows = run_machine(m, words, context.loops.copy(), sizes(changed), commands, accepted, 4 * latency + 100_000)
    order = np.argsort(rows[:, log.QUEUE], kind="stable")
    rows = rows[order]
    return Replay(
        cycles=cycles,
        times=rows[:, [log.ENTERED, log.ISSUED, log.COMPLETE]],
        primitives=rows[:, [log.FUNCT, log.RS1, log.RS2]],
        accepted=accepted,
    )


def longest_convolution(words: np.ndarray, parameters: GemminiParameters, context: LaunchContext) -> int:
    """Primitive instructions of the longest loop_conv_ws of a stream."""
    functs = as_signed(words)[:, 0]
    if not (functs == rocc.LOOP_CONV).any():
        return 0
    expanded = expand_loops(words, parameters, context.loops.copy(), alternate=True)
    counts = np.bincount(expanded.origin, minlength=len(words))
    return int(counts[functs == rocc.LOOP_CONV].max()) + 8
