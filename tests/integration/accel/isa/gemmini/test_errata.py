"""What Gemmini's hardware was seen to run otherwise than its instructions say, as diagnoses."""

import json
from pathlib import Path

import numpy as np
import pytest

from accel.catalog.derive_accelerator import derive_accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options, SimulateOptions
from accel.driver.run_program import run_program
from accel.isa.gemmini.document.gemmini_document import parameters_of
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.document.rocc_encoding import INV_SUM_EXP, MAX, SOFTMAX, SUM_EXP
from accel.isa.gemmini.stream.errata import find_errata
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.stream.loop_expansion import expand_loops
from accel.isa.recorded.recordings import read_recordings
from accel.program_files.open_program import open_program
from examples.networks import build
from tests.helpers.programs.gemmini_parts import write_parts

GOLDEN = Path(__file__).parents[6] / "shared" / "golden" / "gemmini"
needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"{GOLDEN} is absent")
ACC, ADD, NONE = 1 << 31, 1 << 30, 0xFFFFFFFF
BANK = 512  # rows of the accumulator
CONFIG = [(0, 1 << 16 | 4, 1 << 48), (0, 0x3F800000 << 32 | 16 << 16 | 1 << 8 | 1, 64)]
FENCE = (127, 0, 0)


def tile(rows, columns, address):
    return rows << 48 | columns << 32 | address


def product(into, rows=16):
    return [(6, tile(16, 16, 0), tile(rows, 16, into)), (4, tile(rows, 16, 64), tile(16, 16, NONE))]


def found(*rows, name="gemmini"):
    return errata_of(rows, parameters_of(load_accelerator(name)))


def errata_of(rows, parameters):
    words = np.array([*CONFIG, *rows], np.uint64)
    context = LaunchContext.fresh(parameters)
    expanded = expand_loops(words, parameters, context.loops.copy())
    errata = find_errata(expanded, parameters, context.state, -len(CONFIG))
    return [(each.kind, each.instruction, each.since) for each in errata]


LOAD = (2, 4096, tile(16, 16, ACC | ADD))
LATER = [(2, 4096, tile(16, 16, ACC | ADD | 16 * place)) for place in range(1, 9)]
SHORT = product(ACC | BANK, rows=4)


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([LOAD, *product(ACC | ADD | BANK)], [("adders-shared", 1, 0)]),
        ([*product(ACC | ADD | BANK), LOAD], [("adders-shared", 2, 0)]),
        ([LOAD, FENCE, *product(ACC | ADD | BANK)], []),
        ([LOAD, *product(ACC | ADD | 32)], []),
        ([LOAD, *product(ACC | BANK)], []),
        ([(2, 4096, tile(16, 16, ACC)), *product(ACC | ADD | BANK)], []),
        # the product waits for the load, and the next, in the other bank, runs behind it
        ([LOAD, *product(ACC | ADD), *product(ACC | ADD | BANK)], []),
        # the load waits for the second product, and so for the first
        ([*product(ACC | ADD | BANK), *product(ACC | ADD), LOAD], []),
        # eight more loads have entries only when this one is complete
        ([LOAD, *LATER, *product(ACC | ADD | BANK)], [("adders-shared", 9, 1)]),
        ([*SHORT, CONFIG[0]], [("short-compute", 1, 2)]),
        ([*SHORT, FENCE, CONFIG[0]], []),
        ([*SHORT, CONFIG[1]], []),
        ([*product(ACC, rows=5), CONFIG[0]], []),
        ([*SHORT, *product(ACC), CONFIG[0]], []),
        ([product(ACC)[0]], [("preload-alone", 0, 0)]),
        ([product(ACC)[0], FENCE, product(ACC)[1]], []),
        ([product(ACC)[0], FENCE, CONFIG[0]], [("preload-alone", 0, 2)]),
        ([product(ACC)[0], *product(ACC)], []),
        ([product(ACC)[0], LOAD, product(ACC)[1]], []),
    ],
)  # fmt: skip
def test_streams_by_hand(rows, wanted):
    assert found(*rows) == wanted


@pytest.mark.parametrize("folder", ["rtl", "rtl_8x8"])
@needs_golden
def test_every_recorded_program_that_differs_is_told(folder):
    """And of loops and chains that the hardware ran as they say, none; random ones may be, by another latency."""
    recordings = read_recordings(GOLDEN / folder)
    index = json.loads((GOLDEN / folder / "index.json").read_text())
    parameters = parameters_of(load_accelerator("gemmini" if folder == "rtl" else "gemmini-8"))
    told = set()
    for stream in recordings.streams:
        context = LaunchContext.fresh(parameters)
        expanded = expand_loops(stream.words, parameters, context.loops.copy())
        if find_errata(expanded, parameters, context.state, 0):
            told.add(stream.name)
    differ = {entry["name"] for entry in index if entry["function"] == "differs"}
    assert differ <= told
    assert {name.partition("/")[0] for name in told} <= {"fuzz", "banks"}


def test_a_report_names_the_instruction(tmp_path):
    words = [*CONFIG, *SHORT, CONFIG[0], *product(ACC)]
    parts = write_parts(tmp_path, words, [(0, 0, bytes(64))])
    report = run_program(open_program(parts), SimulateOptions(), None)
    [warning] = [each for each in report.warnings if each.kind == "hardware-differs"]
    assert warning.instruction == 3
    assert "right before instruction 4 (config_ex)" in warning.detail


@pytest.mark.parametrize("name", [pytest.param("gemmini"), pytest.param("gemmini-lean", marks=pytest.mark.slow)])
def test_compiled_programs_have_none(name, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(build("resnet8").SerializeToString())
    report = run_model(path, load_accelerator(name), Options(verify_seconds=0, schedule="quick"), tmp_path)
    assert "hardware-differs" not in {warning.kind for warning in report.warnings}


def gathered(command, columns=32, rows=1):
    return 3, 4096, tile(rows, columns, ACC | command << 26)


def of_number(number):
    return 0, 1 << 17 | number << 8 | 3, 0


LARGEST_OF_FOUR = [each for number in range(4) for each in (of_number(number), gathered(MAX))]
STORED = gathered(0)


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        # six cycles: the rows of three others, or of one in more blocks
        ([*LARGEST_OF_FOUR, of_number(0), gathered(INV_SUM_EXP)], []),
        ([gathered(MAX), gathered(INV_SUM_EXP)], [("stale-maximum", 1, 0)]),
        ([gathered(MAX), of_number(1), gathered(MAX, 16), of_number(0), gathered(SUM_EXP)], [("stale-maximum", 4, 0)]),
        ([gathered(MAX), of_number(1), gathered(MAX, 32), of_number(0), gathered(SUM_EXP)], []),
        ([gathered(MAX), *[STORED] * 2, gathered(SUM_EXP)], []),
        # the one block of a row is none of SUM_EXP, however late
        ([*LARGEST_OF_FOUR, of_number(0), gathered(INV_SUM_EXP, 16)], [("stale-maximum", 9, 1)]),
        # what was taken over stays
        ([gathered(MAX), *[STORED] * 2, gathered(SUM_EXP), gathered(INV_SUM_EXP, 16)], []),
        ([gathered(MAX), of_number(1), gathered(INV_SUM_EXP)], []),
    ],
)
def test_maxima_that_are_not_taken_over(rows, wanted):
    normalising = derive_accelerator(load_accelerator("gemmini"), {"normalizations": True}, "normalising")
    assert errata_of(rows, parameters_of(normalising)) == wanted
    assert found(*rows) == []  # there is no normaliser


@pytest.mark.parametrize(("rows", "columns", "warned"), [(8, 2, False), (8, 1, True), (5, 2, True)])
def test_a_loop_that_normalises_as_the_library_does(rows, columns, warned):
    """Rows of one block, and the last row alone, by the RTL of designs that the library is for."""
    parameters = GemminiParameters(normalizations=True)
    loop = [
        (9, 16 - rows, 1 << 32 | columns << 16 | 1),
        (10, 1 << 16, 1 << 17),
        (11, 0, 1 << 18),
        (12, 64, 64),
        (13, 64, 64),
        (8, SOFTMAX << 8, 0),
    ]
    assert bool(errata_of(loop, parameters)) == warned
