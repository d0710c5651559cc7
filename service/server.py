"""The HTTP server.

The C library's allocator is told to return freed memory: by itself it learns from large blocks that are freed to keep
such blocks for later, in an arena for each of several threads, and an api that passes large uploads on would keep what
the busiest moment took.
"""

import contextlib
import ctypes
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from opentelemetry.trace import Tracer

from service.app import create_app
from service.http.uvicorn_protocol import TimeLimitedServer
from service.middleware.access_control import resolve_auth
from worker.config.settings import Settings
from worker.telemetry.tracing import service_tracer

_STARTED_WITHIN = 10.0


def serve(settings: Settings, bound: socket.socket) -> None:
    """Serves HTTP until SIGINT or SIGTERM."""
    return_freed_memory()
    # uvicorn raises the signal again once it has stopped: it then must not kill us before our own clean-up
    signal.signal(signal.SIGTERM, _exit_on_signal)
    with service_tracer() as tracer:
        _http_server(settings, bound, settings.log_level, tracer).run(sockets=[bound])


def _exit_on_signal(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)


def wait_until_stopped() -> None:
    """Returns at SIGINT or SIGTERM."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()


@contextlib.contextmanager
def serving_in_thread(settings: Settings, bound: socket.socket) -> Iterator[str]:
    """Serves HTTP from a thread inside the context; gives the base URL."""
    server = _http_server(settings, bound, "WARNING")
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


def _resolved_settings(settings: Settings, bound: socket.socket) -> Settings:
    """Returns the settings with ``auto`` resolved, and with the announced address among the allowed hosts."""
    auth = resolve_auth(settings.auth, bound)
    hosts = settings.hosts
    if auth == "off":  # where keys are needed, no names are all names
        address = bound.getsockname()[0]
        hosts = [*hosts, f"[{address}]" if ":" in address else address]
    return settings.model_copy(update={"auth": auth, "allowed_hosts": ", ".join(hosts)})


def _http_server(
    settings: Settings, bound: socket.socket, level: str, tracer: Tracer | None = None
) -> TimeLimitedServer:
    app = create_app(_resolved_settings(settings, bound), tracer)

    def end_event_streams() -> None:
        app.state.context.jobs.events.close()

    return TimeLimitedServer(app, settings, level, end_event_streams)


# malloc.h of the GNU C library
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_MMAP_BYTES = 128 << 10  # where the library begins too, before it learns
_ARENAS = 2


def return_freed_memory() -> None:
    """Has large blocks returned to the system once they are freed; does nothing without the GNU C library.

    Best called before there are threads: arenas that are there stay.
    """
    with contextlib.suppress(AttributeError):  # not the GNU library
        mallopt = ctypes.CDLL(None).mallopt
        for name, value in ((_TRIM_THRESHOLD, _MMAP_BYTES), (_MMAP_THRESHOLD, _MMAP_BYTES), (_ARENA_MAX, _ARENAS)):
            mallopt(name, value)
