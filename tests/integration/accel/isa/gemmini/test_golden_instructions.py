"""The functional simulator against recorded runs of ucb-bar/libgemmini, instruction by instruction."""

import numpy as np
import pytest

from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.function.stream_machine import StreamMachine
from tests.helpers.programs.gemmini_vectors import dram_for, names, needs_gemmini_golden, read


@needs_gemmini_golden
@pytest.mark.parametrize("name", names())
def test_every_byte_that_an_instruction_writes_is_the_recorded_one(name):
    steps = read(name)
    dram = dram_for(steps)
    machine = StreamMachine(GemminiParameters())
    for number, step in enumerate(steps):
        for address, data in step.host:
            dram[address : address + len(data)] = np.frombuffer(data, np.uint8)
        expected = dram.copy()
        machine.run(step.words, dram)
        for address, data in step.written:
            expected[address : address + len(data)] = np.frombuffer(data, np.uint8)
        assert np.array_equal(dram, expected), f"instruction {number}"


def stretches(steps):
    """Runs of instructions in which host memory changes by instructions alone."""
    run = []
    for step in steps:
        if step.host and run:
            yield run
            run = []
        run.append(step)
    yield run


@needs_gemmini_golden
@pytest.mark.parametrize("name", names())
def test_instructions_in_one_stream_do_what_they_do_one_by_one(name):
    steps = read(name)
    dram = dram_for(steps)
    machine = StreamMachine(GemminiParameters())
    for run in stretches(steps):
        for address, data in run[0].host:
            dram[address : address + len(data)] = np.frombuffer(data, np.uint8)
        expected = dram.copy()
        machine.run(np.concatenate([step.words for step in run]), dram)
        for step in run:
            for address, data in step.written:
                expected[address : address + len(data)] = np.frombuffer(data, np.uint8)
        assert np.array_equal(dram, expected)
