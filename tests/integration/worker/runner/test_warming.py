"""Compiling ahead in children."""

import os
import signal
import time
from pathlib import Path

import pytest

from accel.catalog.load_accelerator import preset_names
from worker.runner import warm_up as module
from worker.runner.warm_up import Simulators, WarmUp
from worker.runner.worker_main import warmed_presets


class Log:
    """A prepare that notes which process ran it for what; in a child it then does what is asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parent = os.getpid()

    def simulators(self, *on_disk: str) -> Simulators:
        """Simulators of which some are on the disk; the others come there when a child has compiled them."""
        self.kept = True
        return Simulators(lambda name: name in on_disk or (self.kept and f"{name} child" in self.lines()), self, self)

    def __call__(self, name: str) -> None:
        where = "worker" if os.getpid() == self.parent else "child"
        with self.path.open("a") as file:
            file.write(f"{name} {where}\n")
        if where == "child" and name == "bad":
            raise RuntimeError(name)
        if where == "child" and name == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        while where == "child" and name == "held" and not self.path.with_name("go").exists():
            time.sleep(0.01)

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log")


def finish(warm_up: WarmUp) -> None:
    """Step until it is done."""
    while not warm_up.done:
        warm_up.step()
        time.sleep(0.01)


def test_a_child_compiles_first_and_the_worker_after_it(log: Log) -> None:
    finish(WarmUp(["a", "b"], log.simulators()))
    assert log.lines() == ["a child", "a worker", "b child", "b worker"]


def test_the_worker_never_waits_for_a_child(log: Log) -> None:
    warm_up = WarmUp(["held"], log.simulators())
    assert [warm_up.step() for _ in range(3)] == [False, False, False]  # it ends when the file is there
    log.path.with_name("go").touch()
    finish(warm_up)
    assert log.lines() == ["held child", "held worker"]


def test_what_is_on_the_disk_is_loaded_at_once_and_compiled_by_nobody(log: Log) -> None:
    warm_up = WarmUp(["a", "b", "c"], log.simulators("a", "c"))
    assert warm_up.load()
    assert (log.lines(), warm_up.warm, warm_up.pending) == (["a worker", "c worker"], ["a", "c"], ["b"])
    finish(warm_up)
    assert log.lines() == ["a worker", "c worker", "b child", "b worker"]


def test_what_another_process_compiled_meanwhile_is_loaded_while_a_job_runs(log: Log) -> None:
    warm_up = WarmUp(["a"], log.simulators())
    assert not warm_up.load()
    with log.path.open("a") as file:
        file.write("a child\n")
    assert warm_up.load()
    assert (warm_up.done, log.lines()) == (True, ["a child", "a worker"])


@pytest.mark.slow
def test_what_fails_in_the_child_is_left_alone(log: Log) -> None:
    finish(WarmUp(["bad", "killed", "a"], log.simulators()))
    assert log.lines() == ["bad child", "killed child", "a child", "a worker"]


@pytest.mark.slow
def test_what_is_slow_and_not_kept_is_left_to_the_jobs(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, quick in (("slow", 0), ("quick", 3600)):
        monkeypatch.setattr(module, "_QUICK", quick)
        simulators = log.simulators()
        log.kept = False
        finish(WarmUp([name], simulators))
    assert log.lines() == ["slow child", "quick child", "quick worker"]


def test_nothing_to_do(log: Log) -> None:
    warm_up = WarmUp([], log.simulators())
    assert warm_up.done
    warm_up.step()
    assert warm_up.done


def test_presets_are_chosen_by_name() -> None:
    assert warmed_presets("all") == preset_names()
    assert warmed_presets("none") == []
    assert warmed_presets("vta, gemmini") == ["vta", "gemmini"]
    with pytest.raises(ValueError, match="'gemini'; there are conv-engine, gemmini, "):
        warmed_presets("vta,gemini")
