"""What HTTP stands on: its socket, and the Redis and the workers that are started and stopped with it.

Nothing here loads the application, which takes longer than a worker needs to begin.
"""

import contextlib
import socket
import sys
from collections.abc import Iterator

from worker.config.settings import Settings
from worker.runner.worker_pool import worker_processes
from worker.storage.redis_server import redis_server

_SILENT_MILLISECONDS = 300_000  # for which a client may take nothing of what we send


@contextlib.contextmanager
def backend(settings: Settings, workers: int) -> Iterator[Settings]:
    """Starts workers, and a Redis unless one is configured; gives the settings with its URL.

    Raises:
        RedisUnavailableError: there is no Redis to be had.
    """
    with contextlib.ExitStack() as stack:
        if settings.redis_url is None:
            url = stack.enter_context(redis_server(settings.redis_dir))
            settings = settings.model_copy(update={"redis_url": url})
        stack.enter_context(worker_processes(settings, workers))
        yield settings


def listen(host: str, port: int) -> socket.socket:
    """Returns a listening socket; port 0 takes a free one. OSError if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.create_server((host, port), family=family, reuse_port=False)
    # asyncio does it only for sockets that name their protocol; a kept connection else waits 40 ms for every answer
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":  # a client that vanished with its network would keep its stream of events for minutes
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_MILLISECONDS)
    return bound
