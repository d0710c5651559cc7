"""Mutated programs: no crash, no hang, no access beyond a buffer, and every diagnosis is met."""

import contextlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import ROOT

DIAGNOSES = {
    "undefined-opcode", "field-range", "padding", "memory-range", "microop-range", "dram-range", "deadlock",
    "work-limit", "race", "never-written", "never-finishes", "fine",
}  # fmt: skip


def campaigns(directory: Path, count: int, seeds: list[int], seconds: float) -> Counter[str]:
    """Run campaigns side by side, in processes that may die."""
    with contextlib.ExitStack() as stack:
        started = []
        for seed in seeds:
            command = [sys.executable, "-m", "tests.fuzz.campaign", str(count), str(seed), str(directory / str(seed))]
            process = stack.enter_context(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
            stack.callback(process.kill)  # one that is late must not run on beside the tests that follow
            started.append(process)
        told: Counter[str] = Counter()
        for seed, process in zip(seeds, started, strict=True):
            output, _ = process.communicate(timeout=seconds)
            assert process.returncode == 0, (directory / str(seed)).read_text()
            result = json.loads(output)
            assert result["slowest"] < 20
            told += Counter(result["told"])
    return told


@pytest.mark.slow
def test_mutated_programs_are_run_or_diagnosed(tmp_path):
    told = campaigns(tmp_path, 300, [11], 120)
    assert told["ten instructions"] > 150
    assert told["compared"] > 0
    assert told["deadlock"] > 0


@pytest.mark.slow
@pytest.mark.all
@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [1_000, 2_500])
def test_thousands_of_mutated_programs(count, tmp_path):
    told = campaigns(tmp_path, count, [3, 4], 800)
    assert told["ten instructions"] >= count
    assert told["compared"] > 4


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_mutated_programs(tmp_path):
    told = campaigns(tmp_path, 52_000, [1, 2], 3500)
    assert told["ten instructions"] >= 52_000
    assert set(told) >= DIAGNOSES
    assert told["compared"] > 500
