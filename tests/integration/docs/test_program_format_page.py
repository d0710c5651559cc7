"""docs/program-format.md: its example runs, and its tables are complete."""

import re
from pathlib import Path

import pytest

from accel.driver.run_options import SimulateOptions
from accel.driver.run_program import run_program
from accel.host.host_graph_reader import read_host_graph
from accel.host.host_operators import OPERATORS
from accel.program.program_document import PartsDocument, ProgramDocument
from accel.program_files.open_program import open_program

DOCUMENT = (Path(__file__).parents[3] / "docs" / "program-format.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    return str(found)


def section(begin: str, end: str) -> str:
    return DOCUMENT[DOCUMENT.index(begin) : DOCUMENT.index(end)]


def rows(text: str) -> set[str]:
    """The names in the first columns of the tables in ``text``."""
    return {
        name for row in re.findall(r"^\| (`[^|]*`) \|", text, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)
    }


def test_the_example_is_a_program_that_does_what_it_expects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block("python"), "program-format.md", "exec"), {})
    report = run_program(open_program(tmp_path / "add-one"), SimulateOptions(), None)
    assert report.verified
    assert not report.races


def test_the_example_of_a_host_graph_is_one() -> None:
    read_host_graph(block("json"))


def test_the_operators_are_those_that_are_read() -> None:
    listed = section("The operators that a graph may", "None of them has")
    assert set(re.findall(r"`(\w+)`", listed)) == OPERATORS


def test_the_keys_are_those_that_are_read() -> None:
    parts = section("| key of `program.json`", "Entries of `dram`")
    assert rows(parts) - {"program.json"} == set(PartsDocument.model_fields)
    file = section("these keys and no others", "A step of `kind`")
    assert rows(file) == set(ProgramDocument.model_fields)
