"""End-to-end times of programs by hand: prices of steps, tensors that cross, and parts that add up."""

from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.catalog.load_accelerator import load_accelerator
from accel.host.operator_work import OperatorWork
from accel.report.documents.end_to_end_documents import EndToEnd
from accel.report.end_to_end import DramTensors, PricedStep, crossing_tensors, end_to_end
from accel.report.input_stream import StreamRun, stream_document
from tests.helpers.documents.host_by_hand import HOST as BY_HAND

HOST = BY_HAND.model_copy(update={"clock_mhz": 400.0, "completion_cycles": 601.0})
MACHINE = load_accelerator("mvin-mvout").model_copy(update={"clock_mhz": 100.0, "host": HOST})
MOVES = OperatorWork("Transpose", {"movement": 600}, 1200)
ADDS = OperatorWork("Add", {"elementwise": 600}, 7200)
TENSORS = DramTensors({"x": 64, "p": 96, "q": 640, "w": 999, "y": 33}, ("x",), ("y",))
STEPS = (
    PricedStep("lay out", "host", ("a",), ("x",), ("p",), works=(MOVES,)),
    PricedStep("first", "launch", ("a",), ("p", "w"), ("q",), cycles=5000, bound=4000),
    PricedStep("add", "host", ("b",), ("q",), ("p",), works=(ADDS, MOVES)),
    PricedStep("second", "launch", ("c",), ("p", "q", "w"), ("y",), cycles=3000, bound=3000),
)


def found(steps: tuple[PricedStep, ...] = STEPS, **changes: Any) -> EndToEnd:
    return end_to_end(steps, TENSORS, MACHINE.model_copy(update=changes), bounded=True)


def test_times_by_hand() -> None:
    time = found()
    # 1601 cycles of the host's clock are 400.25 of the accelerator's, which runs at a quarter
    assert time.details["launches"] == 2 * 401
    assert time.details["operators"] == 475  # 100 + 7200 bytes by 4, a quarter of it
    assert time.details["layout"] == 2 * 175  # 100 + 600, a quarter of it
    # p is 3 lines, q 20, y 2: 56, 90, 56 and 54 cycles, each a quarter; y leaves behind the launch that wrote it
    assert time.details["cache"] == 14 + 23 + ceil((56 + 54) / 4)
    assert time.parts["accelerator"].cycles == 8000
    assert time.cycles == 8000 + 802 + 475 + 350 + 14 + 23 + 28
    assert time.bound_cycles == time.cycles - 1000
    assert time.seconds == time.cycles / 100e6
    assert time.interval_cycles == 8000
    launches = end_to_end(STEPS[1::2], TENSORS, MACHINE.model_copy(update={"clock_mhz": 1e5}), bounded=True)
    assert launches.interval_cycles == launches.cycles - 8000  # the host's 1601 cycles are 400,250 of such a clock
    assert [step.crossing for step in time.steps] == [0, 96, 640, 96 + 33]
    assert [(step.host, step.movement) for step in time.steps] == [(0, 175), (401, 14), (475, 175 + 23), (401, 28)]
    assert [step.begin for step in time.steps] == [0, 175, 175 + 401 + 14 + 5000, 5590 + 475 + 198]


def test_launches_that_run_as_one_are_started_once() -> None:
    """Catches a launch and an interrupt for each layer of those that are joined."""
    first = STEPS[1]
    second = replace(first, name="second", reads=("q",), writes=("y",), joined=True)
    apart, joined = found((first, replace(second, joined=False))), found((first, second))
    assert (apart.details["launches"], joined.details["launches"]) == (802, 401)
    fenced = found((first, replace(second, fences=2)))  # 601 of the host's cycles at each, 150.25 here
    assert fenced.details["launches"] == 401 + 2 * 151
    assert joined.cycles == apart.cycles - 401
    assert [step.host for step in joined.steps] == [401, 0]


def test_a_document_without_a_host() -> None:
    time = found(host=None)
    assert not time.modelled
    assert time.cycles == time.parts["accelerator"].cycles == 8000
    assert time.parts["accelerator"].share == 1
    assert (time.bound_cycles, time.steps, time.host) == (7000, [], None)
    assert "host costs nothing" in time.statement


def test_tensors_cross_where_the_other_has_not_seen_them() -> None:
    """Not constants; not what one launch leaves for the next; each crossing once."""
    steps = (
        PricedStep("a", "launch", (), ("x", "w"), ("p",)),
        PricedStep("b", "launch", (), ("p", "x"), ("q",)),
        PricedStep("h", "host", (), ("q", "x"), ("p",)),
        PricedStep("i", "host", (), ("q",), ("x",)),
        PricedStep("c", "launch", (), ("q", "p", "w"), ("y",)),
    )
    assert crossing_tensors(steps, TENSORS) == [["x"], [], ["q"], [], ["p", "y"]]
    put = (PricedStep("b", "launch", (), ("p", "w"), ("q",), put=("w",)),)
    assert crossing_tensors(put, TENSORS) == [["w"]]
    # what a launch overwrites must not lie in the host's cache, or it would come back over it
    over = (PricedStep("h", "host", (), ("x",), ("q",)), PricedStep("b", "launch", (), ("w",), ("q",)))
    assert crossing_tensors(over, TENSORS) == [[], ["q"]]


@st.composite
def programs(draw: st.DrawFn) -> tuple[PricedStep, ...]:
    names = st.lists(st.sampled_from(sorted(TENSORS.nbytes)), max_size=3).map(tuple)
    works = st.lists(st.sampled_from([MOVES, ADDS]), max_size=3).map(tuple)
    found = []
    for number in range(draw(st.integers(0, 6))):
        reads, writes = draw(names), draw(names)
        if draw(st.booleans()):
            cycles = draw(st.integers(0, 10**6))
            found.append(PricedStep(f"{number}", "launch", (), reads, writes, cycles=cycles, bound=cycles // 2))
        else:
            found.append(PricedStep(f"{number}", "host", (), reads, writes, works=draw(works)))
    return tuple(found)


@given(programs(), st.sampled_from([33.3, 100.0, 1000.0]), st.booleans())
def test_parts_make_up_the_whole(steps: tuple[PricedStep, ...], clock: float, hosted: bool) -> None:
    time = found(steps, clock_mhz=clock, host=HOST if hosted else None)
    assert sum(part.share for part in time.parts.values()) == pytest.approx(1)
    assert sum(part.cycles for part in time.parts.values()) == time.cycles
    assert sum(time.details.values()) == time.cycles - time.parts["accelerator"].cycles
    assert time.parts["accelerator"].cycles == sum(step.cycles for step in steps)
    if hosted:
        spent = [step.accelerator + step.host + step.movement for step in time.steps]
        assert [step.begin for step in time.steps] == [sum(spent[:number]) for number in range(len(spent))]
        assert sum(spent) == time.cycles
        # no more than a cycle of rounding for each of a step's parts
        exact = sum(Fraction(1601) for step in steps if step.kind == "launch") * Fraction(clock) / 400
        assert 0 <= time.details["launches"] - exact < len(steps) + 1


@given(programs())
def test_nothing_crosses_twice_without_a_write_between(steps: tuple[PricedStep, ...]) -> None:
    """Nor does anything cross that nobody has written; inputs count as written by the host."""
    written = set(TENSORS.inputs)
    for step, crossed in zip(steps, crossing_tensors(steps, TENSORS), strict=True):
        before = [name for name in crossed if name in {*step.reads, *step.writes}]
        leaving = len(crossed) - len(set(crossed))
        assert set(crossed) - set(step.writes) <= written
        assert leaving <= len(TENSORS.outputs)
        written -= set(before)
        written |= set(step.writes)


@given(programs(), st.floats(0, 1e6), st.floats(0.1, 100))
def test_a_dearer_host_only_takes_longer(steps: tuple[PricedStep, ...], launch: float, rate: float) -> None:
    slow = HOST.elements_per_cycle.model_copy(update={"movement": HOST.elements_per_cycle.movement / (1 + rate)})
    dear = HOST.model_copy(update={"launch_cycles": 1000 + launch, "elements_per_cycle": slow})
    before, after = found(steps), found(steps, host=dear)
    assert after.cycles >= before.cycles
    assert after.parts["accelerator"].cycles == before.parts["accelerator"].cycles


def test_a_stream_of_inputs_by_hand() -> None:
    """Catches an interval that counts the first input, is rounded down, or leaves out a host that takes longer."""
    time, run = found(), StreamRun(24_010, (8_000, 15_900, 24_010), joined=True)
    beside = time.cycles - 8000
    stream = stream_document(run, 3, time, 100.0)
    assert (stream.accelerator_latency, stream.accelerator_interval) == (8000, 8005)
    assert (stream.latency_cycles, stream.interval_cycles) == (8000 + beside, 8005)
    assert (stream.latency_seconds, stream.interval_seconds) == ((8000 + beside) / 100e6, 8005 / 100e6)
    assert stream.inputs_per_second == pytest.approx(100e6 / 8005)
    quick = stream_document(StreamRun(30, (10, 20, 30), joined=True), 3, time, 100.0)
    assert (quick.accelerator_interval, quick.interval_cycles) == (10, beside)
    assert stream_document(StreamRun(30, (10, 20, 30), joined=True), 3, None, 100.0).latency_cycles == 10
    nothing = stream_document(StreamRun(0, (), joined=False), 3, None, 100.0)
    assert (nothing.interval_cycles, nothing.inputs_per_second) == (0, None)
