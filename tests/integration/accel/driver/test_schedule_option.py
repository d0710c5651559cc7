"""How a job chooses among tilings that the planner prices alike: ``options.schedule``."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.driver import run_model as driver
from accel.driver.run_options import Options, Schedule, StageProgress
from accel.isa.family import Family
from accel.region.kinds import Region
from examples.resnet8 import resnet8

Timer = Callable[[Region, Target, Family], int | None]
MODEL = resnet8().SerializeToString()


class _EmittedError(Exception):
    """The program is there; what follows does not depend on it."""


def _words(schedule: Schedule, timer: Timer, out: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, list[Region]]:
    """The instruction words of a job, and the regions that it timed."""
    timed: list[Region] = []

    def cycles(region: Region, target: Target, family: Family) -> int | None:
        timed.append(region)
        return timer(region, target, family)

    def stop(now: StageProgress) -> None:
        if now.stage == "simulate":
            raise _EmittedError

    monkeypatch.setattr(driver, "_cycles", cycles)
    out.mkdir()
    with contextlib.suppress(_EmittedError):
        driver.run_model(MODEL, load_accelerator("vta"), Options(schedule=schedule), out, progress=stop)
    return (out / "instructions.bin").read_bytes(), timed


def test_quick_times_nothing_and_timed_takes_what_is_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Region] = []

    def count(region: Region, *_: object) -> int:
        seen.append(region)
        return -len(seen)  # whatever is tried last is the fastest

    quick, none = _words("quick", count, tmp_path / "quick", monkeypatch)
    timed, tried = _words("timed", count, tmp_path / "timed", monkeypatch)
    assert none == []
    assert len(tried) > 1
    assert timed != quick
