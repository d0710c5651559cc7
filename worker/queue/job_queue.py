"""The queue: RQ's lists of messages and register of workers. A message says which job is to be run, and no more.

RQ imports and calls whatever a message names; ours are called by nobody (:class:`TaskJob`): a worker reads the job's id
off them. The queue's name has the format of the records, so that a worker is sent no job of a later version.

The order of RQ's list is not that in which jobs run: owners take turns (``worker/queue/waiting_jobs.py``).
"""

import os
import re
import socket
from typing import Any, NoReturn, cast

import redis
import redis.asyncio
from rq import Queue
from rq.exceptions import DeserializationError
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer
from rq.utils import as_text

from worker.config.settings import Settings
from worker.queue.delivery_schedule import DeliverySchedule
from worker.queue.lease import lease_key, request_stop
from worker.queue.waiting_jobs import WaitingJobs
from worker.records.event_journal import publish_end, publish_wait
from worker.records.job_index import JobIndex
from worker.records.job_record import FORMAT, LOCAL
from worker.storage.connections import open_redis

TASK = "cyclops.job"
_ID = re.compile(r"[0-9a-f]{32}")
# a message that nobody took, as when it was written twice, goes at last; its job would be found in the store
_MESSAGE_SECONDS = 7 * 24 * 3600
_AT_ONCE = 500  # jobs that Redis is asked for in one command


class ForeignTaskError(Exception):
    """A message was to be called."""


class TaskJob(RqJob):
    """A message that calls nothing: no function, no callback, no webhook."""

    @property
    def func(self) -> NoReturn:
        """ForeignTaskError, whatever the message names."""
        raise ForeignTaskError(f"the message {self.id} was to be called")

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


def job_id_of(message: RqJob) -> str | None:
    """The id of the job that a message says is to be run; None if it says something else."""
    try:
        ours = message.func_name == TASK and message.instance is None
    except (DeserializationError, AttributeError, TypeError, ValueError):
        return None
    return message.id if ours and _ID.fullmatch(message.id) else None


class JobQueue:
    """Our queue in a Redis. Every method raises redis.RedisError if Redis is away.

    Attributes:
        name: its name, without the format of the records.
        resting: the key of the jobs that wait beside the queue.
        agenda: what is to be sent when jobs have ended.
    """

    def __init__(self, connection: redis.Redis, name: str) -> None:
        self.connection = connection
        self.name = name
        self.resting = f"cyclops:resting:{name}.{FORMAT}"
        self.index = JobIndex(connection, name)
        self.rq = Queue(f"{name}.{FORMAT}", connection=connection, job_class=TaskJob, serializer=JSONSerializer)
        self.waiting = WaitingJobs(connection, f"{name}.{FORMAT}")
        self.agenda = DeliverySchedule(connection, name)

    def submit(self, job_id: str, *, again: bool = False, owner: str = LOCAL) -> None:
        """Have the job wait for its owner's turn; before all others if it waits ``again``: it was taken before."""
        self.waiting.enter(job_id, owner, again=again)
        self._wake(job_id, again=again)

    def _wake(self, job_id: str, *, again: bool = False) -> None:
        """Write a message, upon which a worker takes a job."""
        self.rq.enqueue_call(TASK, job_id=job_id, timeout=-1, ttl=_MESSAGE_SECONDS, at_front=again)

    def length(self) -> int:
        """How many jobs wait in the queue."""
        return int(self.rq.count)

    def rest(self, job_id: str, seconds: float) -> None:
        """Have the job wait beside the queue for so long; then :meth:`rested` has it."""
        self.connection.zadd(self.resting, {job_id: self.clock() + seconds})

    def rested(self) -> list[str]:
        """The jobs that have waited beside the queue for as long as they were to."""
        found = cast("list[bytes]", self.connection.zrangebyscore(self.resting, "-inf", self.clock()))
        return [as_text(key) for key in found]

    def resume(self, job_id: str, owner: str = LOCAL) -> None:
        """Put a job that has rested at the head of the queue."""
        self.submit(job_id, again=True, owner=owner)
        self.connection.zrem(self.resting, job_id)

    def clock(self) -> float:
        """Seconds, by the clock of Redis: those of several hosts may differ."""
        seconds, microseconds = self.connection.time()
        return float(seconds + microseconds / 1e6)

    def cancel(self, job_id: str) -> None:
        """Have the job neither wait nor run, once its record has its end."""
        request_stop(self.connection, job_id)
        self.tell_end(job_id)
        self.forget(job_id)

    def tell_end(self, job_id: str, last: str | None = None) -> None:
        """Say that the job has ended, once its record says so; ``last``: the id of its last event, if it is known."""
        with self.connection.pipeline(transaction=False) as pipeline:
            publish_end(pipeline, job_id, last)
            self.agenda.ended(job_id, client=pipeline)
            pipeline.execute(raise_on_error=False)  # it may have been told

    def forget(self, job_id: str) -> None:
        """Remove all messages about the job."""
        with self.connection.pipeline(transaction=False) as pipeline:
            self.waiting.leave(job_id, client=pipeline)
            self.waiting.over(job_id, pipeline)
            pipeline.lrem(self.rq.key, 0, job_id)
            pipeline.lrem(self.rq.intermediate_queue_key, 0, job_id)
            pipeline.zrem(self.resting, job_id)
            pipeline.delete(TaskJob.key_for(job_id))
            pipeline.execute()

    def missing(self, job_ids: list[str]) -> list[str]:
        """Those of the jobs that neither wait, in the queue or beside it, nor run."""
        found: list[str] = []
        for begin in range(0, len(job_ids), _AT_ONCE):
            some = job_ids[begin : begin + _AT_ONCE]
            others = [job_id for job_id, waits in zip(some, self.waiting.among(some), strict=True) if not waits]
            if others:
                resting = self.connection.zmscore(self.resting, others)
                leases = cast("list[bytes | None]", self.connection.mget([lease_key(job_id) for job_id in others]))
                known = zip(others, resting, leases, strict=True)
                found += [job_id for job_id, rests, lease in known if rests is None and lease is None]
        return found

    def short_of_messages(self) -> bool:
        """Whether there are fewer messages than jobs that wait: a worker takes one just now, or died of late."""
        return self.length() < self.waiting.all()

    def mend_messages(self) -> None:
        """Write a message for each job that waits and has none. It reads all of them: for when some are missing."""
        for job_id in sorted(set(self.waiting.entered()) - set(self.rq.get_job_ids())):
            self._wake(job_id)

    def tell_waits(self, job_id: str, attempt: int) -> None:
        """Say that the job waits again, after the processes of this attempt died."""
        publish_wait(self.connection, job_id, attempt)

    def workers(self, host: str | None = None) -> int:
        """How many workers listen to the queue, on all hosts or on one."""
        names = [as_text(key).removeprefix("rq:worker:") for key in self._worker_keys()]
        return sum(self._lives(name) and host in {None, self._host(name)} for name in names)

    def _lives(self, worker_name: str) -> bool:
        """Whether a worker's key is there; on our own host, whether its process is."""
        host, pid = self.connection.hmget(f"rq:worker:{worker_name}", "hostname", "pid")
        if host is None or pid is None:
            return False
        return as_text(host) != socket.gethostname() or _process_lives(int(pid))

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


def open_impatient_queue(settings: Settings) -> JobQueue:
    """The queue for who does not wait for a Redis that is away; see :func:`open_redis`."""
    return JobQueue(open_redis(settings, retries=1, timeout=1.0), settings.queue)
