"""Comparison with recordings: what is counted as exact, where a stream departs, and what a document says of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accel.catalog.load_accelerator import accelerator_id, load_accelerator, parse_accelerator
from accel.errors import SimulationError
from accel.isa.recorded import replay as replays
from accel.isa.recorded.calibration import calibrate, timing_model, with_calibration
from accel.isa.recorded.recordings import Recording, RecordingError, Recordings, read_recordings
from accel.isa.recorded.replay import Replay
from tests.helpers.programs.golden import board, documents, needs_golden, words

VTA = load_accelerator("vta-chisel")


def recording(name: str = "kind/a", cycles: int = 100, primitives: int = 3, **changes: Any) -> Recording:
    made = np.arange(3 * primitives, dtype=np.uint64).reshape(-1, 3)
    times = {10: np.arange(3 * primitives, dtype=np.int64).reshape(-1, 3) * 10}
    fields = {
        "name": name,
        "kind": name.partition("/")[0],
        "spacing": 1,
        "in_flight": 64,
        "page_walk_latency": None,
        "tokens": {},
        "words": np.zeros((1, 2), np.uint64),
        "primitives": made,
        "cycles": {10: cycles},
        "times": times,
        "accepted": {10: np.zeros(1, np.int64)},
    }
    return Recording(**(fields | changes))


def compared(monkeypatch: pytest.MonkeyPatch, replay: Replay | Exception, *streams: Recording) -> Any:
    class Family:
        def replay(self, *_arguments: object) -> Replay:
            if isinstance(replay, Exception):
                raise replay
            return replay

    monkeypatch.setattr(replays, "family_of", lambda _accelerator: Family())
    return calibrate(VTA, Recordings(streams, (10,)))


def test_errors_are_of_the_recorded_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = [recording(f"kind/{cycles}", cycles) for cycles in (100, 100, 100, 80, 50)]
    found = compared(monkeypatch, Replay(100), *streams)
    assert (found.exact, found.of, found.median_percent, found.worst_percent) == (3, 5, 0.0, 100.0)
    assert found.p90_percent == 100.0  # nine of ten of five are five
    assert [run.departure for run in found.streams] == [None] * 5


def test_a_stream_departs_where_the_hardware_did_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the recorded time, not of the queues; a column is named."""
    recorded = recording(primitives=3).times[10]
    recorded[2] = [1, 2, 3]  # recorded first of all
    stream = recording(primitives=3, times={10: recorded})
    mine = recorded.copy()
    mine[1, 1] += 1
    mine[2, 2] += 5
    found = compared(monkeypatch, Replay(100, stream.primitives, mine), stream).streams[0]
    assert (found.primitives, found.primitives_exact) == (3, 1)
    assert found.departure.model_dump() == {
        "primitive": 2, "words": [6, 7, 8], "event": "complete", "cycle": 8, "expected": 3,
    }  # fmt: skip


def test_another_instruction_is_a_departure(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = recording(primitives=2)
    other = stream.primitives.copy()
    other[1, 2] += 1
    found = compared(monkeypatch, Replay(100, other, stream.times[10]), stream).streams[0]
    assert (found.departure.event, found.departure.primitive, found.primitives_exact) == ("words", 1, 1)


def test_what_cannot_be_run_is_an_error_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compared(monkeypatch, SimulationError("it means nothing"), recording())
    assert (found.exact, found.worst_percent, found.streams[0].cycles) == (0, 100.0, -1)
    assert found.streams[0].why == "it means nothing"


def test_instructions_of_another_width_are_refused() -> None:
    with pytest.raises(RecordingError, match="192 bits an instruction; those of vta-chisel have 128"):
        calibrate(VTA, Recordings((recording(words=np.zeros((1, 3), np.uint64)),), (10,)))


@needs_golden
def test_streams_of_vta(tmp_path: Path) -> None:
    """The micro-benchmarks of the RTL, in the form of a folder of recordings; the document then says so."""
    index, streams, first = [], [], [0]
    recorded = words("microbenchmarks.npz")
    for name, about in documents("microbenchmarks.json").items():
        streams.append(recorded[name].reshape(-1, 2))
        first.append(first[-1] + len(streams[-1]))
        index.append({"name": name, "kind": "micro", "cycles": {"16": about["rtl_cycles"]}})
    (tmp_path / "index.json").write_text(json.dumps(index))
    np.savez(tmp_path / "streams.npz", words=np.concatenate(streams), first=np.array(first))
    found = calibrate(VTA, read_recordings(tmp_path))
    assert (found.exact, found.of) == (95, 95)
    document = with_calibration(VTA, found, tmp_path)
    again = parse_accelerator(document.model_dump_json().encode())
    assert timing_model(again).statement.startswith("exact on 95 of 95 of your recordings")
    dram = again.dram.model_copy(update={"bus_bytes": 16})
    changed = timing_model(again.model_copy(update={"dram": dram}))
    assert changed.statement.startswith("the document was changed since it was compared")
    assert (changed.calibrated, changed.of) == (False, 0)
    assert calibrate(board().model_copy(update={"dram": dram}), read_recordings(tmp_path)).exact < 95


def test_a_document_without_a_calibration_is_as_it_was() -> None:
    """Its id is that of documents from before there were calibrations."""
    assert "calibration" not in VTA.model_dump()
    assert b"calibration" not in VTA.model_dump_json().encode()
    assert accelerator_id(VTA) == accelerator_id(parse_accelerator(VTA.model_dump_json().encode()))
