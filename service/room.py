"""Whether the queue has room for another job."""

from service.problems import ProblemError
from worker.config.settings import Settings
from worker.queue.job_queue import JobQueue

_RETRY = {"Retry-After": "10"}


def check_room(queue: JobQueue, owner: str, settings: Settings) -> None:
    """Refuse a job if too many wait, in all or of its owner.

    Raises:
        ProblemError: too many do.
        redis.RedisError: Redis is away.
    """
    most = settings.most_waiting
    if queue.length() >= most > 0:
        raise ProblemError("queue-full", f"{most} jobs wait; try again later", headers=_RETRY)
    most = settings.most_waiting_of_owner
    if most > 0 and queue.waiting.of(owner) >= most:
        raise ProblemError("queue-full", f"{most} jobs of yours wait; try again later", headers=_RETRY)
