"""Perfetto's own importer takes our documents, and finds in them what we have put there."""

import json
from typing import Any

import pytest

from accel.trace.perfetto.trace_window import TraceWindow
from accel.trace.program_trace import Trace
from tests.helpers.programs.traces import pipeline_trace, random_trace
from tests.reference.perfetto import TraceProcessor
from tests.reference.trace_events import check

pytestmark = [pytest.mark.slow, pytest.mark.all]  # to compile the importer takes long; the viewer has it in a page

TRACKS = """
    select thread.name track, count(*) slices, sum(dur) / 1000 cycles, max(depth) depth, min(dur) shortest
    from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) group by thread.name
"""
COUNTERS = """
    select ts / 1000 ts, cast(value as int) tokens, substr(name, 1, length(name) - length(' tokens')) name
    from counter join process_counter_track t on counter.track_id = t.id order by ts, name
"""
ARROWS = """
    select extract_arg(a.arg_set_id, 'args.index') begins, extract_arg(b.arg_set_id, 'args.index') ends
    from flow join slice a on a.id = slice_out join slice b on b.id = slice_in
"""
LOST = "select name, value from stats where value > 0 and severity in ('error', 'data_loss')"


def events(document: bytes) -> list[dict[str, Any]]:
    found = json.loads(document)
    check(found)
    return found["traceEvents"]


@pytest.mark.parametrize("most", [500_000, 2_000])
def test_it_finds_every_slice_counter_and_arrow(most: int) -> None:
    document = b"".join(Trace(pipeline_trace(1, 3000)).perfetto(TraceWindow(most)))
    ours, theirs = events(document), TraceProcessor(document)
    assert theirs.query(LOST) == []
    names = {event["tid"]: event["args"]["name"] for event in ours if event["name"] == "thread_name"}
    tracks = {row["track"]: row for row in theirs.query(TRACKS)}
    for tid, name in names.items():
        slices = [event.get("dur", 0) for event in ours if event["ph"] in "Xi" and event["tid"] == tid]
        assert (tracks[name]["slices"], tracks[name]["cycles"]) == (len(slices), sum(slices))
    assert {name: row["depth"] for name, row in tracks.items() if row["depth"]} == ({"load": 1} if most > 2_000 else {})
    counted = [(e["ts"], e["name"], e["args"]["tokens"]) for e in ours if e["ph"] == "C"]
    assert [(row["ts"], row["name"], row["tokens"]) for row in theirs.query(COUNTERS)] == sorted(counted)
    assert {(row["begins"], row["ends"]) for row in theirs.query(ARROWS)} == arrows(ours)
    assert theirs.query("select name from process where pid = 1") == [{"name": "an <odd> one, \u00e9\u4e2d"}]


def arrows(ours: list[dict[str, Any]]) -> set[tuple[int, int]]:
    """Each end is written after the instruction that it belongs to."""
    last, ends = {}, {"s": {}, "f": {}}
    for event in ours:
        if event.get("cat") == "instruction":
            last[event["tid"]] = event["args"].get("index")
        elif event["ph"] in ends:
            ends[event["ph"]][event["id"]] = last[event["tid"]]
    return {(index, ends["f"][number]) for number, index in ends["s"].items()}


def test_it_reads_the_arguments_of_an_instruction() -> None:
    held = random_trace(2, 40)
    record = next(r for r in Trace(held).page(0, 40) if r["origin"] and r["origin"]["function"] == "=f")
    theirs = TraceProcessor(b"".join(Trace(held).perfetto(clock_mhz=100)))
    slice_ = f"from slice where extract_arg(arg_set_id, 'args.index') = {record['index']}"
    assert theirs.query(f"select name, ts, dur {slice_}") == [
        {"name": record["op"], "ts": record["start"] * 10, "dur": (record["end"] - record["start"]) * 10}
    ]
    found = theirs.query(f"select key, display_value value from args where arg_set_id = (select arg_set_id {slice_})")
    values = {row["key"].removeprefix("args."): row["value"] for row in found}
    assert {name: values[f"fields.{name}"] for name in record["fields"]} == {
        name: str(value) for name, value in record["fields"].items()
    }
    assert values["launch"] == record["launch"]
    assert values["origin.function"] == record["origin"]["function"]
    assert [values[f"origin.nodes[{n}]"] for n in (0, 1)] == record["origin"]["nodes"]
