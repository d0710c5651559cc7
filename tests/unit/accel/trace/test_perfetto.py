"""The Perfetto form against the rows that it shows."""

import json
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.errors import CyclopsError
from accel.simulate.engine import simulate
from accel.trace.perfetto.modelled_tracks import ModelledSpan
from accel.trace.perfetto.trace_window import TraceWindow
from accel.trace.program_trace import Trace
from accel.trace.trace_builder import make_trace
from tests.helpers.marking import share
from tests.helpers.programs.streams import small_program
from tests.helpers.programs.traces import CAUSES, UNITS, Held, random_trace, records
from tests.reference.trace_events import check

Event = dict[str, Any]
UNIT_TRACKS = {4: "load", 5: "compute"}
ALL = 500_000


def document(held: Held, window: TraceWindow | None = None, **clock: float) -> dict[str, Any]:
    found = json.loads(b"".join(Trace(held).perfetto(window, **clock)))
    check(found)
    return found


def of(document: dict[str, Any], category: str) -> list[Event]:
    return [event for event in document["traceEvents"] if event.get("cat") == category]


def instructions(document: dict[str, Any]) -> Iterator[tuple[str, Event]]:
    return ((UNIT_TRACKS[event["tid"]], event) for event in of(document, "instruction"))


@pytest.mark.slow
@settings(max_examples=share(10), deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 80))
def test_in_full_every_instruction_is_a_slice(seed: int, count: int) -> None:
    held = random_trace(seed, count)
    shown = document(held, TraceWindow(ALL))
    assert shown["otherData"]["merged"] is False
    expected = {record["index"]: record for record in records(held)}
    slices = {event["args"]["index"]: (unit, event) for unit, event in instructions(shown)}
    assert slices.keys() == expected.keys()
    for index, (unit, event) in slices.items():
        record = expected[index]
        assert (unit, event["name"]) == (record["unit"], record["op"])
        assert (event["ts"], event["ts"] + event["dur"]) == (record["start"], record["end"])
        assert event["args"]["fields"] == record["fields"]
        assert event["args"]["launch"] == record["launch"]
        assert event["args"].get("origin") == record["origin"]


@pytest.mark.slow
@settings(max_examples=share(10), deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 80))
def test_in_full_every_wait_is_a_slice(seed: int, count: int) -> None:
    held = random_trace(seed, count)
    shown = document(held, TraceWindow(ALL))
    waited = Counter()
    for event in of(shown, "stall"):
        waited[UNIT_TRACKS[event["tid"]], event["name"]] += event["dur"]
    expected = Counter()
    for record in records(held):
        expected.update({(record["unit"], f"wait {w['on']}"): w["cycles"] for w in record["waited_for"]})
    assert waited == expected
    starts = {event["ts"] for _, event in instructions(shown)}
    for event in of(shown, "stall"):
        if event["name"] != "wait memory":
            following = [e for e in of(shown, "stall") if e["tid"] == event["tid"]]
            assert event["ts"] + event["dur"] in starts | {e["ts"] for e in following}


@pytest.mark.slow
@settings(max_examples=share(10), deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 80), st.integers(0, 3))
def test_an_arrow_leads_from_a_push_to_the_pop_that_takes_its_token(seed: int, count: int, initial: int) -> None:
    held = random_trace(seed, count, initial=initial)
    queues: dict[str, deque] = defaultdict(deque)
    queues["load_to_compute"].extend([None] * initial)
    pops: dict[str, list[int]] = defaultdict(list)
    for record in records(held):
        other = UNITS[1 - UNITS.index(record["unit"])]
        if record["fields"]["give"]:
            queues[f"{record['unit']}_to_{other}"].append(record)
        if record["fields"]["take"]:
            pops[f"{other}_to_{record['unit']}"].append(record)
    expected = {
        (push["index"], pop["index"])
        for name, taken in pops.items()
        for push, pop in zip(queues[name], taken, strict=False)
        if push
    }
    assert sorted(arrows(held, "token")) == sorted(expected)


def arrows(held: Held, category: str, window: TraceWindow | None = None) -> list[tuple[int, int]]:
    """From which instruction to which: an end of an arrow is written behind the instruction's slice."""
    ends: dict[int, dict[str, int]] = defaultdict(dict)
    last: dict[int, int] = {}
    for event in document(held, window or TraceWindow(ALL))["traceEvents"]:
        if event.get("cat") == "instruction":
            last[event["tid"]] = event["args"]["index"]
        elif event["ph"] in "sf" and event["cat"] == category:
            ends[event["id"]][event["ph"]] = last[event["tid"]]
    return [(end["s"], end["f"]) for end in ends.values()]


@pytest.mark.slow
@settings(max_examples=share(10), deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 80), st.integers(0, 3000))
def test_an_arrow_leads_to_who_waited_for_addresses(seed: int, count: int, begin: int) -> None:
    """Catches an arrow lost where several wait for one, and one whose other end the window does not show."""
    held = random_trace(seed, count)
    window = TraceWindow(ALL, begin, begin + 1500)
    shown = {event["args"]["index"] for _, event in instructions(document(held, window))}
    pairs = [
        (wait["instruction"], record["index"])
        for record in records(held)
        for wait in record["waited_for"]
        if "instruction" in wait
    ]
    assert sorted(arrows(held, "address")) == sorted(pairs)
    expected = [pair for pair in pairs if shown.issuperset(pair)]
    assert sorted(arrows(held, "address", window)) == sorted(expected)


def level_at(held: Held, queue: str, cycle: int, initial: int) -> int:
    producer, consumer = queue.split("_to_")
    level = initial if queue == "load_to_compute" else 0
    for record in records(held):
        level += bool(record["unit"] == producer and record["fields"]["give"] and record["end"] <= cycle)
        level -= bool(record["unit"] == consumer and record["fields"]["take"] and record["start"] <= cycle)
    return level


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(0, 3), st.sampled_from([100, ALL]), st.data())
def test_levels_are_exact_where_they_are_given(
    seed: int, count: int, initial: int, events: int, data: st.DataObject
) -> None:
    held = random_trace(seed, count, initial=initial)
    begin = data.draw(st.integers(0, held.names.cycles))
    window = TraceWindow(events, begin, begin + data.draw(st.integers(1, 2000)))
    samples = [event for event in document(held, window)["traceEvents"] if event["ph"] == "C"]
    assert {event["name"] for event in samples} == {"load_to_compute", "compute_to_load"}
    for event in samples:
        assert event["args"]["tokens"] == level_at(held, event["name"], event["ts"], initial)


def conserved(held: Held, window: TraceWindow) -> None:
    """Merged or not, a unit's span, instructions, busy cycles and waits are those of its rows."""
    shown = document(held, window)
    assert len(shown["traceEvents"]) <= window.events
    end = window.end or held.names.cycles + 2
    rows = [r for r in records(held) if max(r["end"], r["start"] + 1) > window.begin and r["start"] < end]
    assert shown["otherData"]["instructions"] == len(rows)
    for unit in UNITS:
        mine = [r for r in rows if r["unit"] == unit]
        slices = [event for name, event in instructions(shown) if name == unit]
        assert bool(mine) == bool(slices)
        if not mine:
            continue
        assert slices[0]["ts"] == mine[0]["start"]
        assert slices[-1]["ts"] + slices[-1]["dur"] == mine[-1]["end"]
        assert sum(event["args"].get("instructions", 1) for event in slices) == len(mine)
        busy, waits = Counter(), Counter()
        for event in slices:
            args = event["args"]
            if "instructions" not in args:
                record = Trace(held).page(args["index"], 1)[0]
                assert (event["name"], event["dur"]) == (record["op"], record["end"] - record["start"])
                busy[record["op"]] += event["dur"]
                waits.update({w["on"]: w["cycles"] for w in record["waited_for"]})
                continue
            parts = {key.removeprefix("busy "): value for key, value in args.items() if key.startswith("busy ")}
            assert sum(parts.values()) == args["busy"] <= event["dur"]
            assert args["busy_share"] == pytest.approx(args["busy"] / max(event["dur"], 1), abs=6e-4)
            dominant = event["name"].removeprefix("mostly ").rpartition(" (")[0]
            assert parts.get(dominant, 0) == max(parts.values(), default=0)
            assert event["name"].startswith("mostly ") == (len(parts) > 1)
            busy.update(parts)
            waits.update({cause: args.get(f"wait {cause}", 0) for cause in CAUSES})
        assert +busy == +Counter(_sum((r["op"], r["end"] - r["start"]) for r in mine))
        assert +waits == +Counter(_sum((w["on"], w["cycles"]) for r in mine for w in r["waited_for"]))


def _sum(pairs: Iterator[tuple[str, int]]) -> dict[str, int]:
    total: Counter = Counter()
    for name, value in pairs:
        total[name] += value
    return total


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 400), st.integers(100, 400))
def test_merging_conserves_what_each_unit_did(seed: int, count: int, events: int) -> None:
    conserved(random_trace(seed, count), TraceWindow(events))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 400), st.integers(100, 400), st.data())
def test_a_window_shows_what_runs_within_it(seed: int, count: int, events: int, data: st.DataObject) -> None:
    held = random_trace(seed, count)
    begin = data.draw(st.integers(0, held.names.cycles + 10))
    conserved(held, TraceWindow(events, begin, begin + data.draw(st.integers(1, 5000))))


@pytest.mark.slow
def test_many_stretches_are_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    held = random_trace(5, 700)
    windows = [
        TraceWindow(ALL),
        TraceWindow(300),
        TraceWindow(500, 9_000, 12_000),
        TraceWindow(100, 20_000, 30_000),
        TraceWindow(ALL, 7000, 7001),
    ]
    whole = [document(held, window) for window in windows]
    for module in ("trace_rows", "perfetto.trace_window", "perfetto.merged_slices"):
        monkeypatch.setattr(f"accel.trace.{module}.STRETCH", 37)
    assert [document(held, window) for window in windows] == whole


@pytest.mark.slow
@settings(max_examples=share(8), deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 200), st.sampled_from([100, ALL]))
def test_instructions_that_outlast_their_launch_do_not_overlap_the_next_ones(
    seed: int, count: int, events: int
) -> None:
    held = random_trace(seed, count)
    back = np.cumsum(np.diff(held.columns["launch"], prepend=0)) * 250
    early = {name: np.maximum(held.columns[name] - back, 0) for name in ("start", "end")}
    shown = document(Held(held.names, held.columns | early), TraceWindow(events))
    assert shown["otherData"]["instructions"] == count


def test_merged_documents_say_so() -> None:
    held = random_trace(6, 5000)
    shown = document(held, TraceWindow(1000))
    about = shown["otherData"]
    assert about["merged"] is True
    assert about["slices"] == len(of(shown, "instruction")) < about["instructions"] == 5000
    assert "merged" in about["note"]
    stalls = of(shown, "stall")
    assert stalls
    for event in stalls:
        causes = {key: value for key, value in event["args"].items() if key.startswith("wait ")}
        del event["args"]["cycles"]
        assert causes[event["name"]] == max(value for key, value in causes.items() if key != "wait memory")


def test_tracks_launches_and_host_steps() -> None:
    shown = document(random_trace(7, 50))
    named = {(e["name"], e["tid"]): e["args"] for e in shown["traceEvents"] if e["ph"] == "M"}
    assert named["process_name", 0] == {"name": "an <odd> one, \u00e9\u4e2d"}
    assert [named["thread_name", tid]["name"] for tid in (2, 3, 4, 5)] == ["launches", "host", "load", "compute"]
    assert [e["name"] for e in of(shown, "launch")] == ["conv,1", "=dense", "\u00fc"]
    assert [(e["name"], e["ts"]) for e in of(shown, "host")] == [("widen", 0)]


def test_launches_are_cut_to_the_window_and_merged_where_they_are_many() -> None:
    held = random_trace(8, 100)
    first, _, last = held.names.launches
    (only,) = of(document(held, TraceWindow(begin=first.end - 5, end=first.end)), "launch")
    assert (only["ts"], only["dur"]) == (first.end - 5, 5)
    many = tuple(first.model_copy(update={"name": str(n), "begin": n, "end": n + 1}) for n in range(last.end))
    held = Held(held.names.model_copy(update={"launches": many}), held.columns | {"launch": np.zeros(100, np.int8)})
    merged = of(document(held, TraceWindow(100)), "launch")
    assert len(merged) <= 10
    assert merged[0]["args"] == {"first": "0", "last": str(merged[0]["dur"] - 1)}
    assert sum(event["dur"] for event in merged) == last.end


@pytest.mark.parametrize(("mhz", "cycle"), [(100, 0.01), (333, 1 / 333), (1000 / 3, 0.003), (0.5, 2)])
@pytest.mark.parametrize("events", [100, ALL])
def test_times_by_a_clock(mhz: float, cycle: float, events: int) -> None:
    held = random_trace(9, 60)
    cycles, times = document(held, TraceWindow(events)), document(held, TraceWindow(events), clock_mhz=mhz)
    for before, after in zip(cycles["traceEvents"], times["traceEvents"], strict=True):
        assert after.get("ts", 0) == pytest.approx(before.get("ts", 0) * cycle, abs=6e-4)
    assert f"{mhz:g} MHz" in times["otherData"]["time"]
    assert cycles["otherData"] | {"time": ""} == times["otherData"] | {"time": ""}


@pytest.mark.parametrize(
    ("window", "field"),
    [((99,), "events"), ((500_001,), "events"), ((100, -1), "begin"), ((100, 5, 5), "end"), ((100, 5, 4), "end")],
)
def test_windows_that_are_none(window: tuple[int, ...], field: str) -> None:
    with pytest.raises(CyclopsError) as caught:
        TraceWindow(*window)
    assert caught.value.field == field


def test_a_window_beyond_the_end_is_empty() -> None:
    held = random_trace(10, 20)
    shown = document(held, TraceWindow(begin=10**9))
    assert not of(shown, "instruction")
    assert shown["otherData"]["instructions"] == 0


def test_a_trace_without_times_is_refused() -> None:
    program = small_program()
    trace = make_trace(program, simulate(program, {"x": np.zeros((4, 16), np.int8)}, timing=False))
    with pytest.raises(CyclopsError, match="no times"):
        trace.perfetto()


def test_a_program_as_it_ran() -> None:
    program = replace(small_program(), initial_tokens={"store_to_compute": 2})
    trace = make_trace(program, simulate(program, {}, function=False))
    shown = json.loads(b"".join(trace.perfetto()))
    check(shown)
    arrows = [event for event in shown["traceEvents"] if event["ph"] == "s"]
    assert [event["name"] for event in arrows] == ["compute_to_store"] * 2  # the pops of the other are served already
    levels = [e["args"]["tokens"] for e in shown["traceEvents"] if e["ph"] == "C" and e["name"] == "store_to_compute"]
    assert (levels[0], levels[-1], min(levels), max(levels)) == (2, 2, 1, 2)
    assert [event["name"] for event in of(shown, "launch")] == ["first", "second"]
    hosts = {event["name"]: event["ts"] for event in of(shown, "host")}
    assert hosts == {"widen": 0, "float": trace.names.cycles}
    assert max(end["ts"] + end["dur"] for end in of(shown, "instruction")) > trace.names.cycles  # the last store


@pytest.mark.parametrize("clock", [None, 250.0])
def test_modelled_times_have_a_process_of_their_own(clock: float | None) -> None:
    """Catches modelled cycles among exact ones, and neighbours that are merged across others."""
    held = random_trace(3, 40)
    spans = [ModelledSpan("host", "lay out", 0, 70)]
    spans += [ModelledSpan("accelerator", f"conv{n}", 100 * n, 100 * n + 60) for n in range(1, 90)]
    given = {} if clock is None else {"clock_mhz": clock}
    found = json.loads(b"".join(Trace(held).perfetto(TraceWindow(ALL), **given, modelled=spans)))
    check(found)
    scale = 1 if clock is None else 1 / clock
    shown = [(event["name"], event["ts"], event["dur"]) for event in of(found, "modelled")]
    assert shown == [
        (span.name, pytest.approx(span.begin * scale), pytest.approx((span.end - span.begin) * scale)) for span in spans
    ]
    assert {event["pid"] for event in of(found, "modelled")} == {2}
    plain = document(held, TraceWindow(ALL), **given)
    assert [event for event in found["traceEvents"] if event["pid"] == 1] == plain["traceEvents"]

    few = json.loads(b"".join(Trace(held).perfetto(TraceWindow(100), modelled=spans)))
    check(few)
    merged = of(few, "modelled")
    assert merged[0]["name"] == "lay out"
    assert len(merged) <= 12
    assert merged[-1]["args"]["last"] == "conv89"
    part = b"".join(Trace(held).perfetto(TraceWindow(ALL, begin=1), modelled=spans))
    assert of(json.loads(part), "modelled") == []
