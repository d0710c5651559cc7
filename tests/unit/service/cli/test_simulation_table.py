import io

import pytest
from rich.console import Console

from service.cli.report_tables import print_simulation

UNIT = {"instructions": 3, "busy": 250, "stalled": {"fetch": 90, "memory": 1000}, "idle": 7}
REPORT = {
    "accelerator": "vta",
    "engine": "both",
    "verified": True,
    "cycles": 1000,
    "mismatch_count": 0,
    "mismatches": [],
    "race_count": 0,
    "races": [],
    "warnings": [],
    "units": {"load": UNIT, "compute": UNIT | {"stalled": {"memory": 20}}},
    "bytes_read": 12345,
    "bytes_written": 6,
    "tokens": {"load_to_compute": 0, "store_to_compute": 1},
    "program": {"instructions": 4321},
    "timing_model": {"statement": "exact on all of them"},
}
MISMATCH = {"tensor": "y", "address": 4096, "got": 7, "expected": 8, "instruction": 5}

STALE = {"kind": "stale-out", "detail": "instruction 3 stores what 2 loaded"}


def printed(**changes: object) -> str:
    text = io.StringIO()
    print_simulation(REPORT | changes, Console(file=text, width=120))
    return text.getvalue()


def test_a_row_a_unit() -> None:
    text = printed()
    assert "vta: 1,000 cycles, 4,321 instructions" in text
    row = next(line for line in text.splitlines() if "load " in line)
    cells = ["load", "3", "250", "25.0%", "memory", "1,000", "7"]
    assert [cell.strip() for cell in row.strip("│").split("│")] == cells
    assert "fetch" in text


def test_what_was_moved_and_left() -> None:
    text = printed()
    assert "12,345 bytes read, 6 written" in text
    assert "tokens left over: 1 store_to_compute" in text
    assert "timing: exact on all of them" in text


def test_function_alone_has_no_cycles() -> None:
    text = printed(cycles=None, units=None, tokens=None, engine="function")
    assert "cycles not counted" in text
    assert "busy" not in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "verified: memory holds"),
        ({"verified": None}, "does not say what memory must hold; no races"),
        ({"verified": None, "race_count": None}, "does not say what memory must hold; races were not looked for"),
        ({"verified": None, "engine": "timing", "race_count": None}, "only timing was asked for"),
        ({"verified": False, "mismatch_count": 1, "mismatches": [MISMATCH]}, "NOT verified: memory"),
        ({"verified": False, "race_count": 1, "races": [{"detail": "one [bold] race"}]}, "NOT verified: the result"),
        ({"verified": None, "race_count": 1, "races": [{"detail": "one [bold] race"}]}, "NOT verified: the result"),
        ({"verified": False, "stale_read_count": 1, "stale_reads": [STALE]}, "NOT verified: on this hardware"),
    ],
)
def test_the_verdict(changes: dict, words: str) -> None:
    assert words in printed(**changes)


def test_findings_in_words() -> None:
    text = printed(
        mismatch_count=3,
        mismatches=[MISMATCH, MISMATCH | {"instruction": None}],
        race_count=2,
        races=[{"detail": "one [bold] race"}],
        stale_read_count=3,
        stale_reads=[STALE],
        warnings=[{"detail": "reads what nobody wrote"}],
    )
    assert "mismatch: y, DRAM byte 4096: 7, expected 8, stored by instruction 5" in text
    assert "never stored" in text
    assert "and 1 more mismatches" in text
    assert "race: one [bold] race" in text
    assert "and 1 more races" in text
    assert "stale-out: instruction 3 stores what 2 loaded" in text
    assert "and 2 more stale reads" in text
    assert "warning: reads what nobody wrote" in text
