"""A system that has no process to spare: what is done beside the jobs is done later, and no job is harmed."""

import errno
import os
import signal
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from rq.job import Job as RqJob

from worker.config.settings import Settings
from worker.queue.job_queue import JobQueue, TaskJob
from worker.runner import rq_worker as module
from worker.runner import worker_pool
from worker.runner.job_process import start_job_process
from worker.runner.rq_worker import JobWorker
from worker.runner.supervisor_process import SupervisorProcess
from worker.runner.warm_up import Simulators, WarmUp
from worker.storage.redis_server import connect, redis_server
from worker.webhooks.launcher import DispatcherLauncher

ID = "a" * 32


class Forks:
    """Stands for ``os.fork``, and fails while it is told to."""

    def __init__(self) -> None:
        self.fail = False
        self.failed = 0
        self._fork = os.fork

    def __call__(self) -> int:
        if self.fail:
            self.failed += 1
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return self._fork()


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> Forks:
    forks = Forks()
    monkeypatch.setattr(os, "fork", forks)
    return forks


class Jobs:
    """Stands for what attends to jobs: each ends as it is told, and the worker is heard twice meanwhile."""

    def __init__(self, *ends: int | OSError) -> None:
        self.ends = list(ends)
        self.ran: list[str] = []
        self.pid = 0

    def run(self, job_id: str, _token: str, _worker: str, beat: object) -> int:
        end = self.ends.pop(0)
        if isinstance(end, OSError):
            raise end
        for _ in range(2):
            beat()
        self.ran.append(job_id)
        return end


def worker_of(queue: JobQueue, settings: Settings, jobs: Jobs, **tasks: object) -> JobWorker:
    asked = {"on_death": lambda *_: None, "when_idle": lambda: None} | tasks
    worker = JobWorker(settings, queue, supervisor=jobs, **asked)
    worker.register_birth()
    return worker


def taken(queue: JobQueue) -> RqJob:
    queue.submit(ID)
    message, _ = queue.rq.dequeue_any([queue.rq], None, queue.connection, TaskJob, queue.rq.serializer)
    assert queue.rq.job_ids == []
    return message


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENOSPC])
def test_what_fails_beside_a_job_ends_neither_the_job_nor_the_worker(
    queue: JobQueue, settings: Settings, number: int
) -> None:
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    jobs = Jobs(0)
    worker = worker_of(queue, settings, jobs, when_idle=fail, periodically=fail)
    worker.execute_job(taken(queue), queue.rq)
    worker.run_maintenance_tasks()
    assert jobs.ran == [ID]


def test_a_job_that_cannot_be_begun_is_the_next_again(
    queue: JobQueue, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    worker = worker_of(queue, settings, Jobs(BlockingIOError(errno.EAGAIN, "no process")))
    message = taken(queue)
    queue.submit("b" * 32)
    worker.execute_job(message, queue.rq)
    assert queue.rq.job_ids == [ID, "b" * 32]


def test_a_death_is_recorded_once_there_is_a_process_for_it(
    queue: JobQueue, settings: Settings, forks: Forks, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    worker = worker_of(queue, settings, Jobs(signal.SIGKILL), on_death=lambda job_id, *_: told.write_text(job_id))
    forks.fail = True
    worker.execute_job(taken(queue), queue.rq)
    assert forks.failed
    assert not told.exists()
    forks.fail = False
    worker.run_maintenance_tasks()
    assert told.read_text() == ID
    told.unlink()
    worker.run_maintenance_tasks()
    assert not told.exists()


def test_a_courier_is_started_later(queue: JobQueue, settings: Settings, forks: Forks) -> None:
    launcher = DispatcherLauncher(settings, queue)
    queue.schedule.set_due(ID, "local", 0)
    launcher._run = lambda: os._exit(7)
    forks.fail = True
    launcher.step()
    assert forks.failed == 1
    forks.fail = False
    launcher.step()
    assert os.waitstatus_to_exitcode(os.waitpid(launcher._dispatcher, 0)[1]) == 7


def test_what_is_compiled_ahead_is_not_forgotten(forks: Forks) -> None:
    done: list[str] = []
    warm_up = WarmUp(["a"], Simulators(lambda _: False, done.append, done.append))
    forks.fail = True
    with pytest.raises(BlockingIOError):
        warm_up.step()
    forks.fail = False
    while not warm_up.done:
        warm_up.step()
    assert done == ["a"]


@pytest.mark.parametrize("what", ["the supervisor", "the job's process"])
def test_a_failed_fork_leaves_no_descriptor(settings: Settings, forks: Forks, tmp_path: Path, what: str) -> None:
    supervisor = SupervisorProcess(settings, lambda _line: None)
    forks.fail = True
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(3):
        (scratch := tmp_path / str(number)).mkdir()
        with pytest.raises(BlockingIOError):
            supervisor.ensure_running() if what == "the supervisor" else start_job_process(settings, scratch)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_workers_are_kept_though_one_cannot_be_started(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that starts them must live, as they die with it."""
    started = threading.Event()
    tries = iter([BlockingIOError(errno.EAGAIN, "no process")])

    def start(_settings: Settings) -> SimpleNamespace:
        for error in tries:
            raise error
        started.set()
        return SimpleNamespace(poll=lambda: None, terminate=lambda: None, wait=lambda _seconds: None)

    monkeypatch.setattr(worker_pool, "_start", start)
    with worker_pool.worker_processes(settings, 1):
        assert started.wait(10)


@pytest.mark.slow
def test_redis_is_started_again_though_it_could_not_be_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, tries = subprocess.Popen, iter([BlockingIOError(errno.EAGAIN, "no process")])

    def start_later(*args: object, **options: object) -> object:
        for error in tries:
            raise error
        return start(*args, **options)

    with redis_server(tmp_path / "redis") as url:
        connection = connect(url, retries=16)
        monkeypatch.setattr(subprocess, "Popen", start_later)
        os.kill(connection.info("server")["process_id"], signal.SIGKILL)
        assert connection.ping()
