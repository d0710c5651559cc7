"""How a job chooses among tilings that the planner prices alike: ``options.schedule``."""

import contextlib
import math
from pathlib import Path

import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver import run_model as driver
from accel.driver.run_options import Options, Schedule, StageProgress
from accel.driver.trials import region_timer
from accel.lowering.partition import autotune
from accel.util.arrays import Words
from examples.resnet8 import resnet8

MODEL = resnet8().SerializeToString()


class _EmittedError(Exception):
    """The program is there; what follows does not depend on it."""


def _words(schedule: Schedule, out: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, int]:
    """The instruction words of a job that finds all slow, what it times last the fastest; and how much it timed."""
    timed: list[Words] = []

    def cycles(words: Words, *_: object) -> int:
        timed.append(words)
        return 10**9 - len(timed)

    def stop(now: StageProgress) -> None:
        if now.stage == "simulate":
            raise _EmittedError

    monkeypatch.setattr(region_timer, "_cycles", cycles)
    monkeypatch.setattr(autotune, "_DOUBT", math.inf)  # else all trials are spent by either way
    out.mkdir()
    with contextlib.suppress(_EmittedError):
        driver.run_model(
            MODEL, load_accelerator("vta"), Options(schedule=schedule, launches="separate"), out, progress=stop
        )
    return (out / "instructions.bin").read_bytes(), len(timed)


@pytest.mark.slow
def test_quick_times_no_choices_and_timed_takes_what_is_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick, none = _words("quick", tmp_path / "quick", monkeypatch)
    timed, tried = _words("timed", tmp_path / "timed", monkeypatch)
    auto, fewer = _words("auto", tmp_path / "auto", monkeypatch)  # a VTA's prices are exact but for additions
    assert auto not in (quick, timed)
    assert 0 < fewer < tried
    assert none <= 1  # what the last layer stores in the model's order is timed in any case
    assert tried > 1
    assert timed != quick
