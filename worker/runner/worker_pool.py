"""Worker processes of this machine: started together, restarted when they die, stopped together."""

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

from worker.config.settings import Settings
from worker.process import parent_death

_log = logging.getLogger(__name__)
_STOPPED_WITHIN = 5.0
_LOOK_EVERY = 0.5


@contextlib.contextmanager
def worker_processes(settings: Settings, count: int) -> Iterator[None]:
    """Keeps ``count`` workers running inside the context. ``settings.redis_url`` must be set.

    At the end a running job has five seconds; then it is killed, and a later start runs it again.
    """
    stop = threading.Event()
    keeper = threading.Thread(target=_keep, args=(settings, count, stop), name="workers", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        stop.set()
        keeper.join()


def _keep(settings: Settings, count: int, stop: threading.Event) -> None:
    processes: list[subprocess.Popen[bytes]] = []
    while not stop.is_set():
        for process in processes:
            if process.poll() is not None:
                _log.warning("worker %d ended with status %d: started again", process.pid, process.returncode)
        processes = [process for process in processes if process.poll() is None]
        try:
            while len(processes) < count:
                processes.append(_start(settings))
        except OSError as error:  # this thread must not end: the workers would end with it
            _log.warning("a worker cannot be started now: %s", error)
        stop.wait(_LOOK_EVERY)
    _stop(processes)


def _start(settings: Settings) -> subprocess.Popen[bytes]:
    # the worker dies with the thread that starts it, which lives until all workers are stopped
    return subprocess.Popen(
        [sys.executable, parent_death.__file__, str(os.getpid()), sys.executable, "-m", "worker.runner"],
        env=os.environ | settings.environment(),
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for us: we stop them
    )


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(_STOPPED_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
