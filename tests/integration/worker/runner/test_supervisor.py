"""A worker and what attends to its jobs, where one of them or the job's process dies."""

import contextlib
import errno
import itertools
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers import processes
from worker.config.settings import Settings
from worker.runner import supervisor_process as module
from worker.runner.job_process import PROCESS_NAME
from worker.runner.supervisor_process import DONE, Assignment, JobProcessProxy, SupervisorProcess, receive_assignment

Acts = Callable[[Assignment, JobProcessProxy], None]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(data=tmp_path / "data")
    settings.scratch_dir.mkdir(parents=True)
    return settings


@pytest.fixture
def attending_by(settings: Settings) -> Iterator[Callable[[Acts], SupervisorProcess]]:
    """What has jobs attended to by a process that does what is given with each."""
    with contextlib.ExitStack() as opened:

        def start(acts: Acts) -> SupervisorProcess:
            def attend(line: socket.socket) -> None:
                while (handed := receive_assignment(line)) is not None:
                    acts(*handed)
                    handed[1].close()
                    line.sendall(DONE)

            found = SupervisorProcess(settings, attend)
            opened.callback(found.close)
            return found

        yield start


def run(attending: SupervisorProcess, job_id: str = "a" * 32, beat: Callable[[], None] = lambda: None) -> int:
    status = attending.run(job_id, "token", "worker-1", beat)
    assert not processes.named(os.getpid(), PROCESS_NAME)
    return status


def scratch_of(settings: Settings) -> list[Path]:
    return list(settings.scratch_dir.iterdir())


def test_one_process_attends_to_many_jobs(
    attending_by: Callable[[Acts], SupervisorProcess], settings: Settings, tmp_path: Path
) -> None:
    def acts(assignment: Assignment, process: JobProcessProxy) -> None:
        assert process.poll() is None
        assert (Path(assignment.scratch) / "out").is_dir()
        with (tmp_path / "told").open("a") as file:
            print(assignment.job_id, assignment.token, assignment.worker, os.getpid(), file=file)

    attending = attending_by(acts)
    jobs = [f"{number:032x}" for number in range(5)]
    assert [run(attending, job) for job in jobs] == [0] * 5
    pid = attending.pid
    assert (tmp_path / "told").read_text().splitlines() == [f"{job} token worker-1 {pid}" for job in jobs]
    assert scratch_of(settings) == []


def test_another_takes_over_after_many(
    attending_by: Callable[[Acts], SupervisorProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_JOBS", 3)
    attending = attending_by(lambda *_: None)
    pids = []
    for _ in range(7):
        assert run(attending) == 0
        pids.append(attending.pid)
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]
    assert not any(processes.lives(pid) for pid in pids[:-1])


def test_it_learns_how_the_process_ended(attending_by: Callable[[Acts], SupervisorProcess], tmp_path: Path) -> None:
    def acts(_: Assignment, process: JobProcessProxy) -> None:
        assert process.poll() is None
        killed = process.kill()
        (tmp_path / "told").write_text(f"{killed} {process.poll()} {process.kill()}")

    assert run(attending_by(acts)) == 0
    assert (tmp_path / "told").read_text() == "9 9 9"


def test_its_death_ends_the_job(attending_by: Callable[[Acts], SupervisorProcess], settings: Settings) -> None:
    def acts(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    attending = attending_by(acts)
    attending.ready()
    pid = attending.pid
    status = run(attending)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert not processes.lives(pid)
    assert scratch_of(settings) == []
    assert attending.pid == 0
    attending.ready()
    assert attending.pid not in {0, pid}


def test_an_error_of_its_own_ends_it(attending_by: Callable[[Acts], SupervisorProcess]) -> None:
    def acts(*_: object) -> None:
        raise RuntimeError("of ours")

    assert os.waitstatus_to_exitcode(run(attending_by(acts))) == 1


def test_a_directory_that_cannot_be_made_is_no_end(
    attending_by: Callable[[Acts], SupervisorProcess], settings: Settings
) -> None:
    attending = attending_by(lambda *_: None)
    settings.scratch_dir.rmdir()
    with pytest.raises(FileNotFoundError):
        run(attending)
    settings.scratch_dir.mkdir()
    assert run(attending) == 0


def test_one_that_died_between_jobs_is_replaced(attending_by: Callable[[Acts], SupervisorProcess]) -> None:
    attending = attending_by(lambda *_: None)
    assert run(attending) == 0
    pid = attending.pid
    processes.kill(pid)
    assert processes.gone([pid])
    assert run(attending) == 0
    assert attending.pid != pid


def until(path: Path) -> None:
    """Wait for a file."""
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_worker_lives_meanwhile(
    attending_by: Callable[[Acts], SupervisorProcess], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_BEAT", 0.02)
    beats = itertools.count(1)

    def beat() -> None:
        if next(beats) == 3:
            (tmp_path / "beaten").touch()

    assert run(attending_by(lambda *_: until(tmp_path / "beaten")), beat=beat) == 0
    assert (tmp_path / "beaten").exists()


def test_it_ends_when_the_worker_hangs_up(attending_by: Callable[[Acts], SupervisorProcess]) -> None:
    attending = attending_by(lambda *_: None)
    attending.ready()
    pid = attending.pid
    assert attending.close() == 0
    assert not processes.lives(pid)
    assert attending.close() == 0


def test_what_fails_beside_the_job_does_it_no_harm(
    attending_by: Callable[[Acts], SupervisorProcess], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_BEAT", 0.02)
    beats = itertools.count(1)

    def acts(_: Assignment, process: JobProcessProxy) -> None:
        until(tmp_path / "beaten")
        (tmp_path / "told").write_text(str(process.poll()))

    def fail() -> None:
        if next(beats) == 2:
            (tmp_path / "beaten").touch()
        raise BlockingIOError(errno.EAGAIN, "no process to be had")

    assert run(attending_by(acts), beat=fail) == 0
    assert (tmp_path / "told").read_text() == "None"  # the job's process lived
