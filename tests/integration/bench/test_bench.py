"""The benchmarks run; what they measure is for the reader."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


FEW = {"networks.py": ["resnet8", "keyword_spotting"], "load.py": ["cached", "uploads"]}


@pytest.mark.long
@pytest.mark.parametrize("script", sorted(path.name for path in (ROOT / "bench").glob("*.py")))
def test_it_prints_a_table(script: str) -> None:
    run = subprocess.run(
        [sys.executable, ROOT / "bench" / script, *FEW.get(script, [])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) > 5
