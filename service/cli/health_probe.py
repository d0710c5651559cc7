"""``cyclops health``: the health check of a container, from inside it."""

import socket

import httpx2
import redis

from worker.config.settings import Settings
from worker.queue.job_queue import JobQueue
from worker.storage.connections import open_redis

_SECONDS = 2.0


def api_answers(url: str) -> bool:
    """Whether the api at ``url`` is healthy."""
    try:
        return httpx2.get(f"{url}/healthz", timeout=_SECONDS).is_success
    except httpx2.HTTPError:
        return False


def worker_answers(settings: Settings) -> bool:
    """Whether a worker of this host lives and listens."""
    if settings.redis_url is None:
        return False
    queue = JobQueue(open_redis(settings, retries=0, timeout=_SECONDS), settings.queue)
    try:
        return queue.workers(socket.gethostname()) > 0
    except redis.RedisError:
        return False
    finally:
        queue.connection.close()
