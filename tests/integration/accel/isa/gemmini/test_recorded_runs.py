"""Recorded runs through the doors that users have: program parts, ``cyclops simulate``, the report."""

import numpy as np
import pytest

from accel.driver.run_options import SimulateOptions
from accel.driver.run_program import run_program
from accel.program.program_model import Launch
from accel.program_files.open_program import open_program
from accel.program_files.program_container import load_program, save_program
from tests.helpers.programs.gemmini_parts import golden_parts
from tests.helpers.programs.gemmini_vectors import names, needs_gemmini_golden, read


@needs_gemmini_golden
@pytest.mark.parametrize("name", names())
def test_a_recorded_run_is_verified_as_parts(name, tmp_path):
    parts, count = golden_parts(name, tmp_path / "parts")
    program = open_program(parts)
    assert sum(array.size for array in program.expected.values()) == count > 0
    launches = [step for step in program.steps if isinstance(step, Launch)]
    changes = sum(bool(step.host) for step in read(name)[1:])
    assert len(launches) == 1 + changes  # a launch begins where the host has written
    report = run_program(program, SimulateOptions(), None)
    assert report.verified
    assert not report.warnings
    assert report.cycles is not None
    assert report.cycles > 0


@needs_gemmini_golden
def test_a_run_with_windows_and_later_writes_goes_through_a_program_file(tmp_path):
    program = open_program(golden_parts("template", tmp_path / "parts")[0])
    assert program.windows
    assert program.written_later
    save_program(program, tmp_path / "program.zip")
    again = load_program(tmp_path / "program.zip")
    assert again.windows == program.windows
    assert again.steps == program.steps
    np.testing.assert_array_equal(again.words, program.words)
    assert run_program(again, SimulateOptions(), None).verified
