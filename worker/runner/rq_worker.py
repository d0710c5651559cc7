"""The RQ worker: it takes messages off the queue and hands each job to the supervisor.

It uses RQ's queue, register of workers and signal handling, but not RQ's execution of messages. It survives an outage
of Redis, and registers itself again with a Redis that lost its data.
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
from rq.worker import WorkerStatus

from worker.config.settings import Settings
from worker.process.children import death_reason, run_in_child
from worker.process.scratch import sweep_scratch
from worker.queue.job_queue import JobQueue, TaskJob, job_id_of
from worker.queue.rq_interface import utc_now_of_rq
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
        supervisor: runs jobs.
        on_death: is called with a job's id, a token and a reason when the supervisor died; records the death of the
            attempt and queues the job again.
        when_idle: is called at intervals while no job runs.
        periodically: is called at intervals, also while a job runs.
        status: returns further fields of the worker's entry in the register.

    These callbacks may fail where Redis is away or the system lacks processes or space: they are called again later.
    """

    job_class = TaskJob
    max_connection_wait_time = 2.0

    def __init__(
        self,
        settings: Settings,
        queue: JobQueue,
        *,
        supervisor: SupervisorProcess,
        on_death: Callable[[str, str, str], None],
        when_idle: Callable[[], None],
        periodically: Callable[[], None] = lambda: None,
        status: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self._settings = settings
        self._queue = queue
        self._supervisor = supervisor
        self._on_death = on_death
        self._when_idle = when_idle
        self._periodically = periodically
        self._status = status
        self._deaths: list[tuple[str, str, str]] = []
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
        """Runs the next job, and waits for it."""
        job_id = job_id_of(job)
        if job_id is None:
            _log.error("the message %s is none of ours: removed", job.id)
            self._tolerate(lambda: self._remove(job, queue))
            return
        job_id = self._next_job(job_id)
        if job_id is None:
            return
        with bound(job=job_id):
            self.set_state(WorkerStatus.BUSY)
            self._supervise(job_id, secrets.token_hex(8))
            self._run_periodic()
            self.set_state(WorkerStatus.IDLE)

    def _next_job(self, message: str) -> str | None:
        """Returns the job whose turn it is: a message only says that some job waits."""
        try:
            return self._queue.waiting.take(message, self._settings.running_of_owner)
        except redis.RedisError as error:
            _log.warning("worker %s: Redis is away: %s", self.name, error)
            return message

    def _supervise(self, job_id: str, token: str) -> None:
        begin = time.monotonic()
        _log.info("job %s: taken", job_id)
        try:
            status = self._supervisor.run(job_id, token, self.name, self._beat)
        except OSError as error:  # the disk is full, perhaps, or there is no process to be had
            _log.error("job %s cannot be begun: %s", job_id, error)
            self._tolerate(lambda: self._queue.submit(job_id, again=True))  # else it is found in the store
            time.sleep(_PAUSE)  # another worker may have room
            return
        if status == 0:
            _log.info("job %s: done with after %.3f s", job_id, time.monotonic() - begin)
            return
        reason = death_reason(status)
        _log.error("job %s: %s", job_id, reason)
        if os.WIFSIGNALED(status):
            self._deaths.append((job_id, token, reason))
            self._tolerate(self._record_deaths)

    def _record_deaths(self) -> None:
        while self._deaths:
            job_id, token, reason = self._deaths[0]
            run_in_child(lambda: self._on_death(job_id, token, reason))  # noqa: B023 - it is done before the next
            del self._deaths[0]

    @property
    def horse_pid(self) -> int:
        """The process that RQ kills when it is to stop at once."""
        return self._supervisor.pid

    def _remove(self, job: RqJob, queue: Any) -> None:
        self.connection.lrem(queue.intermediate_queue_key, 0, job.id)
        self.connection.delete(job.key)

    def _beat(self) -> None:
        self.heartbeat()
        self._run_periodic()

    def _run_periodic(self) -> None:
        self._tolerate(self._record_deaths)
        self._tolerate(self._periodically)

    def run_maintenance_tasks(self) -> None:
        """Runs RQ's tasks, then those of Cyclops. RQ calls it at the start and while the worker is idle."""
        self._tolerate(super().run_maintenance_tasks)
        self.last_cleaned_at = utc_now_of_rq()  # type: ignore[assignment] # RQ has no types
        self._tolerate(self._when_idle)
        self._run_periodic()
        self._tolerate(lambda: sweep_scratch(self._settings.scratch_dir))

    def clean_registries(self) -> None:
        """Cleans RQ's registries every minute: it only removes dead workers and foreign messages."""
        if time.monotonic() - self._cleaned >= _CLEAN_EVERY:
            super().clean_registries()  # type: ignore[no-untyped-call]
            self._cleaned = time.monotonic()

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Registers this worker for a short time, also with a Redis that lost its data; at most once a second."""
        del timeout, pipeline  # RQ's are longer
        if time.monotonic() - self._registered >= _REGISTER_EVERY:
            self._tolerate(self._register)

    def _register(self) -> None:
        with self.connection.pipeline() as beat:
            super().heartbeat(self._settings.reconcile_seconds + _LIFE, pipeline=beat)
            entry: dict[Any, Any] = {**self.serialize(), "state": self.get_state(), **self._status()}
            beat.hset(self.key, mapping=entry)
            worker_registration.register(self, beat)
            beat.execute()
        self._registered = time.monotonic()

    def set_state(self, state: str, pipeline: Any = None) -> None:
        """Sets and registers the state, if it has changed."""
        if state != self.get_state():
            self._tolerate(lambda: super(JobWorker, self).set_state(state, pipeline))

    def check_for_suspension(self, burst: bool) -> None:  # noqa: FBT001 - RQ's
        """Does nothing: our workers are never suspended, and RQ would ask Redis, which may be away."""

    def set_shutdown_requested_date(self) -> None:
        """Does nothing: it is for RQ's dashboards, and Redis may be away."""

    def subscribe(self) -> None:
        """Does nothing: RQ would start a thread, and a process that forks must have none."""

    def unsubscribe(self) -> None:
        """Does nothing: the worker never subscribes."""

    def teardown(self) -> None:
        """Removes this worker from RQ's register."""
        self._tolerate(super().teardown)

    def _tolerate(self, action: Callable[[], object]) -> None:
        """Calls ``action``; an outage of Redis, or a lack of processes, memory or disk space, is only logged."""
        try:
            action()
        except redis.RedisError as error:
            _log.warning("worker %s: Redis is away: %s", self.name, error)
        except (OSError, MemoryError) as error:
            _log.warning("worker %s: put off: %s", self.name, error or type(error).__name__)
