"""Reads of what nothing wrote, by hand: whose they are, of what, and what counts as written."""

from dataclasses import replace

import numpy as np
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_options import SimulateOptions
from accel.driver.run_program import run_program
from accel.isa.decode import decode
from accel.isa.gemmini.gemmini_family import FAMILY
from accel.isa.hazard_findings import Unwritten
from accel.program.program_model import DramWindow
from accel.program_files.open_program import open_program
from tests.helpers.programs.gemmini_parts import write_parts

GEMMINI = load_accelerator("gemmini")
ONE, ACC, ADD, NONE = 0x3F800000, 1 << 31, 1 << 30, 0xFFFFFFFF
CONFIG = [(0, 1 << 16 | 4, 1 << 48), (0, ONE << 32 | 16 << 16 | 1 << 8 | 1, 16), (0, 2, ONE << 32 | 16)]
POOL = (0, 4 << 56 | 4 << 48 | 2 << 40 | 2 << 32 | 2 << 24 | 2 << 6 | 2 << 4 | 2, ONE << 32 | 16)
DRAM = 1 << 14


def tile(rows, columns, address):
    return rows << 48 | columns << 32 | address


def found(*launches, written=((4096, 4352),), windows=()):
    """The reads of what nothing wrote in launches of these instructions."""
    checker, context = FAMILY.hazard_checker(GEMMINI, {}, DRAM), FAMILY.first_context(GEMMINI, windows)
    for begin, end in written:
        checker.wrote(begin, end)
    reads, first = [], 0
    for rows in launches:
        decoded = replace(decode(GEMMINI, np.array(rows, np.uint64), first), context=context)
        hazards = checker.check(decoded, np.zeros(DRAM, np.uint8))
        assert not hazards.races
        reads += hazards.unwritten
        context, first = FAMILY.next_context(decoded), first + len(rows)
    return reads


FENCE = 127, 0, 0
LOAD = (2, 4096, tile(16, 16, 32))
CASES = {
    "a store of rows that a load filled": ([LOAD, (3, 8192, tile(16, 16, 32))], []),
    "a store beyond them": ([LOAD, (3, 8192, tile(16, 16, 36))], [Unwritten(4, "spad", 48, 52)]),
    "an accumulation": ([(2, 4096, tile(4, 4, ACC | ADD | 7))], [Unwritten(3, "acc", 7, 11)]),
    "a load that does not add": ([(2, 4096, tile(4, 4, ACC | 7)), (3, 8192, tile(4, 4, ACC | 7))], []),
    "zeros are written too": ([(2, 0, tile(4, 4, 9)), (3, 8192, tile(4, 4, 9))], []),
    "weights and operand": (
        [(6, tile(16, 16, 500), tile(16, 16, ACC)), (4, tile(8, 16, 600), tile(16, 16, NONE))],
        [Unwritten(4, "spad", 500, 608)],
    ),
    "a product writes": (
        [LOAD, (6, tile(16, 16, 32), tile(16, 16, ACC)), (4, tile(16, 16, 32), NONE), (3, 8192, tile(16, 16, ACC))],
        [],
    ),
    "a product adds": (
        [LOAD, (6, tile(16, 16, 32), tile(2, 16, ACC | ADD)), (4, tile(16, 16, 32), NONE)],
        [Unwritten(5, "acc", 0, 2)],
    ),
    "pooling": ([POOL, (3, 8192, tile(0, 16, ACC))], [Unwritten(4, "acc", 0, 16)]),
    "bytes of DRAM": ([(2, 4100, tile(16, 16, 0))], [Unwritten(3, "dram", 4352, 4356)]),
    "bytes that a store wrote": ([LOAD, (3, 8192, tile(16, 16, 32)), FENCE, (2, 8192, tile(16, 16, 0))], []),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_reads_of_what_nothing_wrote(name):
    rows, expected = CASES[name]
    assert found([*CONFIG, *rows]) == expected


@pytest.mark.parametrize("name", CASES)
def test_what_launches_before_wrote_and_configured_counts(name):
    rows, expected = CASES[name]
    assert found(*([row] for row in [*CONFIG, *rows])) == expected


def test_addresses_are_those_of_the_windows():
    window = DramWindow(0x7FFC_0000_0000, 1 << 13)
    rows = [*CONFIG, (2, window.address + 4, tile(1, 16, 0))]
    read = Unwritten(3, "dram", window.address + 16, window.address + 20)
    assert found(rows, written=[(4096, 4112)], windows=(window,)) == [read]


def test_the_report_warns(tmp_path):
    parts = write_parts(
        tmp_path, [*CONFIG, (126, 1, 0), (3, 4096, tile(16, 16, 100)), (127, 0, 0)], [(0, 0, bytes(64))]
    )
    report = run_program(open_program(parts), SimulateOptions(), None)
    assert [(warning.kind, warning.instruction) for warning in report.warnings] == [("never-written", 4)]
    assert "elements 100 to 115 of spad" in report.warnings[0].detail
