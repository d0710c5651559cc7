"""``cyclops trace``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from accel.trace.program_trace import Trace
from service.cli.commands import app
from tests.helpers.programs.traces import plain_csv, plain_text, random_trace
from tests.reference.trace_events import check

HELD = random_trace(1, 4000)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("run")
    Trace(HELD).save(directory)
    return directory


def invoke(*arguments: object) -> tuple[int, bytes, str]:
    result = CliRunner().invoke(app, ["trace", *map(str, arguments)])
    return result.exit_code, result.stdout_bytes, result.stderr


def test_to_standard_output(directory: Path) -> None:
    assert invoke(directory) == (0, plain_text(HELD), "")
    assert invoke(directory, "--format", "csv") == (0, plain_csv(HELD), "")


def test_to_a_file(directory: Path, tmp_path: Path) -> None:
    out = tmp_path / "trace.perfetto.json"
    options = ("--format", "perfetto", "-o", out, "--events", 500, "--begin", 100, "--end", 9000, "--clock-mhz", 333)
    assert invoke(directory, *options) == (0, b"", "")
    document = json.loads(out.read_bytes())
    check(document)
    assert len(document["traceEvents"]) <= 500
    assert (document["otherData"]["begin"], document["otherData"]["end"]) == (100, 9000)
    assert "333 MHz" in document["otherData"]["time"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nowhere",), 2, "[trace] there is no trace.npz to read in"),
        (("--events", "7"), 2, "[events] 7 events; expected 100 to 500000"),
        (("--begin", "-1"), 2, "[begin] cycle -1"),
        (("--begin", "9", "--end", "9"), 2, "[end] the window ends at cycle 9"),
        (("--begin", "x"), 2, "Invalid value"),
        (("--clock-mhz", "0"), 2, "Invalid value"),
        (("--format", "xml"), 2, "Invalid value"),
        (("-o", "/nowhere/at/all"), 1, "/nowhere/at/all"),
    ],
)
def test_what_is_refused(directory: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    place = (tmp_path / "nowhere",) if arguments == ("nowhere",) else (directory, "--format", "perfetto", *arguments)
    found, out, err = invoke(*place)
    assert (found, out) == (code, b"")
    assert said in err
    assert "Traceback" not in err


def test_a_damaged_trace(tmp_path: Path) -> None:
    (tmp_path / "trace.npz").write_bytes(b"PK\3\4")
    code, out, err = invoke(tmp_path)
    assert (code, out) == (2, b"")
    assert err.startswith("cyclops: [trace] the trace cannot be read")


@pytest.mark.slow
def test_a_reader_that_leaves(directory: Path) -> None:
    """As `head` does."""
    command = [sys.executable, "-m", "service.cli", "trace", str(directory)]
    reading, writing = os.pipe()
    with subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE, text=True) as process:
        os.close(writing)
        assert os.read(reading, 10)
        os.close(reading)
        assert process.wait(30) == 0
        assert process.stderr.read() == ""
