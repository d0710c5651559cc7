"""Cycles of two Gemminis' registers, as the RTL was recorded: ours must be the same, event by event."""

from pathlib import Path

import numpy as np
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.isa.gemmini.timing.recorded_runs import replay
from accel.isa.recorded.recordings import Recording, read_recordings
from tests.helpers.programs.gemmini_vectors import FOLDER

DESIGNS = {"gemmini": "rtl", "gemmini-8": "rtl_8x8"}
LATENCIES = (10, 30, 80)
SHORT = 3000  # cycles: what the quick tests run


def recordings(preset: str) -> tuple[Recording, ...]:
    folder = Path(FOLDER) / DESIGNS[preset]
    if not folder.is_dir():
        pytest.skip(f"there is no folder {folder.name} of recordings")
    return read_recordings(folder).streams


def departs(recording: Recording, preset: str, latency: int) -> str:
    """Where the model first departs from the recording; empty: nowhere."""
    ours = replay(load_accelerator(preset), recording, latency)
    assert ours.primitives is not None
    assert ours.times is not None
    assert ours.accepted is not None
    if ours.cycles != recording.cycles[latency]:
        return f"{recording.name} at {latency}: {ours.cycles} cycles, recorded {recording.cycles[latency]}"
    if not np.array_equal(ours.primitives, recording.primitives):
        return f"{recording.name} at {latency}: other primitive instructions"
    wrong = np.flatnonzero((ours.times != recording.times[latency]).any(axis=1))
    if len(wrong):
        row = wrong[0]
        return f"{recording.name} at {latency}: {row} at {ours.times[row]}, recorded {recording.times[latency][row]}"
    known = ours.accepted >= 0
    if not np.array_equal(ours.accepted[known], recording.accepted[latency][known]):
        return f"{recording.name} at {latency}: instructions are accepted at other times"
    return ""


def sample(preset: str) -> list[Recording]:
    """Of each kind two streams that are short: its first, and its longest."""
    kinds: dict[str, list[Recording]] = {}
    for recording in recordings(preset):
        if recording.cycles[80] <= SHORT:
            kinds.setdefault(recording.kind, []).append(recording)
    return [
        recording
        for found in kinds.values()
        for recording in {one.name: one for one in (found[0], max(found, key=lambda each: each.cycles[30]))}.values()
    ]


@pytest.mark.parametrize("preset", DESIGNS)
def test_streams_of_each_kind_take_the_recorded_cycles(preset: str) -> None:
    wrong = [
        told
        for number, recording in enumerate(sample(preset))
        if (told := departs(recording, preset, LATENCIES[number % len(LATENCIES)]))
    ]
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("latency", LATENCIES)
@pytest.mark.parametrize("preset", DESIGNS)
def test_all_streams_take_the_recorded_cycles(preset: str, latency: int) -> None:
    wrong = [told for recording in recordings(preset) if (told := departs(recording, preset, latency))]
    assert not wrong
