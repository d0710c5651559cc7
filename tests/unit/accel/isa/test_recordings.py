"""The reader of recordings: what it takes apart, and what it says of folders that are none."""

import json

import numpy as np
import pytest

from accel.isa.recorded.recordings import RecordingError, read_recordings


def write(folder, index=None, **changes):
    """Two streams, of two instructions and of one, at latencies 10 and 30."""
    entries = [
        {"name": "control/a", "kind": "control", "spacing": 2, "in_flight": 4, "cycles": {"10": 5, "30": 6}},
        {"name": "vm/b", "kind": "vm", "ptw_latency": 7, "cycles": {"10": 8, "30": 9}},
    ]
    (folder / "index.json").write_text(json.dumps(entries if index is None else index))
    arrays = {
        "words": np.arange(9, dtype=np.uint64).reshape(3, 3),
        "first": np.array([0, 2, 3]),
        "primitive_words": np.arange(12, dtype=np.uint64).reshape(4, 3),
        "primitive_first": np.array([0, 1, 4]),
    }
    np.savez(folder / "streams.npz", **{name: array for name, array in (arrays | changes).items() if array is not None})
    for latency in (10, 30):
        times = latency + np.arange(12, dtype=np.int32).reshape(4, 3)
        np.savez(folder / f"events_{latency}.npz", times=times, accepted=latency + np.arange(3, dtype=np.int32))
    return folder


def test_streams_are_cut_as_the_folder_says(tmp_path):
    recordings = read_recordings(write(tmp_path))
    assert recordings.latencies == (10, 30)
    first, second = recordings.streams
    assert (first.name, first.kind, first.spacing, first.in_flight, first.page_walk_latency) == (
        "control/a", "control", 2, 4, None,
    )  # fmt: skip
    assert (second.spacing, second.page_walk_latency, dict(second.cycles)) == (1, 7, {10: 8, 30: 9})
    assert first.words.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert second.words.tolist() == [[6, 7, 8]]
    assert second.primitives.tolist() == [[3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert second.times[30].tolist() == [[33, 34, 35], [36, 37, 38], [39, 40, 41]]
    assert first.accepted[10].tolist() == [10, 11]
    assert second.accepted[30].tolist() == [32]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"index": {}}, "index.json"),
        ({"index": [{"kind": "vm", "cycles": {"10": 1}}] * 2}, "index.0.name"),
        ({"index": [{"name": "a", "kind": "vm", "cycles": {}}] * 2}, "index.0.cycles"),
        ({"index": [{"name": "a", "kind": "vm", "cycles": {"10": 1, "20": 1}}] * 2}, "events_20.npz"),
        ({"words": None}, "streams.npz"),
        ({"words": np.zeros((3, 3))}, "streams.npz"),
        ({"first": np.array([0, 3])}, "streams.npz"),
        ({"first": np.array([0, 4, 3])}, "streams.npz"),
        ({"primitive_words": np.zeros((5, 3), np.uint64)}, "streams.npz"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, changes, field):
    with pytest.raises(RecordingError) as found:
        read_recordings(write(tmp_path, **changes))
    assert found.value.field == field


def test_without_events_there_are_cycles_alone(tmp_path):
    write(tmp_path)
    for path in tmp_path.glob("events_*"):
        path.unlink()
    first, second = read_recordings(tmp_path).streams
    assert (dict(first.cycles), first.times, len(second.primitives)) == ({10: 5, 30: 6}, {}, 0)


def test_events_of_one_latency_alone_are_refused(tmp_path):
    write(tmp_path)
    (tmp_path / "events_30.npz").unlink()
    with pytest.raises(RecordingError, match=r"there is no events_30\.npz"):
        read_recordings(tmp_path)
