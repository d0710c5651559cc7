"""An RQ worker whose jobs are ours: it takes messages off the queue, and has each job run.

Of RQ it uses the queue, the register of workers and the handling of signals; what RQ would do with a message, and write
about it, it leaves out. It outlives a Redis that goes, and registers itself again with one that has forgotten it.
"""

import logging
import os
import secrets
import time
from collections.abc import Callable
from typing import Any

import redis
from rq import Worker, worker_registration
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer
from rq.utils import now as utcnow
from rq.worker import WorkerStatus

from worker.config.settings import Settings
from worker.process.children import death_reason, run_in_child
from worker.process.scratch import sweep_scratch
from worker.queue.job_queue import JobQueue, TaskJob, job_id_of
from worker.runner.supervisor_process import SupervisorProcess
from worker.telemetry.logs import bound

_log = logging.getLogger(__name__)
_CLEAN_EVERY = 60.0
_REGISTER_EVERY = 1.0
_PAUSE = 2.0  # seconds that a worker takes no job after one that it could not begin
_LIFE = 15  # seconds after the last one that a worker counts as alive


class JobWorker(Worker):
    """The worker.

    Args:
        settings: the settings.
        queue: the queue.
        attending: has jobs run.
        bury: records how the process of a token died, by the job's id, and has the job run again soon.
        idle: is called now and then while there is nothing to do.
        beside: is called now and then, also while a job runs.

    What is done beside the jobs may fail, where the system has no process or no room to spare: it is done again later.
    """

    job_class = TaskJob
    max_connection_wait_time = 2.0

    def __init__(
        self,
        settings: Settings,
        queue: JobQueue,
        *,
        attending: SupervisorProcess,
        bury: Callable[[str, str, str], None],
        idle: Callable[[], None],
        beside: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._queue = queue
        self._attending = attending
        self._bury = bury
        self._idle = idle
        self._beside = beside
        self._unburied: list[tuple[str, str, str]] = []
        self._cleaned = -_CLEAN_EVERY
        self._registered = -_REGISTER_EVERY
        super().__init__(
            [queue.rq],
            connection=queue.connection,
            job_class=TaskJob,
            serializer=JSONSerializer,
            # RQ wakes 15 s before the end of this time, and then looks whether maintenance is due
            worker_ttl=15 + settings.reconcile_seconds,
            maintenance_interval=settings.reconcile_seconds,
        )

    def execute_job(self, job: RqJob, queue: Any) -> None:
        """Have the job run that is next, and wait for it."""
        job_id = job_id_of(job)
        if job_id is None:
            _log.error("the message %s is none of ours: removed", job.id)
            self._aside(lambda: self._remove(job, queue))
            return
        job_id = self._next(job_id)
        if job_id is None:
            return
        with bound(job=job_id):
            self.set_state(WorkerStatus.BUSY)
            self._attend(job_id, secrets.token_hex(8))
            self._besides()
            self.set_state(WorkerStatus.IDLE)

    def _next(self, message: str) -> str | None:
        """The job whose turn it is: a message only says that some job waits."""
        try:
            return self._queue.waiting.take(message, self._settings.running_of_owner)
        except redis.RedisError as error:
            _log.warning("worker %s: Redis is away: %s", self.name, error)
            return message

    def _attend(self, job_id: str, token: str) -> None:
        begin = time.monotonic()
        _log.info("job %s: taken", job_id)
        try:
            status = self._attending.run(job_id, token, self.name, self._live)
        except OSError as error:  # the disk is full, perhaps, or there is no process to be had
            _log.error("job %s cannot be begun: %s", job_id, error)
            self._aside(lambda: self._queue.submit(job_id, again=True))  # else it is found in the store
            time.sleep(_PAUSE)  # another worker may have room
            return
        if status == 0:
            _log.info("job %s: done with after %.3f s", job_id, time.monotonic() - begin)
            return
        reason = death_reason(status)
        _log.error("job %s: %s", job_id, reason)
        if os.WIFSIGNALED(status):
            self._unburied.append((job_id, token, reason))
            self._aside(self._bury_all)

    def _bury_all(self) -> None:
        while self._unburied:
            job_id, token, reason = self._unburied[0]
            run_in_child(lambda: self._bury(job_id, token, reason))  # noqa: B023 - it is done before the next
            del self._unburied[0]

    @property
    def horse_pid(self) -> int:
        """The process that RQ kills when it is to stop at once."""
        return self._attending.pid

    def _remove(self, job: RqJob, queue: Any) -> None:
        self.connection.lrem(queue.intermediate_queue_key, 0, job.id)
        self.connection.delete(job.key)

    def _live(self) -> None:
        self.heartbeat()
        self._besides()

    def _besides(self) -> None:
        self._aside(self._bury_all)
        self._aside(self._beside)

    def run_maintenance_tasks(self) -> None:
        """RQ's own, then ours. RQ calls it at the start and while the worker is idle."""
        self._aside(super().run_maintenance_tasks)
        self.last_cleaned_at = utcnow()  # type: ignore[assignment] # RQ has no types
        self._aside(self._idle)
        self._besides()
        self._aside(lambda: sweep_scratch(self._settings.scratch_dir))

    def clean_registries(self) -> None:
        """RQ's own, now and then: it only takes dead workers and foreign messages off the lists."""
        if time.monotonic() - self._cleaned >= _CLEAN_EVERY:
            super().clean_registries()  # type: ignore[no-untyped-call]
            self._cleaned = time.monotonic()

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Register, whether Redis knows of this worker or not; for a short time, as it comes often.

        RQ asks for it thrice a job, however short that is: more than once a second it is not done.
        """
        del timeout, pipeline  # RQ's are longer
        if time.monotonic() - self._registered >= _REGISTER_EVERY:
            self._aside(self._register)

    def _register(self) -> None:
        with self.connection.pipeline() as beat:
            super().heartbeat(self._settings.reconcile_seconds + _LIFE, pipeline=beat)
            beat.hset(self.key, mapping={**self.serialize(), "state": self.get_state()})
            worker_registration.register(self, beat)
            beat.execute()
        self._registered = time.monotonic()

    def set_state(self, state: str, pipeline: Any = None) -> None:
        """Note and register the state, if it is another."""
        if state != self.get_state():
            self._aside(lambda: super(JobWorker, self).set_state(state, pipeline))

    def check_for_suspension(self, burst: bool) -> None:  # noqa: FBT001 - RQ's
        """Do not: nobody suspends our workers, and it would ask Redis, which may be away."""

    def set_shutdown_requested_date(self) -> None:
        """Do not: it is for RQ's dashboards, and Redis may be away."""

    def subscribe(self) -> None:
        """Do not: RQ takes commands in a thread; ours come in the store, and a process that forks has no threads."""

    def unsubscribe(self) -> None:
        """There is nothing to unsubscribe from."""

    def teardown(self) -> None:
        """Take this worker off the register."""
        self._aside(super().teardown)

    def _aside(self, action: Callable[[], object]) -> None:
        """Do it, unless Redis is away, or the system has no process, memory, descriptor or disk space to spare."""
        try:
            action()
        except redis.RedisError as error:
            _log.warning("worker %s: Redis is away: %s", self.name, error)
        except (OSError, MemoryError) as error:
            _log.warning("worker %s: put off: %s", self.name, error or type(error).__name__)
