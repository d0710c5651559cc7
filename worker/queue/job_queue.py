"""The queue: RQ's lists of messages and register of workers. A message says which job is to be run, and no more.

RQ imports and calls whatever a message names; ours are never called (:class:`TaskJob`): a worker only reads the job's
id from them. The queue's name has the format of the records, so that a worker is sent no job of a later version.

Jobs do not run in the order of RQ's list: owners take turns (``worker/queue/waiting_jobs.py``).
"""

import os
import re
import socket
from typing import Any, NamedTuple, NoReturn, cast

import redis
import redis.asyncio
from rq import Queue
from rq.exceptions import DeserializationError
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer

from worker.config.settings import Settings
from worker.queue.delivery_schedule import DeliverySchedule
from worker.queue.lease import lease_key, request_stop
from worker.queue.rq_interface import WORKER_PREFIX, as_text, workers_key
from worker.queue.waiting_jobs import WaitingJobs
from worker.records.event_journal import publish_end, publish_wait
from worker.records.job_record import FORMAT, LOCAL
from worker.records.listing.job_index import JobIndex
from worker.storage.connections import open_redis

TASK = "cyclops.job"
_ID = re.compile(r"[0-9a-f]{32}")
# a message that nobody took, as when it was written twice, goes at last; its job would be found in the store
_MESSAGE_SECONDS = 7 * 24 * 3600
_AT_ONCE = 500  # jobs that Redis is asked for in one command
WARM, PENDING = "warm", "warming"  # fields of a worker in RQ's register: presets, separated by commas


class WarmUpStatus(NamedTuple):
    """Presets by whether all workers have loaded their simulators, or some are still to."""

    warm: list[str]
    pending: list[str]


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
        """Does nothing: RQ's webhooks open any URL that the message names."""


def job_id_of(message: RqJob) -> str | None:
    """Returns the id of the job that a message asks to run; None for any other message."""
    try:
        ours = message.func_name == TASK and message.instance is None
    except (DeserializationError, AttributeError, TypeError, ValueError):
        return None
    return message.id if ours and _ID.fullmatch(message.id) else None


class JobQueue:
    """Our queue in a Redis. Every method raises redis.RedisError if Redis is away.

    Attributes:
        name: its name, without the format of the records.
        delayed_key: the key of the delayed jobs.
        schedule: the webhook deliveries of ended jobs.
    """

    def __init__(self, connection: redis.Redis, name: str) -> None:
        self.connection = connection
        self.name = name
        self.delayed_key = f"cyclops:resting:{name}.{FORMAT}"
        self.index = JobIndex(connection, name)
        self.rq = Queue(f"{name}.{FORMAT}", connection=connection, job_class=TaskJob, serializer=JSONSerializer)
        self.waiting = WaitingJobs(connection, f"{name}.{FORMAT}")
        self.schedule = DeliverySchedule(connection, name)

    def submit(self, job_id: str, *, again: bool = False, owner: str = LOCAL) -> None:
        """Queues the job for its owner's turn; ``again`` puts a job that was taken before ahead of all others."""
        self.waiting.enter(job_id, owner, again=again)
        self._write_message(job_id, again=again)

    def _write_message(self, job_id: str, *, again: bool = False) -> None:
        """Writes a message, upon which a worker takes a job."""
        self.rq.enqueue_call(TASK, job_id=job_id, timeout=-1, ttl=_MESSAGE_SECONDS, at_front=again)

    def length(self) -> int:
        """Returns how many jobs wait in the queue."""
        return int(self.rq.count)

    def delay(self, job_id: str, seconds: float) -> None:
        """Delays the job by ``seconds``; afterwards :meth:`due` returns it."""
        self.connection.zadd(self.delayed_key, {job_id: self.clock() + seconds})

    def due(self) -> list[str]:
        """Returns the delayed jobs whose delay is over."""
        found = cast("list[bytes]", self.connection.zrangebyscore(self.delayed_key, "-inf", self.clock()))
        return [as_text(key) for key in found]

    def requeue(self, job_id: str, owner: str = LOCAL) -> None:
        """Moves a delayed job to the head of the queue."""
        self.submit(job_id, again=True, owner=owner)
        self.connection.zrem(self.delayed_key, job_id)

    def clock(self) -> float:
        """Returns the time of Redis in seconds, as clocks of several hosts may differ."""
        seconds, microseconds = self.connection.time()
        return float(seconds + microseconds / 1e6)

    def cancel(self, job_id: str) -> None:
        """Stops and dequeues a job whose record has its end, and publishes the end."""
        request_stop(self.connection, job_id)
        self.publish_end(job_id)
        self.forget(job_id)

    def publish_end(self, job_id: str, last: str | None = None) -> None:
        """Publishes the end of a job whose record has its end; ``last`` is the id of its last event, if known."""
        with self.connection.pipeline(transaction=False) as pipeline:
            publish_end(pipeline, job_id, last)
            self.schedule.job_ended(job_id, client=pipeline)
            pipeline.execute(raise_on_error=False)  # the end may have been published

    def forget(self, job_id: str) -> None:
        """Removes all messages about the job."""
        with self.connection.pipeline(transaction=False) as pipeline:
            self.waiting.leave(job_id, client=pipeline)
            self.waiting.finished(job_id, pipeline)
            pipeline.lrem(self.rq.key, 0, job_id)
            pipeline.lrem(self.rq.intermediate_queue_key, 0, job_id)
            pipeline.zrem(self.delayed_key, job_id)
            pipeline.delete(TaskJob.key_for(job_id))
            pipeline.execute()

    def missing(self, job_ids: list[str]) -> list[str]:
        """Returns the jobs that are neither queued, nor delayed, nor running."""
        found: list[str] = []
        for begin in range(0, len(job_ids), _AT_ONCE):
            some = job_ids[begin : begin + _AT_ONCE]
            others = [job_id for job_id, waits in zip(some, self.waiting.are_waiting(some), strict=True) if not waits]
            if others:
                delayed = self.connection.zmscore(self.delayed_key, others)
                leases = cast("list[bytes | None]", self.connection.mget([lease_key(job_id) for job_id in others]))
                known = zip(others, delayed, leases, strict=True)
                found += [job_id for job_id, since, lease in known if since is None and lease is None]
        return found

    def short_of_messages(self) -> bool:
        """Returns whether there are fewer messages than waiting jobs: a worker is taking one, or died recently."""
        return self.length() < self.waiting.count()

    def restore_messages(self) -> None:
        """Writes a message for each waiting job without one. It reads all messages: call it when some are missing."""
        for job_id in sorted(set(self.waiting.ids()) - set(self.rq.get_job_ids())):
            self._write_message(job_id)

    def publish_wait(self, job_id: str, attempt: int) -> None:
        """Publishes that the job waits again after the death of this attempt."""
        publish_wait(self.connection, job_id, attempt)

    def workers(self, host: str | None = None) -> int:
        """Returns how many workers listen to the queue, on all hosts or on one."""
        names = [as_text(key).removeprefix(WORKER_PREFIX) for key in self._worker_keys()]
        return sum(self._is_alive(name) and host in {None, self._host(name)} for name in names)

    def warm_up(self) -> WarmUpStatus:
        """Returns which presets' simulators all workers have loaded, and which some of them are still to load."""
        names = [as_text(key).removeprefix(WORKER_PREFIX) for key in self._worker_keys()]
        alive = [f"{WORKER_PREFIX}{name}" for name in names if self._is_alive(name)]
        warm = [_listed(self.connection.hget(key, WARM)) for key in alive]
        pending = set().union(*(_listed(self.connection.hget(key, PENDING)) for key in alive))
        return WarmUpStatus(sorted(set.intersection(*warm) - pending) if warm else [], sorted(pending))

    def _is_alive(self, worker_name: str) -> bool:
        """Returns whether a worker's key exists and, on this host, its process."""
        host, pid = self.connection.hmget(f"{WORKER_PREFIX}{worker_name}", "hostname", "pid")
        if host is None or pid is None:
            return False
        return as_text(host) != socket.gethostname() or _process_lives(int(pid))

    def _worker_keys(self) -> set[bytes]:
        return cast("set[bytes]", self.connection.smembers(workers_key(self.rq.name)))

    def _host(self, worker_name: str) -> str:
        return as_text(self.connection.hget(f"{WORKER_PREFIX}{worker_name}", "hostname") or b"")


def _listed(field: Any) -> set[str]:
    """Returns the names in a field of a worker, which an older worker has not."""
    return set(as_text(field or b"").split(",")) - {""}


def _process_lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def open_fail_fast_queue(settings: Settings) -> JobQueue:
    """Returns the queue over a connection that fails fast where Redis is away; see :func:`open_redis`."""
    return JobQueue(open_redis(settings, retries=1, timeout=1.0), settings.queue)
