"""`cyclops export`, as a user calls it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from accel.isa.recorded.recordings import read_recordings
from service.cli.commands import app
from tests.helpers.programs.hand_programs import addition, written


def export(*arguments: object) -> Any:
    done = CliRunner().invoke(app, ["export", *map(str, arguments)], env={"COLUMNS": "120"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.stderr
    return done


def test_the_folder_is_a_recording(tmp_path: Path) -> None:
    program = written(addition(), tmp_path / "program")
    done = export(program, tmp_path / "streams", "--latency", 16, "--latency", 64)
    assert (done.exit_code, done.stdout) == (0, f"1 streams in {tmp_path / 'streams'}\n")
    assert read_recordings(tmp_path / "streams").latencies == (16, 64)
    (entry,) = json.loads((tmp_path / "streams" / "index.json").read_text())
    assert (tmp_path / "streams" / entry["run"]).is_file()


@pytest.mark.parametrize("base", ["12", "0", "far", "-1048576"])
def test_an_address_that_is_none_is_refused(base: str, tmp_path: Path) -> None:
    done = export(tmp_path, tmp_path / "streams", f"--base={base}")
    assert done.exit_code == 2
    assert "[base]" in done.stderr
