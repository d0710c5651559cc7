"""Replays of recorded streams: what the model of a family makes of what registers of a design did."""

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from accel.accelerator.document import Accelerator
from accel.errors import InvalidAccelerator
from accel.isa.decode import decode
from accel.isa.family import Family
from accel.isa.family_registry import family_of
from accel.isa.recorded.recordings import Recording, RecordingError
from accel.util.arrays import Int64, Words

_BITS = 64


@dataclass(frozen=True)
class Replay:
    """What the model makes of a recorded stream of n instructions; m primitive ones as in :class:`Recording`.

    Attributes:
        cycles: as recorded; -1: it never ends.
        primitives: (m, 3) their words; None where the family's instructions are no other than what was sent.
        times: (m, 3) as recorded: entered the station, handed over, complete (-1: with being handed over); or None.
        accepted: (n,) cycles in which each instruction was accepted, not of fences after the last other one; or None.
    """

    cycles: int
    primitives: Words | None = None
    times: Int64 | None = None
    accepted: Int64 | None = None


@runtime_checkable
class ReplaysRecordings(Protocol):
    """What a family may have besides: replays of its own; without it a stream is timed as a launch by itself."""

    def replay(self, accelerator: Accelerator, recording: Recording, latency: int, /) -> Replay:
        """Returns a recorded stream as timed with a memory of ``latency`` cycles.

        Raises:
            SimulationError: an instruction that means nothing, or a stream that never ends.
        """


def replayed(accelerator: Accelerator, recording: Recording, latency: int) -> Replay:
    """Returns a recorded stream as the accelerator's model times it, with a memory of ``latency`` cycles.

    Raises:
        RecordingError: its instructions are not of the accelerator's width.
        SimulationError: an instruction that means nothing, or a stream that never ends.
    """
    wide, due = recording.words.shape[1], accelerator.word_bits // _BITS
    if wide != due:
        message = (
            f"{recording.name}: {wide * _BITS} bits an instruction; those of {accelerator.name} have {due * _BITS}"
        )
        raise RecordingError(message, field="streams.npz")
    family: Family | ReplaysRecordings = family_of(accelerator)
    if isinstance(family, ReplaysRecordings):
        return family.replay(accelerator, recording, latency)
    return _timed(accelerator, recording, latency)


def _timed(accelerator: Accelerator, recording: Recording, latency: int) -> Replay:
    family = family_of(accelerator)
    with_latency = accelerator.dram.model_copy(update={"read_latency": latency})
    machine = accelerator.model_copy(update={"dram": with_latency})
    unknown = set(recording.tokens) - set(family.token_queues(machine))
    if unknown:
        message = f"{recording.name}: there is no token queue {min(unknown)}"
        raise InvalidAccelerator(message, field="initial_tokens")
    decoded = replace(decode(machine, recording.words), context=family.first_context(machine, ()))
    tokens = {queue: recording.tokens.get(queue, 0) for queue in family.token_queues(machine)}
    return Replay(family.time(decoded, tokens).cycles)
