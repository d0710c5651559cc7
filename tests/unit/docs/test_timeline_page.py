"""The program in the document on the timeline reads a window."""

import re
from pathlib import Path

import numpy as np
import pytest

from accel.trace.timeline import Timeline
from accel.util.step_function import StepFunction
from tests.helpers.programs.traces import random_trace

DOCUMENT = Path(__file__).parents[3] / "docs" / "timeline.md"


def test_the_program_that_reads_a_window(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    timeline = Timeline.of(random_trace(1, 500))
    counters = [StepFunction(np.array([at, at + 7]), np.array([3 + at, 0])) for at in range(2)]
    exec(compile(program, DOCUMENT.name, "exec"), {"data": timeline.window(bins=40, counters=counters)})
    busy = [track["cycles"]["busy"] for track in timeline.document()["tracks"]]
    assert capsys.readouterr().out == f"{busy}\n[3, 4]\n"
