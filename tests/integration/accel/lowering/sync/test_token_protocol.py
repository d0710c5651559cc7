"""Tokens: sufficient, none to spare, and each one that matters is missed when it is deleted."""

import numpy as np
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.errors import SimulationError
from accel.isa.decode import decode
from accel.isa.vta.timing.vta_timing import time_launch
from accel.program.program_model import Launch, Program
from examples.single import Conv, conv_model
from tests.helpers.models.build_models import build
from tests.helpers.programs.race_checks import assert_ordered, find_race

VTA = load_accelerator("vta")
TOKEN_BITS = {"pop_prev": 3, "pop_next": 4, "push_prev": 5, "push_next": 6}


@pytest.fixture(scope="module")
def program() -> Program:
    return build(conv_model(Conv(channels=64, filters=32, height=28, width=28)), VTA)


def test_the_tokens_order_every_access(program: Program) -> None:
    assert_ordered(program)


@pytest.mark.slow
def test_deleting_a_pair_of_tokens_is_a_race_or_a_deadlock(program: Program) -> None:
    """Delete each push together with the pop that takes it: no count changes, so only an order can go missing."""
    (launch,) = (step for step in program.steps if isinstance(step, Launch))
    table = program.image[launch.inputs[-1]].astype(np.int64)
    decoded = decode(VTA, program.words)
    units = np.array([VTA.instructions[kind].unit for kind in decoded.kind])
    missed = total = 0
    for producer, consumer, push, pop in [
        ("load", "compute", "push_next", "pop_prev"),
        ("compute", "load", "push_prev", "pop_next"),
        ("compute", "store", "push_next", "pop_prev"),
        ("store", "compute", "push_prev", "pop_next"),
    ]:
        pushes = np.flatnonzero((units == producer) & (decoded.column(push) != 0))
        pops = np.flatnonzero((units == consumer) & (decoded.column(pop) != 0))
        assert len(pushes) == len(pops) > 0
        for begin, end in list(zip(pushes, pops, strict=True))[:: max(1, len(pushes) // 8)]:
            words = program.words.copy()
            words[begin, 0] &= ~np.uint64(1 << TOKEN_BITS[push])
            words[end, 0] &= ~np.uint64(1 << TOKEN_BITS[pop])
            total += 1
            missed += find_race(VTA, decode(VTA, words), table) is None
    assert total > 10
    assert missed == 0


def test_deleting_one_token_deadlocks(program: Program) -> None:
    decoded = decode(VTA, program.words)
    (begin, *_) = np.flatnonzero(decoded.column("push_next"))
    words = program.words.copy()
    words[begin, 0] &= ~np.uint64(1 << TOKEN_BITS["push_next"])
    with pytest.raises(SimulationError, match="wait"):
        time_launch(decode(VTA, words), {})
