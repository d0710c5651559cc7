"""The worker process: preloads the compiler, then forks once for every job.

The parent may import TVM and compile; it must never run a compiled kernel nor use the store, or the forked child
can hang: threads do not live through a fork.
"""

import contextlib
import importlib
import logging
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from rq import Worker
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer

from accel.accelerator.document import Accelerator
from accel.catalog import load_accelerator, preset_names
from worker.jobs import Jobs
from worker.limits import limit_job
from worker.problem import problem
from worker.queue import JobQueue, TaskJob
from worker.reconcile import reconcile, sweep
from worker.redis_server import connect
from worker.settings import Settings
from worker.store import Store
from worker.tied import die_with_parent

_log = logging.getLogger(__name__)


class JobWorker(Worker):
    """An RQ worker whose forked processes are limited, and whose dead ones fail their job."""

    job_class = TaskJob
    log_result_lifespan = False

    def __init__(self, settings: Settings, jobs: Jobs, queue: JobQueue, prepare: Callable[[Accelerator], None]) -> None:
        self._own_pid = os.getpid()
        self._prepare = prepare
        self._unprepared = preset_names()
        self._settings = settings
        self._jobs = jobs
        self._jobs_queue = queue
        super().__init__(
            [queue.rq],
            connection=queue.connection,
            job_class=TaskJob,
            serializer=JSONSerializer,
            # RQ wakes 15 s before the end of this time, and then looks whether maintenance is due
            worker_ttl=15 + settings.reconcile_seconds,
            maintenance_interval=settings.reconcile_seconds,
            work_horse_killed_handler=self._horse_died,
        )

    def main_work_horse(self, job: RqJob, queue: Any) -> None:
        """Tie the forked process to this one and limit it, then run the job."""
        die_with_parent(self._own_pid)
        limit_job(self._settings)
        super().main_work_horse(job, queue)

    def run_maintenance_tasks(self) -> None:
        """RQ's own, then ours: look for lost jobs, and compile the simulator for one more preset.

        RQ calls it at the start and while the worker is idle; one preset at a time keeps a new job from waiting long.
        """
        super().run_maintenance_tasks()  # type: ignore[no-untyped-call]
        in_child(self._tidy)
        if self._unprepared:
            with deferred_signals():
                self._prepare(load_accelerator(self._unprepared.pop(0)))

    def _tidy(self) -> None:
        reconcile(self._jobs, self._jobs_queue)
        sweep(self._jobs, self._settings.scratch_dir)

    def _horse_died(self, job: RqJob, _pid: int | None, status: int | None, _usage: Any) -> None:
        reason = death_reason(status)
        _log.error("job %s: %s", job.id, reason)
        died = problem("job-died", "The process that ran the job died.", reason)
        in_child(lambda: self._jobs.fail(job.id, died))


@contextlib.contextmanager
def deferred_signals() -> Iterator[None]:
    """Let requests to stop wait until the block ends: an exception in TVM's callbacks would leave it half done."""
    arrived: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in handlers:
        signal.signal(number, lambda caught, _frame: arrived.append(caught))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for caught in arrived:
            signal.raise_signal(caught)


def in_child(work: Callable[[], object]) -> None:
    """Do the work in a forked process, and wait for it.

    The store's threads are not there after a fork, and a child that waits for them hangs: so the process that forks
    for the jobs never touches the store itself.
    """
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        work()
    except Exception:  # noqa: BLE001 - logged; this process must not go on as the worker
        _log.exception("in process %d", os.getpid())
    finally:
        os._exit(0)


def death_reason(status: int | None) -> str:
    """A sentence on how a process ended, from its wait status."""
    if status is None:
        return "the process vanished"
    if not os.WIFSIGNALED(status):
        return f"the process left with exit status {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    hints: dict[int, str] = {
        signal.SIGKILL: "somebody or the kernel killed it, perhaps for want of memory",
        signal.SIGXCPU: "it used up its processor time",
        signal.SIGSEGV: "native code reached beyond its memory",
        signal.SIGABRT: "native code gave up, perhaps for want of memory",
    }
    name = signal.Signals(number).name
    return f"the process was ended by {name}" + (f": {hints[number]}" if number in hints else "")


def preload() -> Callable[[Accelerator], None]:
    """Import what every job needs, once, before the first fork; gives what compiles the simulator ahead."""
    importlib.import_module("worker.task")
    prepare: Callable[[Accelerator], None] = importlib.import_module("accel.simulate.prepare").prepare
    return prepare


def run_worker(settings: Settings) -> None:
    """Run jobs until SIGTERM or SIGINT; the running job is finished first, unless a second signal comes."""
    if settings.redis_url is None:
        raise ValueError("a worker needs CYCLOPS_REDIS_URL")
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # RQ listens for commands in a thread, which the forked processes do not need
    warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
    settings.scratch_dir.mkdir(parents=True, exist_ok=True)
    prepare = preload()
    jobs = Jobs(Store(settings.store_dir))
    queue = JobQueue(connect(settings.redis_url), settings.queue, job_seconds=settings.job_seconds)
    JobWorker(settings, jobs, queue, prepare).work(logging_level=settings.log_level)


if __name__ == "__main__":  # as worker.processes starts it
    run_worker(Settings())
