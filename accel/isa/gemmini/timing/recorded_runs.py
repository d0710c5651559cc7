"""Recorded streams on our model of the registers, primitive instruction by primitive instruction."""

from dataclasses import dataclass

import numpy as np

from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.timing.machine import log_columns as log
from accel.isa.gemmini.timing.stream_timing import run_stream
from accel.isa.recordings import Recording
from accel.util.arrays import Int64


@dataclass(frozen=True)
class Replay:
    """What the model makes of a recorded stream of n instructions; m primitive ones as in :class:`Recording`.

    Attributes:
        cycles: as recorded; -1: it never ends.
        times: (m, 3) as recorded: entered the station, handed over, complete (-1: with being handed over).
        primitives: (m, 3) their words.
        accepted: (n,) cycles in which each instruction was accepted; not of fences after the last other one.
    """

    cycles: int
    times: Int64
    primitives: Int64
    accepted: Int64


def replay(recording: Recording, parameters: GemminiParameters, latency: int) -> Replay:
    """Run a recorded stream on the model, with a memory of ``latency`` cycles and no processor.

    Raises:
        SimulationError: an undefined instruction, or a loop that does not fit.
    """
    changed = parameters.model_copy(update={"memory_latency": latency, "core": None})
    walk = recording.page_walk_latency
    run = run_stream(
        recording.words,
        changed,
        LaunchContext.fresh(changed),
        spacing=recording.spacing,
        open_requests=recording.in_flight,
        walk_latency=-1 if walk is None else walk,
    )
    rows = run.log[np.argsort(run.log[:, log.QUEUE], kind="stable")]
    return Replay(
        cycles=run.cycles,
        times=rows[:, [log.ENTERED, log.ISSUED, log.COMPLETE]],
        primitives=rows[:, [log.FUNCT, log.RS1, log.RS2]],
        accepted=run.accepted,
    )
