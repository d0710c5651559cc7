"""The reconciler: enqueues again the jobs that are open in the store and that the queue has lost.

The api and the idle workers take turns. A job that is open in the store and neither queued nor running is enqueued once
it was found so twice: between the queue and the lease of the process that takes it, a job is nowhere for a moment. A
job that had begun goes to the head, and its record says that it waits. Each turn examines the jobs that were taken or
missing before, and a bounded number of the others.
"""

import bisect
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import cast

import pydantic
import redis

from worker.queue.job_queue import JobQueue
from worker.queue.lease import hold_lease_briefly
from worker.queue.queue_statistics import record_open_jobs
from worker.queue.rq_interface import as_text
from worker.records.job_store import Jobs
from worker.records.listing.job_listing import repair_index
from worker.storage.identifiers import created_at
from worker.telemetry.counters import RESTORED, Counters

_log = logging.getLogger(__name__)
_APART = 2.0  # seconds between the two times
_AT_ONCE = 2000
# an id says when its job was created; a record that is not whole after so long will never be
_ABANDONED = 3600.0


def take_reconcile_turn(queue: JobQueue, seconds: float) -> bool:
    """Returns whether it is this process's turn; no other process gets one for ``seconds``."""
    key = f"cyclops:reconciler:{queue.rq.name}"
    return bool(queue.connection.set(key, b"", nx=True, px=max(1, int(seconds * 1000))))


def reconcile(jobs: Jobs, queue: JobQueue) -> None:
    """Enqueues delayed and lost jobs again, closes ended ones, and repairs the index.

    Raises:
        redis.RedisError: Redis is away.
        StoreUnavailableError: the store is away.
    """
    seen = f"cyclops:missing:{queue.rq.name}"
    before = {key.decode(): float(value) for key, value in _hash(queue, seen).items()}
    for job_id in queue.due():
        if jobs.runnable(job_id):
            queue.requeue(job_id, jobs.get(job_id).owner)
        else:
            queue.forget(job_id)
    open_ids = jobs.open_ids()
    record_open_jobs(queue, len(open_ids))
    queue.waiting.remove_stale(set(open_ids))
    _restore_messages(queue)
    missing = queue.missing(_due(open_ids, {*before, *queue.waiting.taken()}, queue))
    now = queue.clock()
    restored = [job_id for job_id in missing if now - before.get(job_id, now) >= _APART]
    counters = Counters(queue.name)
    for job_id in restored:
        try:
            if _restore(job_id, jobs, queue):
                counters.count(RESTORED)
        except pydantic.ValidationError:  # the others are not to wait for it
            _log.exception("the record of job %s cannot be read", job_id)
    counters.add(queue.connection)
    first = [job_id for job_id in missing if job_id not in before]
    found = (before.keys() - set(missing)) | set(restored)
    if first:
        queue.connection.hset(seen, mapping=dict.fromkeys(first, str(now)))
    if found:
        queue.connection.hdel(seen, *found)
    repair_index(jobs, queue.index, open_ids)


def _hash(queue: JobQueue, key: str) -> dict[bytes, bytes]:
    return cast("dict[bytes, bytes]", queue.connection.hgetall(key))


def _due(open_ids: list[str], first: set[str], queue: JobQueue) -> list[str]:
    """Returns the open jobs to examine, oldest first: ``first``, and the next ``_AT_ONCE`` of the others."""
    if len(open_ids) <= _AT_ONCE:
        return open_ids
    key = f"cyclops:reconciled:{queue.rq.name}"
    begin = bisect.bisect_right(open_ids, as_text(cast("bytes | None", queue.connection.get(key)) or b""))
    some = open_ids[begin : begin + _AT_ONCE]
    queue.connection.set(key, some[-1] if begin + _AT_ONCE < len(open_ids) else b"")
    return [*some, *sorted(first.intersection(open_ids).difference(some))]


def _restore_messages(queue: JobQueue) -> None:
    """Writes missing messages once they were missing twice: one that was just taken is not in the list."""
    key = f"cyclops:short:{queue.rq.name}"
    if not queue.short_of_messages():
        queue.connection.delete(key)
    elif not queue.connection.set(key, queue.clock(), nx=True):
        since = float(cast("bytes | None", queue.connection.get(key)) or "inf")
        if queue.clock() - since >= _APART:
            queue.restore_messages()
            queue.connection.delete(key)


def _restore(job_id: str, jobs: Jobs, queue: JobQueue) -> bool:
    """Enqueues a lost job again, or closes one that has ended; returns whether it was enqueued."""
    if jobs.runnable(job_id):
        with hold_lease_briefly(queue.connection, job_id) as held:
            if not held:  # it runs after all
                return False
            attempt = jobs.wait_again(job_id)
        _log.warning("job %s was accepted, and neither waits nor runs: enqueued again", job_id)
        queue.submit(job_id, again=attempt is not None, owner=jobs.get(job_id).owner)
        if attempt is not None:
            queue.publish_wait(job_id, attempt)
        return True
    if jobs.ended(job_id) or _abandoned(job_id, jobs):
        jobs.update_index(job_id)  # what was changed of it may not be noted
        jobs.close(job_id)
    return False


def _abandoned(job_id: str, jobs: Jobs) -> bool:
    return not jobs.recorded(job_id) and time.time() - created_at(job_id) > _ABANDONED


@contextlib.contextmanager
def reconciler(
    jobs: Jobs, queue: JobQueue, seconds: float, periodically: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Reconciles in a thread inside the context, at most every ``seconds``; calls ``periodically`` about as often."""
    stop = threading.Event()
    thread = threading.Thread(
        target=_keep, args=(jobs, queue, seconds, stop, periodically), name="reconciler", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _keep(jobs: Jobs, queue: JobQueue, seconds: float, stop: threading.Event, periodically: Callable[[], None]) -> None:
    def look() -> None:
        if take_reconcile_turn(queue, seconds):
            reconcile(jobs, queue)

    away = False
    while not stop.wait(seconds / 2):
        failed = False
        for action in (look, periodically):  # neither is to wait for the other
            try:
                action()
            except (redis.RedisError, OSError) as error:
                failed = True
                if not away:
                    _log.warning("cannot look for lost jobs, or what need not be kept: %s", error)
            except Exception:  # noqa: BLE001 - nobody else does it while this process lives
                _log.exception("looking for lost jobs, or what need not be kept")
        away = failed
