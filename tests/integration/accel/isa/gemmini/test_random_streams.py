"""The kernel against the numpy reference on random streams, and random words against the bounds."""

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from accel.errors import SimulationError
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.function.stream_machine import StreamMachine
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.stream.stream_check import check_stream
from accel.isa.gemmini.timing.stream_timing import time_stream
from accel.isa.gemmini.timing.stream_traffic import dram_accesses
from tests.helpers.marking import share
from tests.helpers.programs.gemmini_programs import DRAM_BYTES, Writer
from tests.reference.gemmini import Reference


def parameters_of(dim):
    return GemminiParameters(dim=dim, scratchpad_bytes=256 * dim, accumulator_bytes=1024 * dim)


@pytest.mark.parametrize("dim", [4, 8, 16, 32])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_random_streams_do_what_the_reference_does(dim, seed):
    parameters = parameters_of(dim)
    words = Writer(seed, dim).draw(25)
    random = np.random.default_rng(seed)
    dram = random.integers(0, 256, DRAM_BYTES, dtype=np.uint8)
    reference = Reference(
        dim,
        np.zeros((parameters.scratchpad_rows, dim), np.int8),
        np.zeros((parameters.accumulator_rows, dim), np.int32),
        dram.copy(),
    )
    machine = StreamMachine(parameters)
    middle = int(random.integers(0, len(words)))
    for part in (words[:middle], words[middle:]):  # what the first launch leaves, the second finds
        machine.run(part, dram)
        reference.run(part)
    assert np.array_equal(machine.scratchpad(), reference.scratchpad)
    assert np.array_equal(machine.accumulator(), reference.accumulator)
    assert np.array_equal(dram, reference.dram)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_random_streams_have_times_and_traffic(seed):
    words = Writer(seed, 16).draw(40)
    try:
        timing = time_stream(words, parameters_of(16))
    except SimulationError as error:  # products that nobody takes out, and then weights that stay, stop the hardware
        if error.kind != "deadlock":
            raise
        reject()
    assert (timing.start >= 0).all()
    assert (timing.end >= timing.start).all()
    assert timing.cycles >= timing.end.max(initial=0)
    accesses = dram_accesses(words, parameters_of(16), LaunchContext.fresh(parameters_of(16)))
    last = accesses.begin + (accesses.rows - 1) * accesses.row_stride + accesses.row_bytes
    assert (last <= DRAM_BYTES).all()


FUNCTS = st.sampled_from([*range(22), 126, 127, 30])
SIXTY_FOUR = st.integers(0, (1 << 64) - 1)
SMALL = st.builds(lambda *parts: sum(p << 16 * i for i, p in enumerate(parts)), *[st.integers(0, 9)] * 4)
LOCAL = st.builds(
    lambda rows, columns, flags, row: rows << 48 | columns << 32 | flags << 29 | row,
    st.integers(0, 18),
    st.integers(0, 66),
    st.integers(0, 7),
    st.integers(0, 20000),
)
OPERAND = st.one_of(SIXTY_FOUR, SMALL, LOCAL, st.integers(0, 70000))


@pytest.mark.slow
@settings(max_examples=share(100), deadline=None)
@given(words=st.lists(st.tuples(FUNCTS, OPERAND, OPERAND), min_size=1, max_size=14))
def test_any_words_run_or_are_refused_by_name(words):
    stream = np.array(words, np.uint64)
    guard = 1 << 16
    memory = np.full(3 * guard, 0xA5, np.uint8)
    dram = memory[guard : 2 * guard]
    machine = StreamMachine(GemminiParameters())
    refused = None
    try:
        machine.run(stream, dram)
        time_stream(stream, GemminiParameters())
        dram_accesses(stream, GemminiParameters(), LaunchContext.fresh(GemminiParameters()))
    except SimulationError as error:
        refused = error
    if refused is not None:
        assert refused.kind != "malformed"
        assert refused.instruction in range(len(stream))
        assert refused.field == f"instruction:{refused.instruction}"
    assert (memory[:guard] == 0xA5).all()
    assert (memory[2 * guard :] == 0xA5).all()


CASES = [
    ([(30, 0, 0)], "undefined-opcode"),
    ([(2, 1 << 15, 16 << 48 | 16 << 32)], "dram-range"),
    ([(2, 1, 17 << 48 | 16 << 32)], "field-range"),
    ([(2, 1, 16 << 48 | 65 << 32)], "field-range"),
    ([(2, 1, 2 << 48 | 16 << 32 | 16383)], "memory-range"),
    ([(2, 1, 2 << 48 | 4 << 32 | 1 << 31 | 1023)], "memory-range"),
    ([(3, 1, 2 << 48 | 4 << 32 | 1 << 31 | 1023)], "memory-range"),
    ([(0, 1 << 9, 0)], "field-range"),
    ([(0, 3 << 8 | 4, 0)], "field-range"),
    ([(4, 16 << 48 | 16 << 32 | 1 << 31, 0xFFFFFFFF)], "memory-range"),
    ([(9, 0, 40 << 32 | 40 << 16 | 40), (8, 0, 0)], "memory-range"),
    ([(9, 16, 1 << 32 | 1 << 16 | 1), (8, 0, 0)], "padding"),
]


@pytest.mark.parametrize(("words", "kind"), CASES)
def test_what_is_wrong_is_named(words, kind):
    parameters = GemminiParameters()
    with pytest.raises(SimulationError) as caught:
        check_stream(np.array(words, np.uint64), parameters, LaunchContext.fresh(parameters), 1 << 15)
    assert caught.value.kind == kind
    assert caught.value.instruction == len(words) - 1
