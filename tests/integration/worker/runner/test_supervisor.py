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
def supervisor_running(settings: Settings) -> Iterator[Callable[[Acts], SupervisorProcess]]:
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


def run(supervisor: SupervisorProcess, job_id: str = "a" * 32, beat: Callable[[], None] = lambda: None) -> int:
    status = supervisor.run(job_id, "token", "worker-1", beat)
    assert not processes.named(os.getpid(), PROCESS_NAME)
    return status


def scratch_of(settings: Settings) -> list[Path]:
    return list(settings.scratch_dir.iterdir())


def test_one_process_attends_to_many_jobs(
    supervisor_running: Callable[[Acts], SupervisorProcess], settings: Settings, tmp_path: Path
) -> None:
    def acts(assignment: Assignment, process: JobProcessProxy) -> None:
        assert process.poll() is None
        assert (Path(assignment.scratch) / "out").is_dir()
        with (tmp_path / "told").open("a") as file:
            print(assignment.job_id, assignment.token, assignment.worker, os.getpid(), file=file)

    supervisor = supervisor_running(acts)
    jobs = [f"{number:032x}" for number in range(5)]
    assert [run(supervisor, job) for job in jobs] == [0] * 5
    pid = supervisor.pid
    assert (tmp_path / "told").read_text().splitlines() == [f"{job} token worker-1 {pid}" for job in jobs]
    assert scratch_of(settings) == []


@pytest.mark.slow
def test_another_takes_over_after_many(
    supervisor_running: Callable[[Acts], SupervisorProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_JOBS", 3)
    supervisor = supervisor_running(lambda *_: None)
    pids = []
    for _ in range(7):
        assert run(supervisor) == 0
        pids.append(supervisor.pid)
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]
    assert not any(processes.lives(pid) for pid in pids[:-1])


def test_it_learns_how_the_process_ended(
    supervisor_running: Callable[[Acts], SupervisorProcess], tmp_path: Path
) -> None:
    def acts(_: Assignment, process: JobProcessProxy) -> None:
        assert process.poll() is None
        killed = process.kill()
        (tmp_path / "told").write_text(f"{killed} {process.poll()} {process.kill()}")

    assert run(supervisor_running(acts)) == 0
    assert (tmp_path / "told").read_text() == "9 9 9"


def test_its_death_ends_the_job(supervisor_running: Callable[[Acts], SupervisorProcess], settings: Settings) -> None:
    def acts(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    supervisor = supervisor_running(acts)
    supervisor.ensure_running()
    pid = supervisor.pid
    status = run(supervisor)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert not processes.lives(pid)
    assert scratch_of(settings) == []
    assert supervisor.pid == 0
    supervisor.ensure_running()
    assert supervisor.pid not in {0, pid}


def test_an_error_of_its_own_ends_it(supervisor_running: Callable[[Acts], SupervisorProcess]) -> None:
    def acts(*_: object) -> None:
        raise RuntimeError("of ours")

    assert os.waitstatus_to_exitcode(run(supervisor_running(acts))) == 1


def test_a_directory_that_cannot_be_made_is_no_end(
    supervisor_running: Callable[[Acts], SupervisorProcess], settings: Settings
) -> None:
    supervisor = supervisor_running(lambda *_: None)
    settings.scratch_dir.rmdir()
    with pytest.raises(FileNotFoundError):
        run(supervisor)
    settings.scratch_dir.mkdir()
    assert run(supervisor) == 0


def test_one_that_died_between_jobs_is_replaced(supervisor_running: Callable[[Acts], SupervisorProcess]) -> None:
    supervisor = supervisor_running(lambda *_: None)
    assert run(supervisor) == 0
    pid = supervisor.pid
    processes.kill(pid)
    assert processes.gone([pid])
    assert run(supervisor) == 0
    assert supervisor.pid != pid


def until(path: Path) -> None:
    """Wait for a file."""
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_worker_lives_meanwhile(
    supervisor_running: Callable[[Acts], SupervisorProcess], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_BEAT", 0.02)
    beats = itertools.count(1)

    def beat() -> None:
        if next(beats) == 3:
            (tmp_path / "beaten").touch()

    assert run(supervisor_running(lambda *_: until(tmp_path / "beaten")), beat=beat) == 0
    assert (tmp_path / "beaten").exists()


def test_it_ends_when_the_worker_hangs_up(supervisor_running: Callable[[Acts], SupervisorProcess]) -> None:
    supervisor = supervisor_running(lambda *_: None)
    supervisor.ensure_running()
    pid = supervisor.pid
    assert supervisor.close() == 0
    assert not processes.lives(pid)
    assert supervisor.close() == 0


def test_what_fails_beside_the_job_does_it_no_harm(
    supervisor_running: Callable[[Acts], SupervisorProcess], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
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

    assert run(supervisor_running(acts), beat=fail) == 0
    assert (tmp_path / "told").read_text() == "None"  # the job's process lived
