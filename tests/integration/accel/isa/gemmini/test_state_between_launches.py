"""What one launch leaves in registers, the next finds: in every engine, not in the machine alone."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_options import SimulateOptions
from accel.driver.run_program import run_program
from accel.errors import SimulationError
from accel.isa.decode import decode
from accel.isa.gemmini.gemmini_family import FAMILY
from accel.program.program_model import Launch, Program
from accel.program_files.open_program import open_program
from tests.helpers.programs.gemmini_parts import golden_parts
from tests.helpers.programs.gemmini_vectors import needs_gemmini_golden, trace

GEMMINI = load_accelerator("gemmini")


def contexts(parts):
    """The launches of ``parts`` of a stream, each with what it finds."""
    context, first = FAMILY.first_context(GEMMINI, ()), 0
    for words in parts:
        decoded = replace(decode(GEMMINI, words, first), context=context)
        yield decoded
        context, first = FAMILY.next_context(decoded), first + len(words)


def cut(program: Program, at: list[int]) -> Program:
    """The program with its stream cut before the instructions ``at``."""
    ends = [0, *at, len(program.words)]
    steps = [Launch(f"l{k}", "cut", (), b, e - b, 0, (), ()) for k, (b, e) in enumerate(pairwise(ends))]
    return replace(program, steps=tuple(steps))


@needs_gemmini_golden
@pytest.mark.parametrize("name", ["conv", "conv_with_pool", "tiled_matmul_ws_full_C", "resadd", "raw_hazard"])
def test_a_stream_cut_before_each_instruction_does_the_same(name, tmp_path):
    program = open_program(golden_parts(name, tmp_path)[0])
    # the host writes all before the run: in these, no instruction touches earlier what it writes later
    whole = run_program(cut(program, []), SimulateOptions(), None)
    pieces = run_program(cut(program, list(range(1, len(program.words)))), SimulateOptions(), None)
    assert whole.verified
    assert pieces.verified
    assert {each.kind for each in pieces.warnings} <= {
        "hardware-differs"
    }  # a preload ends a launch, and may be the last
    assert (pieces.bytes_read, pieces.bytes_written) == (whole.bytes_read, whole.bytes_written) > (0, 0)
    assert sum(each.lower_bound for each in pieces.launches) >= whole.launches[0].lower_bound


@needs_gemmini_golden
@pytest.mark.parametrize("name", ["tiled_matmul_ws", "conv_dw_perf"])
def test_a_loop_takes_its_time_in_whatever_launch_its_registers_were_set(name):
    words = trace(name)[:40]
    loop = int(np.flatnonzero(np.isin(words[:, 0], (8, 15)))[0])
    whole = decode(GEMMINI, words[: loop + 1])
    before, after = contexts([words[:loop], words[loop : loop + 1]])
    assert FAMILY.effort(before).sum() + FAMILY.effort(after).sum() == FAMILY.effort(whole).sum() > 0
    assert len(FAMILY.boxes(after).begin) == len(FAMILY.boxes(whole).begin) > 0
    assert FAMILY.work(after).compute_cycles == FAMILY.work(whole).compute_cycles > 0
    timing = FAMILY.time(whole, {})
    alone = timing.end[loop] - timing.start[loop]
    assert FAMILY.time(after, {}).cycles == pytest.approx(alone, rel=0.1)  # it need not wait for what comes before


@pytest.mark.parametrize(
    "act",
    [
        lambda decoded: FAMILY.check_launch(decoded, 1 << 15),
        lambda decoded: FAMILY.machine(GEMMINI).run(decoded, np.zeros(1 << 15, np.uint8)),
        lambda decoded: FAMILY.hazard_checker(GEMMINI, {}, 1 << 15).check(decoded, np.zeros(1 << 15, np.uint8)),
    ],
)
def test_an_error_counts_from_the_programs_first_instruction_and_names_it(act):
    words = np.array([(7, 0, 0), (2, 1 << 15, 16 << 48 | 16 << 32)], np.uint64)  # flush, mvin
    with pytest.raises(SimulationError) as caught:
        act(decode(GEMMINI, words, first=100))
    assert (caught.value.instruction, caught.value.field) == (101, "instruction:101")
    assert caught.value.detail.startswith("instruction 101 (mvin): DRAM address 0x8000, where there is none")


def test_a_context_is_what_the_machine_has():
    """After random configurations and loop registers, in pieces of any size."""
    random = np.random.default_rng(0)
    rows = [(int(f), int(a), int(b)) for f, a, b in random.integers(0, 1 << 62, (300, 3))]
    functs = [0, 0, 6, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20, 21, 126]
    words = np.array(
        [(functs[f % len(functs)], a & ~0x1F | f % 3 << 3 | f & 3, b & 0xFFFFFFFF) for f, a, b in rows], np.uint64
    )
    *_, whole = contexts([words, words[:0]])
    *_, last = contexts([*np.array_split(words, 17), words[:0]])
    for name in ("loops", "state", "bits"):
        found = getattr(last.context, name)
        assert found.any()
        np.testing.assert_array_equal(found, getattr(whole.context, name))
