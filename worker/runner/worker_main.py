"""The worker process: preloads the compiler, then forks a process for every job, and the supervisor.

The parent may import TVM and compile; it must never run a compiled kernel nor use the store, or a forked child can
hang: threads do not survive a fork.
"""

import importlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator, preset_names
from worker.config.settings import Settings
from worker.process.children import run_in_child, share_with_children, use_large_pages
from worker.queue.job_queue import PENDING, WARM, JobQueue, open_fail_fast_queue
from worker.queue.lease import release_lease
from worker.queue.reconciler import reconcile, take_reconcile_turn
from worker.records.job_store import Attempts, Jobs
from worker.runner.rq_worker import JobWorker
from worker.runner.supervisor import supervise
from worker.runner.supervisor_process import SupervisorProcess
from worker.runner.warm_up import Simulators, WarmUp
from worker.sandbox.confinement import prepare_confinement
from worker.storage.connections import open_redis, open_store
from worker.telemetry import logs, tracing
from worker.webhooks.deliveries import DeliveryOrders, schedule_lost_orders
from worker.webhooks.launcher import DispatcherLauncher

T = TypeVar("T")
_SETTLED_AFTER = 30.0  # seconds


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
    """Imports what every job needs, before the first fork, and loads the simulators of ``presets`` that are compiled.

    Returns the warm-up, which compiles the others.
    """
    tracing.preload()
    importlib.import_module("accel.report.provenance").versions()  # reads the sources of the compiler
    cache_folder: Callable[[], Path | None] = importlib.import_module("accel.isa.kernels.compiled_kernels").cache_folder
    cache_folder()  # it is there before the jobs learn what they may read
    prepare_confinement()
    simulation = importlib.import_module("accel.simulate.prepare_simulation")

    def of_preset(do: Callable[[Accelerator], T]) -> Callable[[str], T]:
        return lambda name: do(load_accelerator(name))

    simulators = Simulators(
        of_preset(simulation.is_on_disk), of_preset(simulation.prepare_on_disk), of_preset(simulation.prepare)
    )
    warm_up = WarmUp(presets, simulators)
    warm_up.load()
    # LLVM, if nothing was loaded; what a machine and numpy.unique import when first used; of the names in a zip file,
    # and of the events
    for name in (
        "accel.isa.native.kept_code", "accel.isa.vta.function.vta_machine", "numpy.ma", "encodings.cp437",
        "encodings.ascii",
    ):  # fmt: skip
        importlib.import_module(name)
    share_with_children()
    return warm_up


class _BackgroundTasks:
    """Tasks of the worker besides running jobs, mostly in forked processes."""

    def __init__(self, settings: Settings, queue: JobQueue, warm_up: WarmUp) -> None:
        self._settings = settings
        self._queue = queue
        self._launcher = DispatcherLauncher(settings, queue)
        self._warm_up = warm_up
        self._small_pages_since: float | None = time.monotonic()

    def record_death(self, job_id: str, token: str, reason: str) -> None:
        """Records why the attempt of this token died, and delays the job for the next attempt."""
        queue = open_fail_fast_queue(self._settings)
        store = open_store(self._settings)
        pause = Attempts(store, job_id).record_death(token, reason)
        jobs = Jobs(store, queue.index)
        if not jobs.ended(job_id):
            attempt = jobs.wait_again(job_id)
            queue.delay(job_id, pause)
            release_lease(queue.connection, job_id, token)
            if attempt is not None:
                queue.publish_wait(job_id, attempt)

    def when_idle(self) -> None:
        """Reconciles the queue, continues the warm-up, and then puts memory on large pages."""
        if take_reconcile_turn(self._queue, self._settings.reconcile_seconds):
            run_in_child(self._reconcile)
        if self._warm_up.step():
            self._share()
        since = self._small_pages_since
        if since is not None and time.monotonic() - since > _SETTLED_AFTER:
            use_large_pages()
            self._small_pages_since = None

    def periodically(self) -> None:
        """Sends webhooks, and loads what has been compiled ahead meanwhile, also while a job runs."""
        self._launcher.step()
        if self._warm_up.load():
            self._share()

    def _share(self) -> None:
        share_with_children()
        self._small_pages_since = time.monotonic()

    def _reconcile(self) -> None:
        store = open_store(self._settings)
        jobs = Jobs(store, self._queue.index)
        reconcile(jobs, self._queue)
        schedule_lost_orders(DeliveryOrders(store), jobs, self._queue.schedule)


def run_worker(settings: Settings) -> None:
    """Runs jobs until SIGTERM or SIGINT; the running job is finished first, unless a second signal comes."""
    if settings.redis_url is None:
        raise ValueError("a worker needs CYCLOPS_REDIS_URL")
    logs.configure(settings.log_level, settings.log_format, "worker")
    settings.scratch_dir.mkdir(parents=True, exist_ok=True)
    warm_up = preload(warmed_presets(settings.warm_up))
    queue = JobQueue(open_redis(settings), settings.queue)
    tasks = _BackgroundTasks(settings, queue, warm_up)
    supervisor = SupervisorProcess(settings, lambda line: supervise(line, settings))
    worker = JobWorker(
        settings,
        queue,
        supervisor=supervisor,
        on_death=tasks.record_death,
        when_idle=tasks.when_idle,
        periodically=tasks.periodically,
        status=lambda: {WARM: ",".join(warm_up.warm), PENDING: ",".join(warm_up.pending)},
    )
    worker.work(logging_level=settings.log_level)
