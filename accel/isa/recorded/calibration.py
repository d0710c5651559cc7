"""Comparison of an accelerator's cycles with recordings of hardware: run by run, by kind, and all together."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import pydantic
from pydantic import Field

from accel.accelerator.calibration import CalibrationRecord
from accel.accelerator.document import Accelerator
from accel.accelerator.timing_model import TimingModel
from accel.errors import SimulationError
from accel.isa.decode import Decoded
from accel.isa.family_registry import family_of
from accel.isa.recorded.recordings import Recording, Recordings
from accel.isa.recorded.replay import Replay, replayed
from accel.util.arrays import Int64, Words

_COLUMNS = ("entered", "issued", "complete")
Percent = Annotated[float, Field(description="percent of the recorded cycles")]


class Departure(pydantic.BaseModel):
    """The first primitive instruction, by recorded time, whose time is not as recorded."""

    primitive: int = Field(description="its place in the recording: loads, then products, then stores")
    words: list[int] = Field(description="funct, rs1 and rs2")
    event: str = Field(description="`entered` the station, `issued` to its controller, or `complete`; `words` differ")
    cycle: int
    expected: int


class CalibratedStream(pydantic.BaseModel):
    """One stream at one latency of the memory."""

    name: str
    kind: str
    latency: int = Field(description="of the memory, cycles")
    cycles: int = Field(description="as the document is timed; -1 where it never ends or cannot be run")
    expected: int = Field(description="as recorded")
    primitives: int = Field(description="primitive instructions that were watched")
    primitives_exact: int = Field(description="those of them handed over and complete in the recorded cycles")
    departure: Departure | None = Field(None, description="null where none departs, or none was watched")
    why: str | None = Field(None, description="why it cannot be run; null where it can")

    @property
    def percent(self) -> float:
        """The error; 100 of a stream that never ends."""
        if self.cycles < 0:
            return 100.0
        return 100.0 * abs(self.cycles - self.expected) / max(1, self.expected)


class Errors(pydantic.BaseModel):
    """Errors of some runs."""

    exact: int = Field(description="runs with the recorded cycles")
    of: int = Field(description="runs compared: streams, each at each latency")
    median_percent: Percent
    p90_percent: Percent
    worst_percent: Percent


class KindErrors(Errors):
    """Errors of the runs of a kind at one latency."""

    kind: str
    latency: int


class Calibration(Errors):
    """An accelerator beside recordings."""

    accelerator: str = Field(description="its name")
    kinds: list[KindErrors] = Field(description="by kind and latency")
    streams: list[CalibratedStream] = Field(description="every run, in the order of the recordings")


def calibrate(
    accelerator: Accelerator, recordings: Recordings, progress: Callable[[int, int], None] | None = None
) -> Calibration:
    """Returns each recorded stream as the accelerator's model times it, beside what was recorded.

    Args:
        accelerator: what is compared; the latency of its memory is that of each run.
        recordings: what it is compared with.
        progress: is called with (run, runs) before each.

    Raises:
        RecordingError: the recordings are of instructions of another width, or there are none.
    """
    runs = [(stream, latency) for stream in recordings.streams for latency in recordings.latencies]
    found = []
    for number, (stream, latency) in enumerate(runs):
        if progress is not None:
            progress(number, len(runs))
        found.append(_compared(accelerator, stream, latency))
    by_kind: dict[tuple[str, int], list[CalibratedStream]] = {}
    for each in found:
        by_kind.setdefault((each.kind, each.latency), []).append(each)
    return Calibration(
        accelerator=accelerator.name,
        kinds=[
            KindErrors(kind=kind, latency=latency, **_errors(some).model_dump())
            for (kind, latency), some in by_kind.items()
        ],
        streams=found,
        **_errors(found).model_dump(),
    )


def _errors(runs: Sequence[CalibratedStream]) -> Errors:
    percent = np.array([run.percent for run in runs])
    return Errors(
        exact=sum(run.cycles == run.expected for run in runs),
        of=len(runs),
        median_percent=float(np.median(percent)),
        p90_percent=float(np.quantile(percent, 0.9, method="higher")),
        worst_percent=float(percent.max()),
    )


def _compared(accelerator: Accelerator, stream: Recording, latency: int) -> CalibratedStream:
    expected, times = stream.cycles[latency], stream.times.get(latency)
    why = None
    try:
        replay = replayed(accelerator, stream, latency)
    except SimulationError as error:
        replay, why = Replay(-1), error.detail
    exact, departure = 0, None
    if times is not None and replay.times is not None and replay.primitives is not None:
        exact, departure = _primitives(stream, times, replay.primitives, replay.times)
    return CalibratedStream(
        name=stream.name,
        kind=stream.kind,
        latency=latency,
        cycles=replay.cycles,
        expected=expected,
        primitives=0 if times is None else len(times),
        primitives_exact=exact,
        departure=departure,
        why=why,
    )


def _primitives(stream: Recording, expected: Int64, words: Words, times: Int64) -> tuple[int, Departure | None]:
    """How many are exact, and where the first departs."""
    both = min(len(expected), len(times))
    same = (words[:both] == stream.primitives[:both]).all(axis=1)
    wrong = times[:both] != expected[:both]
    exact = int((same & ~wrong[:, 1:].any(axis=1)).sum())
    departs = wrong.any(axis=1) | ~same
    if not departs.any():
        return exact, None
    row = int(np.flatnonzero(departs)[np.argmin(expected[:both][departs].max(axis=1))])
    column = int(np.argmax(wrong[row])) if same[row] else 0
    departure = Departure(
        primitive=row,
        words=[int(word) for word in stream.primitives[row]],
        event=_COLUMNS[column] if same[row] else "words",
        cycle=int(times[row, column]),
        expected=int(expected[row, column]),
    )
    return exact, departure


def compared_digest(accelerator: Accelerator) -> str:
    """Returns the SHA-256 of what a comparison holds of: no names, ``source``, ``calibration`` or ``host``."""
    document = accelerator.model_dump(mode="json", exclude={"name", "title", "source", "calibration", "host"})
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def timing_model(accelerator: Accelerator, launches: Iterable[Decoded] = ()) -> TimingModel:
    """Returns how far cycle counts can be trusted: by what the document says of its calibration, else by its family.

    Args:
        accelerator: what is timed.
        launches: those of the program.
    """
    known = family_of(accelerator).timing_model(accelerator, launches)
    record = accelerator.calibration
    if record is None:
        return known
    said = f"exact on {record.exact:,} of {record.of:,} of your recordings; worst {record.worst_percent:.2f}%"
    if compared_digest(accelerator) != record.document:
        changed = f"the document was changed since it was compared, when it was {said}; {known.statement}"
        return known.model_copy(update={"statement": changed})
    return TimingModel(
        statement=f"{said}, half within {record.median_percent:.2f}%; whether they send all that a program does is "
        "not known",
        calibrated=True,
        exact=record.exact,
        of=record.of,
        worst_percent=record.worst_percent,
        outside=[],
    )


def with_calibration(accelerator: Accelerator, found: Calibration, folder: Path) -> Accelerator:
    """Returns the document that says how near it came to the recordings of a folder."""
    recordings = hashlib.sha256()
    for name in ("index.json", "streams.npz"):
        recordings.update((folder / name).read_bytes())
    record = CalibrationRecord(
        document=compared_digest(accelerator),
        recordings=recordings.hexdigest(),
        **found.model_dump(include=set(Errors.model_fields)),
    )
    return accelerator.model_copy(update={"calibration": record})
