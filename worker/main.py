"""The worker process: preloads the compiler, then forks once for every job.

The parent may import TVM and compile; it must never run a compiled kernel nor use the store, or the forked child
can hang: threads do not live through a fork.
"""

import importlib
import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rq import Worker
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer

from accel.accelerator.document import Accelerator
from accel.catalog import load_accelerator, preset_names
from worker.children import in_child
from worker.exits import death_reason
from worker.jobs import Jobs
from worker.limits import limit_job
from worker.problem import problem
from worker.queue import JobQueue, TaskJob
from worker.reconcile import reconcile, sweep
from worker.redis_server import connect
from worker.settings import Settings
from worker.store import Store
from worker.tied import die_with_parent
from worker.warming import Warming

_log = logging.getLogger(__name__)


class JobWorker(Worker):
    """An RQ worker whose forked processes are limited, and whose dead ones fail their job."""

    job_class = TaskJob
    log_result_lifespan = False

    def __init__(self, settings: Settings, jobs: Jobs, queue: JobQueue, warming: Warming) -> None:
        self._own_pid = os.getpid()
        self._warming = warming
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
        """RQ's own, then ours: look for lost jobs, and go on compiling ahead.

        RQ calls it at the start and while the worker is idle.
        """
        super().run_maintenance_tasks()  # type: ignore[no-untyped-call]
        in_child(self._tidy)
        self._warming.step()

    def _tidy(self) -> None:
        reconcile(self._jobs, self._jobs_queue)
        sweep(self._jobs, self._settings.scratch_dir)

    def _horse_died(self, job: RqJob, _pid: int | None, status: int | None, _usage: Any) -> None:
        reason = death_reason(status)
        _log.error("job %s: %s", job.id, reason)
        died = problem("job-died", "The process that ran the job died.", reason)
        in_child(lambda: self._jobs.fail(job.id, died))


def preload() -> Warming:
    """Import what every job needs, once, before the first fork; gives what compiles the simulator ahead."""
    importlib.import_module("worker.task")
    prepare: Callable[[Accelerator], None] = importlib.import_module("accel.simulate.prepare").prepare
    cache_folder: Callable[[], Path | None] = importlib.import_module("accel.isa.compiled").cache_folder
    return Warming(preset_names(), lambda name: prepare(load_accelerator(name)), lambda: cache_folder() is not None)


def run_worker(settings: Settings) -> None:
    """Run jobs until SIGTERM or SIGINT; the running job is finished first, unless a second signal comes."""
    if settings.redis_url is None:
        raise ValueError("a worker needs CYCLOPS_REDIS_URL")
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # RQ listens for commands in a thread, which the forked processes do not need
    warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
    settings.scratch_dir.mkdir(parents=True, exist_ok=True)
    warming = preload()
    jobs = Jobs(Store(settings.store_dir))
    queue = JobQueue(connect(settings.redis_url), settings.queue, job_seconds=settings.job_seconds)
    JobWorker(settings, jobs, queue, warming).work(logging_level=settings.log_level)


if __name__ == "__main__":  # as worker.processes starts it
    run_worker(Settings())
