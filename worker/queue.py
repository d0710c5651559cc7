"""The queue: RQ with JSON messages and one admitted task.

RQ imports and calls whatever a message names; :class:`TaskJob` runs our one task and nothing else.
"""

import os
import socket
from typing import Any, cast

import redis
from rq import Queue
from rq.command import send_stop_job_command
from rq.exceptions import InvalidJobOperation, NoSuchJobError
from rq.job import Job as RqJob
from rq.job import JobStatus
from rq.serializers import JSONSerializer
from rq.utils import as_text

TASK = "worker.task.run_job"
_ENDED = {JobStatus.FAILED, JobStatus.STOPPED, JobStatus.CANCELED, JobStatus.FINISHED}
_RESULT_SECONDS = 60


class ForeignTaskError(Exception):
    """A message on the queue that does not name our task."""


class TaskJob(RqJob):
    """A message that can only run :data:`TASK`: no other function, no callback, no webhook."""

    @property
    def func(self) -> Any:
        """The task; ForeignTaskError if the message names another."""
        if self.func_name != TASK or self.instance is not None:
            raise ForeignTaskError(f"the message {self.id} names {self.func_name!r}")
        from worker.task import run_job  # noqa: PLC0415 - only the work-horse needs what the task imports

        return run_job

    @property
    def success_callback(self) -> None:
        """None, whatever the message names."""

    @property
    def failure_callback(self) -> None:
        """None, whatever the message names."""

    @property
    def stopped_callback(self) -> None:
        """None, whatever the message names."""

    def send_webhooks(self, *_args: Any, **_kwargs: Any) -> None:
        """Send nothing: RQ's webhooks open any URL that the message names."""


class JobQueue:
    """Our queue in a Redis."""

    def __init__(self, connection: redis.Redis, name: str, *, job_seconds: int) -> None:
        self.connection = connection
        self.rq = Queue(name, connection=connection, job_class=TaskJob, serializer=JSONSerializer)
        self._job_seconds = job_seconds

    def submit(self, job_id: str) -> None:
        """Put the job at the end of the queue; redis.RedisError if Redis is away."""
        self.rq.enqueue_call(
            TASK,
            args=(job_id,),
            job_id=job_id,
            timeout=self._job_seconds,
            result_ttl=_RESULT_SECONDS,
            failure_ttl=_RESULT_SECONDS,
        )

    def cancel(self, job_id: str) -> None:
        """Take the job off the queue and kill the process that runs it. The record is the caller's."""
        job = self._fetch(job_id)
        if job is None:
            return
        try:
            if job.get_status() == JobStatus.STARTED:
                send_stop_job_command(self.connection, job_id, serializer=JSONSerializer)
            else:
                job.cancel()
        except (InvalidJobOperation, NoSuchJobError):
            return  # it ended in between

    def holds(self, job_id: str) -> bool:
        """Whether the job waits in the queue or runs in a worker that lives."""
        job = self._fetch(job_id)
        if job is None or job.get_status() in _ENDED:
            return False
        return job.worker_name is None or self._lives(job.worker_name)

    def _fetch(self, job_id: str) -> RqJob | None:
        try:
            return TaskJob.fetch(job_id, connection=self.connection, serializer=JSONSerializer)
        except NoSuchJobError:
            return None

    def _lives(self, worker_name: str) -> bool:
        """Whether a worker's key is there; on our own host, whether its process is."""
        host, pid = self.connection.hmget(f"rq:worker:{worker_name}", "hostname", "pid")
        if host is None or pid is None:
            return False
        return as_text(host) != socket.gethostname() or _process_lives(int(pid))

    def workers(self, host: str | None = None) -> int:
        """How many workers listen to the queue, on all hosts or on one."""
        names = [as_text(key).removeprefix("rq:worker:") for key in self._worker_keys()]
        return sum(self._lives(name) and host in {None, self._host(name)} for name in names)

    def _worker_keys(self) -> set[bytes]:
        return cast("set[bytes]", self.connection.smembers(f"rq:workers:{self.rq.name}"))

    def _host(self, worker_name: str) -> str:
        return as_text(self.connection.hget(f"rq:worker:{worker_name}", "hostname") or b"")


def _process_lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
