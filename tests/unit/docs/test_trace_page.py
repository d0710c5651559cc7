"""The program in the document on the trace runs on a trace."""

import re
from pathlib import Path

import pytest

from accel.trace.program_trace import Trace
from tests.helpers.programs.traces import random_trace

DOCUMENT = Path(__file__).parents[3] / "docs" / "trace.md"


def test_the_program_that_reads_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    held = random_trace(1, 500)
    Trace(held).save(tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, DOCUMENT.name, "exec"), {})
    busy = (held.columns["end"] - held.columns["start"])[held.columns["kind"] == 1].sum()
    assert capsys.readouterr().out == f"{busy}\n"
