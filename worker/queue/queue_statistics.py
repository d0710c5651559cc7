"""Statistics of the queue and its workers, in two round trips to Redis."""

import contextlib
import time
from dataclasses import dataclass
from typing import Any

from worker.queue.job_queue import JobQueue
from worker.queue.rq_interface import as_text, workers_key
from worker.storage.identifiers import created_at
from worker.telemetry.counters import counters_key, parse_counters

_OPEN = "cyclops:open:{}"


@dataclass(frozen=True)
class QueueStatistics:
    """Counts of jobs and workers.

    Attributes:
        queued: jobs that wait in the queue.
        delayed: jobs whose process died and that are queued again later.
        oldest: seconds that the job at the queue's head has existed; 0 without one.
        idle: workers that wait.
        busy: workers that supervise a job.
        open: jobs that had not ended when the reconciler last counted; None if it has not yet.
        counters: the hash of :mod:`worker.telemetry.counters`.
        seconds: that Redis took for the first round trip.
    """

    queued: int
    delayed: int
    oldest: float
    idle: int
    busy: int
    open: int | None
    counters: dict[str, float]
    seconds: float


def record_open_jobs(queue: JobQueue, count: int) -> None:
    """Records how many jobs have not ended.

    Raises:
        redis.RedisError: Redis is away.
    """
    queue.connection.set(_OPEN.format(queue.rq.name), count)


def read_queue_statistics(queue: JobQueue) -> QueueStatistics:
    """Returns the current statistics.

    Raises:
        redis.RedisError: Redis is away.
    """
    begin = time.perf_counter()
    with queue.connection.pipeline(transaction=False) as pipeline:
        pipeline.llen(queue.rq.key)
        pipeline.zcard(queue.delayed_key)
        pipeline.lindex(queue.rq.key, 0)
        pipeline.time()
        pipeline.get(_OPEN.format(queue.rq.name))
        pipeline.hgetall(counters_key(queue.name))
        pipeline.smembers(workers_key(queue.rq.name))
        queued, delayed, head, clock, still_open, counters, workers = pipeline.execute()
    seconds = time.perf_counter() - begin
    now = clock[0] + clock[1] / 1e6
    states = _states(queue, workers)
    return QueueStatistics(
        queued=queued,
        delayed=delayed,
        oldest=_age(head, now),
        idle=len(states) - states.count("busy"),
        busy=states.count("busy"),
        open=int(still_open) if still_open is not None else None,
        counters=parse_counters(counters),
        seconds=seconds,
    )


def _age(head: bytes | None, now: float) -> float:
    if head is not None:
        with contextlib.suppress(ValueError):  # a message that is none of ours
            return max(0.0, now - created_at(as_text(head)))
    return 0.0


def _states(queue: JobQueue, workers: Any) -> list[str]:
    """Returns the states of the live workers."""
    with queue.connection.pipeline(transaction=False) as pipeline:
        for name in sorted(workers):
            pipeline.hget(as_text(name), "state")
        return [as_text(state) for state in pipeline.execute() if state is not None]
