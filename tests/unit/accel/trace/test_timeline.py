"""The timeline against its cycles one at a time."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.errors import CyclopsError
from accel.trace.program_trace import Trace
from accel.trace.timeline import MOST_CYCLES, Timeline
from accel.trace.timeline.slices import unit_slices
from accel.util.step_function import StepFunction
from tests.helpers.marking import share
from tests.helpers.programs.traces import CAUSES, UNITS, Held, names, pipeline_trace, random_trace, records
from tests.reference.timeline import Window, decoded, painted, sums

CATEGORIES = ("busy", *CAUSES)


def disordered(held: Held, seed: int) -> Held:
    """The same, with instructions that start before those before them, and that run beside each other."""
    rng = np.random.default_rng(seed)
    moved = rng.integers(-40, 41, len(held)) * (rng.random(len(held)) < 0.3)
    start = np.maximum(held.columns["start"] + moved, 0)
    length = held.columns["end"] - held.columns["start"]
    return Held(held.names, {**held.columns, "start": start, "end": start + length})


traces = st.builds(
    lambda seed, count, mixed: disordered(random_trace(seed, count), seed) if mixed else random_trace(seed, count),
    st.integers(0, 10**6),
    st.integers(1, 60),
    st.booleans(),
)


def begins_of(held: Held) -> list[int]:
    return [launch.begin for launch in held.names.launches] or [0]


def window_of(timeline: Timeline, begin: int, end: int, bins: int) -> Window:
    window = decoded(timeline.window(begin, end, bins))
    assert (window.begin, window.end) == (begin, end)
    return window


@pytest.mark.slow
@settings(max_examples=share(60), deadline=None)
@given(traces, st.data())
def test_the_sums_of_every_bin_are_those_of_its_cycles(held: Held, data: st.DataObject) -> None:
    timeline = Timeline.of(held)
    if not timeline.cycles:
        return
    begin = data.draw(st.integers(0, timeline.cycles - 1))
    end = data.draw(st.integers(begin + 1, timeline.cycles))
    window = window_of(timeline, begin, end, data.draw(st.integers(1, 50)))
    expected: Counter[tuple[int, int, int]] = Counter()
    cells: dict[tuple[int, int, int], set[int]] = {}
    for track, unit in enumerate(UNITS):
        cycles = painted(records(held), unit, CAUSES, timeline.cycles, begins_of(held))
        for place, edges in enumerate(zip(window.edges, window.edges[1:], strict=False)):
            for category, instruction in cycles[slice(*edges)]:
                if category != "idle":
                    cell = track, place, CATEGORIES.index(category)
                    expected[cell] += 1
                    cells.setdefault(cell, set()).add(instruction)
    assert sums(window) == expected
    longest = max(b - a for a, b in zip(window.edges, window.edges[1:], strict=False))
    alone = {(row["track"], row["category"], row["instruction"]) for row in window.exact}
    for row in window.merged:
        cell = row["track"], window.edges.index(begin + row["start"]), row["category"]
        others = {index for index in cells[cell] if (cell[0], cell[2], index) not in alone}
        assert (row["instruction"] in others, row["count"]) == (True, len(others))
    for row in window.exact:
        where = begin + row["start"], begin + row["start"] + row["cycles"]
        cut = where[0] == begin or where[1] == end
        assert cut or row["cycles"] >= longest
    assert all(row["operation"] == held.columns["kind"][row["instruction"]] for row in window.exact + window.merged)


@settings(max_examples=30, deadline=None)
@given(traces, st.integers(1, 50))
def test_a_profile_sums_the_cycles_of_each_part(held: Held, bins: int) -> None:
    timeline = Timeline.of(held)
    if not timeline.cycles:
        return
    edges, profile = timeline.profile(bins)
    assert (edges[0], edges[-1], len(edges) <= bins + 1) == (0, timeline.cycles, True)
    for unit, parts in zip(UNITS, profile, strict=True):
        cycles = painted(records(held), unit, CAUSES, timeline.cycles, begins_of(held))
        for place, (begin, end) in enumerate(pairwise(edges)):
            here = Counter(category for category, _ in cycles[begin:end])
            assert {name: sums[place] for name, sums in parts.items()} == {name: here[name] for name in CATEGORIES}


@settings(max_examples=20, deadline=None)
@given(traces)
def test_at_a_cycle_a_bin_every_slice_is_there_itself(held: Held) -> None:
    timeline = Timeline.of(held)
    end = min(timeline.cycles, 2000)
    if not end:
        return
    window = window_of(timeline, 0, end, 8192)
    assert not window.merged
    for track, unit in enumerate(UNITS):
        cycles = painted(records(held), unit, CAUSES, timeline.cycles, begins_of(held))
        for row in window.exact:
            if row["track"] == track:
                said = [(CATEGORIES[row["category"]], row["instruction"])] * row["cycles"]
                assert cycles[row["start"] : row["start"] + row["cycles"]] == said


@settings(max_examples=20, deadline=None)
@given(traces)
def test_categories_and_idle_add_up_to_the_total(held: Held) -> None:
    timeline = Timeline.of(held)
    for track, unit in zip(timeline.document()["tracks"], UNITS, strict=True):
        assert sum(track["cycles"].values()) == timeline.cycles
        cycles = painted(records(held), unit, CAUSES, timeline.cycles, begins_of(held))
        assert {name: count for name, count in track["cycles"].items() if count} == Counter(name for name, _ in cycles)


def test_a_merged_sum_counts_its_slices() -> None:
    start = np.arange(0, 100, 10, dtype=np.int64)
    held = held_of(start, start + 5)
    window = window_of(Timeline.of(held), 0, 95, 2)  # 47 and 48 cycles
    merged = [(row["start"], row["cycles"], row["count"]) for row in window.merged if row["category"] == 0]
    assert merged == [(0, 25, 5), (47, 25, 5)]
    assert not window.exact


def held_of(start: np.ndarray, end: np.ndarray) -> Held:
    """Instructions of the load unit that wait for nothing but to be sent."""
    zeros = np.zeros(len(start), np.int64)
    said = names([("one", 0, int(end.max()))])
    columns = dict.fromkeys(said.columns, zeros) | {"start": start, "end": end, "origin": zeros - 1}
    return Held(said, columns)


def test_a_trace_longer_than_32_bits_has_exact_windows() -> None:
    start = np.array([0, 1 << 33, (1 << 33) + 10], np.int64)
    timeline = Timeline.of(held_of(start, start + np.array([7, 5, 3])))
    window = window_of(timeline, 1 << 33, (1 << 33) + 13, 100)
    exact = [(row["start"], row["cycles"], row["category"], row["instruction"]) for row in window.exact]
    fetch = CATEGORIES.index("fetch")
    assert sorted(exact) == [(0, 5, 0, 1), (5, 5, fetch, 2), (10, 3, 0, 2)]
    with pytest.raises(CyclopsError, match="cycles; expected at most") as caught:
        timeline.window()
    assert caught.value.field == "end"
    assert timeline.window(0, MOST_CYCLES)


def test_windows_that_hold_nothing_are_refused() -> None:
    timeline = Timeline.of(random_trace(1, 10))
    for begin, end in ((timeline.cycles, None), (5, 5), (7, 6)):
        with pytest.raises(CyclopsError, match="expected one before") as caught:
            timeline.window(begin, end)
        assert caught.value.field == "begin"


def test_a_trace_without_times_has_no_timeline() -> None:
    held = random_trace(1, 10)
    with pytest.raises(CyclopsError, match="only function"):
        Timeline.of(replace(held, names=held.names.model_copy(update={"timed": False})))


def test_an_instruction_that_runs_beside_another_is_busy_once() -> None:
    start = np.array([0, 10], np.int64)
    found = unit_slices(start, np.array([100, 20]), {}, np.array([0, 1], np.uint32), 120)
    spans = [found["busy"].spans(np.arange(2))[number].tolist() for number in (0, 1)]
    assert spans == [[0, 10], [10, 100]]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 80), st.integers(0, 2))
def test_a_token_leads_from_its_push_to_its_pop(seed: int, count: int, initial: int) -> None:
    held = random_trace(seed, count, initial=initial)
    timeline = Timeline.of(held)
    for queue in held.names.queues:
        moves: dict[str, list[int | None]] = {"give": [None] * queue.initial, "take": []}
        for record in records(held):
            for verb, unit in (("give", queue.producer), ("take", queue.consumer)):
                if record["unit"] == unit and record["fields"].get(verb):
                    moves[verb].append(record["index"])
        for place, pop in enumerate(moves["take"]):
            source = moves["give"][place] if place < len(moves["give"]) else None
            said = [d for d in timeline.dependences(pop) if d["on"] == queue.name and d["role"] == "waits_for"]
            assert said == [{"kind": "token", "on": queue.name, "role": "waits_for", "instruction": source}]
            if source is not None:
                assert {**said[0], "role": "waited_for_by", "instruction": pop} in timeline.dependences(source)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 80))
def test_an_address_leads_to_who_held_it_and_back(seed: int, count: int) -> None:
    held = random_trace(seed, count)
    timeline, waiting = Timeline.of(held), dict[int, list[int]]()
    for record in records(held):
        (awaited,) = [wait["instruction"] for wait in record["waited_for"] if "instruction" in wait] or [None]
        assert addresses(timeline, record["index"], "waits_for") == ([] if awaited is None else [awaited])
        waiting.setdefault(awaited, []).append(record["index"])
    for index in range(count):
        assert addresses(timeline, index, "waited_for_by") == waiting.get(index, [])


def addresses(timeline: Timeline, instruction: int, role: str) -> list[int]:
    found = [d for d in timeline.dependences(instruction) if d["kind"] == "address"]
    assert all(d["on"] == "hazard" for d in found)
    return [d["instruction"] for d in found if d["role"] == role]


def test_who_released_an_instruction_ended_when_it_started() -> None:
    held = pipeline_trace(3, 400)
    timeline, found = Timeline.of(held), records(held)
    waited = 0
    for record in found:
        for wait in record["waited_for"]:
            if wait["cause"] == "token":
                (taken,) = [
                    each
                    for each in timeline.dependences(record["index"])
                    if (each["kind"], each["role"]) == ("token", "waits_for")
                ]
                assert taken["on"] == wait["on"]
                assert found[taken["instruction"]]["end"] == record["start"]
                waited += 1
    assert waited > 3


def test_neighbours_are_of_the_same_unit() -> None:
    held = random_trace(2, 40)
    timeline, found = Timeline.of(held), records(held)
    for unit in UNITS:
        mine = [record["index"] for record in found if record["unit"] == unit]
        said = [timeline.neighbours(index) for index in mine]
        assert said == list(zip([None, *mine[:-1]], [*mine[1:], None], strict=True))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["GEMM", "dense", "中", 'c"D', "ü", "load", "nothing"]), st.data())
def test_search_finds_the_first_row_that_a_name_belongs_to(seed: int, text: str, data: st.DataObject) -> None:
    held = random_trace(seed, 40)
    begin = data.draw(st.integers(0, 45))
    end = data.draw(st.none() | st.integers(0, 45))

    def named(record: dict[str, Any]) -> bool:
        origin = record["origin"] or {"function": "", "nodes": []}
        names = [record["op"], record["launch"], origin["function"], *origin["nodes"]]
        return any(text.casefold() in name.casefold() for name in names)

    expected = next((r["index"] for r in records(held)[begin:end] if named(r)), None)
    assert Trace(held).search(text, begin, end) == expected


def test_a_window_has_the_most_of_each_counter_in_each_bin() -> None:
    """Catches a counter of another bin, or one that a window within the timeline does not cut."""
    timeline = Timeline.of(pipeline_trace(3, 200))
    begin, end = timeline.cycles // 3, timeline.cycles // 2
    spans = np.array([[0, end - 5, 7], [begin + 3, begin + 4, 1 << 40], [end, end + 9, 1 << 20]]).T
    held = np.zeros(end + 9, np.int64)
    for first, last, amount in spans.T:
        held[first:last] += amount
    counters = [StepFunction.of_spans(*spans), StepFunction.of_spans(*spans[:, :1])]
    window = decoded(timeline.window(begin, end, 37, counters))
    expected = [min(int(held[slice(*edges)].max()), (1 << 32) - 1) for edges in pairwise(window.edges)]
    assert window.counters[0] == expected
    assert window.counters[1] == [7 if edge < end - 5 else 0 for edge in window.edges[:-1]]
    assert decoded(timeline.window(begin, end, 37)).counters == []
