"""Recorded streams on our model of the registers, primitive instruction by primitive instruction."""

import numpy as np

from accel.accelerator.document import Accelerator
from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_document import parameters_of
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.timing.machine import log_columns as log
from accel.isa.gemmini.timing.stream_timing import run_stream
from accel.isa.recorded.recordings import Recording
from accel.isa.recorded.replay import Replay
from accel.util.arrays import Words


def replay(accelerator: Accelerator, recording: Recording, latency: int) -> Replay:
    """Run a recorded stream on the model of the registers, with a memory of ``latency`` cycles and no processor.

    Raises:
        SimulationError: an undefined instruction, or a loop that does not fit.
    """
    changed = parameters_of(accelerator).model_copy(update={"memory_latency": latency, "core": None, "memory": None})
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
        primitives=_spelt_as(rows[:, [log.FUNCT, log.RS1, log.RS2]].astype(np.uint64), recording.primitives),
        accepted=run.accepted,
    )


def _spelt_as(words: Words, recorded: Words) -> Words:
    """The words (m, 3), as recorded where those mean the same."""
    both = min(len(words), len(recorded))
    same = (_meaning(words[:both]) == _meaning(recorded[:both])).all(axis=1)
    words[:both][same] = recorded[:both][same]
    return words


def _meaning(words: Words) -> Words:
    """Words (m, 3) without bits that nobody reads: of addresses that are none, and whether a store accumulates."""
    told = words.copy()
    products = np.isin(told[:, 0], (rocc.COMPUTE_PRELOADED, rocc.COMPUTE_ACCUMULATED, rocc.PRELOAD))
    for operand in (1, 2):
        low = told[:, operand]
        none = products & (low >> np.uint64(29) & np.uint64(7) == 7) & (low & np.uint64(0xFFF) == 0xFFF)
        told[none, operand] |= np.uint64(rocc.GARBAGE)
    told[told[:, 0] == rocc.MVOUT, 2] &= ~np.uint64(rocc.ACCUMULATE)
    return told
