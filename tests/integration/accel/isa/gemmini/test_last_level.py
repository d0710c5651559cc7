"""The last level behind the L2, request by request: what FireSim's ``LastLevelCache.scala`` says of each."""

import pytest

from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters, MemoryHierarchy
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.timing.machine.build import new_machine
from accel.isa.gemmini.timing.machine.memory.last_level import last_level, touch_block

BEATS = 8  # of 64 bytes on a bus of 8
TURN = 1 + BEATS  # cycles in which the machine does nothing else: its tags, and the beats
DRAM, ROW = 20, 30


def empty(**more):
    """A last level of lines of 128 bytes, 64 sets, before DRAM with rows of 8 KiB in 4 banks."""
    values = {"llc_bytes": 64 * 8 * 128, "llc_line_bytes": 128, "llc_bus_bytes": 8, "dram_latency": DRAM}
    memory = MemoryHierarchy(**{**values, "dram_row_cycles": ROW, "dram_banks": 4, **more})
    parameters = GemminiParameters(memory=memory)
    return new_machine(parameters, LaunchContext.fresh(parameters))


@pytest.fixture
def machine():
    return empty()


def read(machine, now, line):
    return last_level(machine, now, line, 0)


def write(machine, now, line):
    return last_level(machine, now, line, 1)


def test_lines_that_it_has_come_one_after_the_other(machine):
    for line in range(6):
        touch_block(machine, line, 0)
    assert [read(machine, 0, line) for line in range(6)] == [2 + TURN * line for line in range(6)]


def test_the_second_half_of_a_line_waits_for_dram(machine):
    """Else a stream of lines would have as many reads of DRAM under way as there are misses."""
    first = read(machine, 0, 0)
    assert first == 2 + ROW + DRAM
    assert read(machine, 1, 1) == first + 2 * BEATS + 2  # all 128 bytes are taken in first


def test_other_sets_do_not_wait_for_a_miss(machine):
    """Of the same row: the row is open, and the first one's answer must be taken in before."""
    first = read(machine, 0, 0)
    assert read(machine, 1, 2) <= first + 2 * BEATS
    touch_block(machine, 40, 0)
    assert read(machine, 2, 40) < first


def test_a_row_that_is_open_answers_sooner(machine):
    lines = 8192 // 64
    answers = []
    for number, line in enumerate(
        (0, 2, 4 * lines, 4 * lines + 2, 0 + 6)
    ):  # a row, the next of the same bank, the first
        now = 1000 * number
        answers.append(read(machine, now, line) - now)
    assert answers == [2 + ROW + DRAM, 2 + DRAM, 2 + ROW + DRAM, 2 + DRAM, 2 + ROW + DRAM]


def test_a_ninth_miss_waits_for_the_first():
    """Nine are asked for before the first is there; on a wide bus their answers do not wait for each other."""
    eight, nine = empty(llc_bus_bytes=64), empty(llc_bus_bytes=64, llc_misses_in_flight=9)
    limited, free = ([read(machine, 0, 2 * block) for block in range(9)] for machine in (eight, nine))
    assert limited[:8] == free[:8]
    assert free[8] < limited[0] + DRAM <= limited[8]


def test_half_a_line_that_is_written_is_read_first(machine):
    """What the L2 writes back has 64 bytes; the other half of the line is DRAM's, and it holds its set until then."""
    write(machine, 0, 0)
    assert read(machine, 1, 1) >= 2 + ROW + DRAM + 2 * BEATS
