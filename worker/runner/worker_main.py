"""The worker process: preloads the compiler, then forks once for every job, and now and then what attends to them.

The parent may import TVM and compile; it must never run a compiled kernel nor use the store, or the forked child
can hang: threads do not live through a fork.
"""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator, preset_names
from worker.config.settings import Settings
from worker.process.children import run_in_child, share_with_children
from worker.queue.job_queue import JobQueue, open_impatient_queue
from worker.queue.lease import release_lease
from worker.queue.reconciler import reconcile, take_reconcile_turn
from worker.records.attempts import Attempts
from worker.records.job_store import Jobs
from worker.runner.rq_worker import JobWorker
from worker.runner.supervisor import supervise
from worker.runner.supervisor_process import SupervisorProcess
from worker.runner.warm_up import WarmUp
from worker.sandbox.confinement import prepare_confinement
from worker.storage.connections import open_redis, open_store
from worker.telemetry import logs, tracing
from worker.webhooks.deliveries import DeliveryOrders, schedule_lost_orders
from worker.webhooks.launcher import DispatcherLauncher


def warmed_presets(choice: str) -> list[str]:
    """Returns the presets that the setting ``warm_up`` names.

    Raises:
        ValueError: one of them does not exist.
    """
    if choice in {"all", "none"}:
        return preset_names() if choice == "all" else []
    names = [name.strip() for name in choice.split(",")]
    if unknown := set(names) - set(preset_names()):
        known = ", ".join(preset_names())
        raise ValueError(f"CYCLOPS_WARM_UP: no preset is called {min(unknown)!r}; there are {known}")
    return names


def preload(presets: Sequence[str]) -> WarmUp:
    """Import what every job needs, once, before the first fork.

    Returns what compiles the simulators of ``presets`` ahead.
    """
    tracing.preload()
    importlib.import_module("accel.report.provenance").versions()  # reads the sources of the compiler
    prepare: Callable[[Accelerator], None] = importlib.import_module("accel.simulate.prepare_simulation").prepare
    cache_folder: Callable[[], Path | None] = importlib.import_module("accel.isa.compiled_kernels").cache_folder
    cache_folder()  # it is there before the jobs learn what they may read
    prepare_confinement()
    # of the names in a zip file, and of the events; what numba asks about arrays
    for name in ("encodings.cp437", "encodings.ascii", "numpy.ma"):
        importlib.import_module(name)
    share_with_children()
    return WarmUp(presets, lambda name: prepare(load_accelerator(name)), lambda: cache_folder() is not None)


class _Tasks:
    """What the worker does beside running jobs, mostly in forked processes."""

    def __init__(self, settings: Settings, queue: JobQueue, warming: WarmUp) -> None:
        self._settings = settings
        self._queue = queue
        self._warming = warming

    def bury(self, job_id: str, token: str, reason: str) -> None:
        """Record how the attempt of this token died, and have the job run again soon."""
        queue = open_impatient_queue(self._settings)
        store = open_store(self._settings)
        pause = Attempts(store, job_id).died(token, reason)
        jobs = Jobs(store, queue.index)
        if not jobs.ended(job_id):
            attempt = jobs.wait_again(job_id)
            queue.rest(job_id, pause)
            release_lease(queue.connection, job_id, token)
            if attempt is not None:
                queue.tell_waits(job_id, attempt)

    def idle(self) -> None:
        """Look for lost jobs, and go on compiling ahead."""
        if take_reconcile_turn(self._queue, self._settings.reconcile_seconds):
            run_in_child(self._look)
        if self._warming.step():
            share_with_children()

    def _look(self) -> None:
        store = open_store(self._settings)
        jobs = Jobs(store, self._queue.index)
        reconcile(jobs, self._queue)
        schedule_lost_orders(DeliveryOrders(store), jobs, self._queue.agenda)


def run_worker(settings: Settings) -> None:
    """Run jobs until SIGTERM or SIGINT; the running job is finished first, unless a second signal comes."""
    if settings.redis_url is None:
        raise ValueError("a worker needs CYCLOPS_REDIS_URL")
    logs.configure(settings.log_level, settings.log_format, "worker")
    settings.scratch_dir.mkdir(parents=True, exist_ok=True)
    warming = preload(warmed_presets(settings.warm_up))
    queue = JobQueue(open_redis(settings), settings.queue)
    tasks = _Tasks(settings, queue, warming)
    errands = DispatcherLauncher(settings, queue)
    attending = SupervisorProcess(settings, lambda line: supervise(line, settings))
    worker = JobWorker(settings, queue, attending=attending, bury=tasks.bury, idle=tasks.idle, beside=errands.step)
    worker.work(logging_level=settings.log_level)


if __name__ == "__main__":  # as worker.runner.worker_pool starts it
    run_worker(Settings())
