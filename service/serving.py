"""The whole service in one place: Redis, workers and the HTTP server, started and stopped together."""

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import uvicorn

from service.app import create_app
from worker.processes import worker_processes
from worker.redis_server import redis_server
from worker.settings import Settings

_STARTED_WITHIN = 10.0


@contextlib.contextmanager
def backend(settings: Settings, workers: int) -> Iterator[Settings]:
    """Workers, and a Redis of our own unless one is configured; gives the settings with its URL.

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
    """A listening socket; port 0 takes a free one. OSError if it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.create_server((host, port), family=family, reuse_port=False)
    # asyncio does it only for sockets that name their protocol; a kept connection else waits 40 ms for every answer
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def serve(settings: Settings, bound: socket.socket) -> None:
    """Serve HTTP until SIGINT or SIGTERM."""
    # uvicorn raises the signal again once it has stopped: it then must not kill us before our own clean-up
    signal.signal(signal.SIGTERM, _leave)
    _server(settings, access_log=True).run(sockets=[bound])


def _leave(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)


@contextlib.contextmanager
def served(settings: Settings, bound: socket.socket) -> Iterator[str]:
    """Serve HTTP from a thread inside the context; gives the base URL."""
    server = _server(settings, access_log=False)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, name="http", daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + _STARTED_WITHIN
        while not server.started and thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        host, port = bound.getsockname()[:2]
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join()


def _server(settings: Settings, *, access_log: bool) -> uvicorn.Server:
    level = settings.log_level.lower() if access_log else "warning"
    config = uvicorn.Config(
        create_app(settings), log_level=level, access_log=access_log, timeout_graceful_shutdown=5, server_header=False
    )
    return uvicorn.Server(config)
