"""Units that take turns: tokens against the program written out call by call."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.catalog.load_accelerator import load_accelerator
from accel.lowering.sync.program_order import CallStep, Extents
from accel.lowering.sync.token_protocol import (
    ContextRotation,
    Signals,
    ordering_fault,
    replay_calls,
    run_ahead_options,
    shortened_extents,
    token_protocol,
    unit_pairs,
)
from tests.helpers.marking import share

VTA = load_accelerator("vta")
NAMES = {"load": "load_inp", "compute": "gemm", "store": "store_out"}


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[CallStep], dict[int, int]]:
    """Calls of the three units in nested loops, all of which touch one buffer."""
    steps: list[CallStep] = []
    extents: dict[int, int] = {}

    def body(loops: tuple[int, ...]) -> None:
        for _ in range(draw(st.integers(1, 3))):
            if len(loops) < 3 and draw(st.booleans()):
                loop = len(extents)
                extents[loop] = draw(st.integers(1, 4))
                body((*loops, loop))
            else:
                unit = draw(st.sampled_from(sorted(NAMES)))
                steps.append(CallStep(len(steps), NAMES[unit], unit, loops, (0,)))

    body(())
    return steps, extents


def flagged(signals: Signals, step: CallStep, name: str, place: dict[int, int], extents: Extents) -> bool:
    ways = signals.get((step.index, name), [])
    return any(all(bound.holds(place, extents) for bound in where) for where in ways)


@pytest.mark.slow
@given(programs())
@settings(max_examples=share(200), deadline=None)
def test_a_token_is_sent_and_awaited_exactly_where_the_unit_changes(
    program: tuple[list[CallStep], dict[int, int]],
) -> None:
    steps, extents = program
    found = unit_pairs(steps, VTA)
    signals = token_protocol([(pair, ()) for pair in found], extents, VTA)
    for pair in found:
        run = [(step, dict(place)) for step, place in replay_calls(pair.steps, extents)]
        assert len(run) == sum(math.prod(extents[loop] for loop in step.loops) for step in pair.steps)
        for number, (step, place) in enumerate(run):
            other = next(unit for unit in pair.units if unit != step.unit)
            tokens = VTA.instruction(step.name).tokens
            before = number > 0 and run[number - 1][0].unit == other
            after = number + 1 < len(run) and run[number + 1][0].unit == other
            assert flagged(signals, step, tokens.pop[other], place, extents) == before
            assert flagged(signals, step, tokens.push[other], place, extents) == after


@given(programs())
@settings(max_examples=100, deadline=None)
def test_turns_order_two_units_that_share_a_buffer(program: tuple[list[CallStep], dict[int, int]]) -> None:
    steps, extents = program
    for pair in unit_pairs(steps, VTA):
        signals = token_protocol([(pair, ())], extents, VTA)
        assert ordering_fault(pair.steps, signals, {0: ContextRotation((), 1)}, extents, VTA) is None


@pytest.mark.slow
@given(programs(), st.data())
@settings(max_examples=share(100), deadline=None)
def test_what_the_short_program_allows_is_right_in_the_whole(
    program: tuple[list[CallStep], dict[int, int]], data: st.DataObject
) -> None:
    """Units run ahead in all ways that the short program allows, over a buffer in some loop."""
    steps, extents = program
    scope = data.draw(st.sampled_from([step.loops[:depth] for step in steps for depth in range(len(step.loops) + 1)]))
    users = {step.index for step in steps if step.loops[: len(scope)] == scope and data.draw(st.booleans())}
    steps = [replace(step, buffers=(0,) if step.index in users else ()) for step in steps]
    held = {0: ContextRotation(scope, min(data.draw(st.integers(1, 2)), math.prod(extents[loop] for loop in scope)))}
    found, short = unit_pairs(steps, VTA), shortened_extents(steps, extents)
    ways = [data.draw(st.sampled_from([*run_ahead_options(pair, extents), ()])) for pair in found]
    chosen = list(zip(found, ways, strict=True))
    if ordering_fault(steps, token_protocol(chosen, short, VTA), held, short, VTA) is None:
        assert ordering_fault(steps, token_protocol(chosen, extents, VTA), held, extents, VTA) is None


def tiles(extent: int, inner: int) -> tuple[list[CallStep], dict[int, int]]:
    """Load and compute for each step of a tile, then the store of its accumulators."""
    steps = [
        CallStep(0, "load_inp", "load", (0, 1), (0,)),
        CallStep(1, "gemm", "compute", (0, 1), (0, 1)),
        CallStep(2, "store_out", "store", (0,), (1,)),
    ]
    return steps, {0: extent, 1: inner}


def test_a_unit_runs_ahead_only_where_there_are_two_contexts() -> None:
    steps, extents = tiles(4, 3)
    load, store = unit_pairs(steps, VTA)
    (furthest, *_) = run_ahead_options(load, extents)
    signals = token_protocol([(load, furthest), (store, ())], extents, VTA)
    for copies, expected in ((2, True), (1, False)):
        held = {0: ContextRotation((0, 1), copies), 1: ContextRotation((0,), 1)}
        assert (ordering_fault(steps, signals, held, extents, VTA) is None) == expected
