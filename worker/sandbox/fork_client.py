"""Client of the fork server (``worker/sandbox/fork_server.py``): runs each task in a process with preloaded modules.

The api loads no compiler and opens nothing that was uploaded: such a file may take long, grow, or crash native code.
Nor do workers: all of them may be busy for a quarter of an hour while a request waits.
"""

import contextlib
import errno
import logging
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from worker.sandbox.environment import harmless_variables
from worker.sandbox.fork_server import LENGTH, NOT_STARTED, STATUS, send
from worker.telemetry.logs import Form

_log = logging.getLogger(__name__)
_CHUNK = 1 << 20
# what the system says that has no process, memory or descriptor to spare
_LACKING = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ETOOMANYREFS}


class TaskTimeoutError(Exception):
    """The task exceeded its time limit and was killed."""


class NotStartedError(Exception):
    """The system had no process, memory or descriptor to spare for the task, which has not begun."""


@dataclass(frozen=True)
class TaskOutcome:
    """The outcome of a task: its ``answer``, None without one, and wait ``status``, None if unknown."""

    answer: bytes | None
    status: int | None


class ForkClient:
    """Runs the tasks of one module at once, in a fork server. Thread-safe.

    Args:
        module: what the server loads; it has ``TASKS``.
        level: the least level that the server logs.
        form: of the lines that it logs.
    """

    def __init__(self, module: str, level: str = "INFO", form: Form = "text") -> None:
        self._module = module
        self._logs = (level, form)
        self._lock = threading.Lock()
        self._server: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    def start(self) -> None:
        """Starts the server, so that it loads its modules early; if this fails, the first task starts it."""
        with self._lock:
            try:
                self._ensure_server()
            except OSError as error:
                _log.warning("the server of %s cannot be started now: %s", self._module, error)

    def close(self) -> None:
        """Ends the server and all tasks; another task would start it again."""
        with self._lock:
            if self._server is not None:
                process, control = self._server
                control.close()
                process.wait()
                self._server = None

    def run(self, task: str, arguments: bytes, *, seconds: float, most_bytes: int) -> TaskOutcome:
        """Runs ``task`` and waits until its process has ended.

        Args:
            task: a name in the module's ``TASKS``.
            arguments: its encoded arguments.
            seconds: its time limit.
            most_bytes: the limit of its answer; a longer one is dropped.

        Raises:
            TaskTimeoutError: it took longer than ``seconds``.
            NotStartedError: the system lacks resources for a process.
        """
        with self._started_task() as ours:
            received = _received(ours, task, arguments, time.monotonic() + seconds, most_bytes)
        ended = _ended(received, most_bytes)
        # a server without a descriptor to spare loses the task's socket, and says nothing
        if ended.status == NOT_STARTED or (not received and self._is_alive()):
            raise NotStartedError("there is no process to be had for it at this moment")
        return ended

    def _is_alive(self) -> bool:
        with self._lock:
            if self._server is None:
                return False
            hung_up = select.poll()  # which is seen sooner than that the process has ended
            hung_up.register(self._server[1], 0)
            return not hung_up.poll(0)

    @contextlib.contextmanager
    def _started_task(self) -> Iterator[socket.socket]:
        """Yields our end of a new task's socket; closing it kills the task."""
        try:
            ours = self._pass_socket()
        except OSError as error:
            if error.errno in _LACKING:
                raise NotStartedError(error.strerror) from error
            raise
        with ours:
            yield ours

    def _pass_socket(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        try:
            with theirs, self._lock:
                try:
                    socket.send_fds(self._ensure_server(), [b"+"], [theirs.fileno()])
                except (BrokenPipeError, ConnectionResetError):  # it died after we looked
                    self._stop()
                    socket.send_fds(self._ensure_server(), [b"+"], [theirs.fileno()])
        except OSError:
            ours.close()
            raise
        return ours

    def _ensure_server(self) -> socket.socket:
        """Returns the server's socket, and starts the server if there is none."""
        if self._server is not None and self._server[0].poll() is None:
            return self._server[1]
        self._stop()
        ours, theirs = socket.socketpair()
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "worker.sandbox.fork_server", self._module, *self._logs],
                stdin=theirs.fileno(),
                env=harmless_variables(os.environ),
                start_new_session=True,  # Ctrl-C is for us: it ends when we do
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._server = process, ours
        return ours

    def _stop(self) -> None:
        if self._server is not None:
            process, control = self._server
            control.close()
            process.kill()
            process.wait()
            self._server = None


def _received(ours: socket.socket, task: str, arguments: bytes, deadline: float, most_bytes: int) -> bytes:
    """Returns the bytes that the task and the server send, up to the limit."""
    received = bytearray()
    try:
        ours.settimeout(_left(deadline))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it died; the server says how
            send(ours, task.encode())
            send(ours, arguments)
        while len(received) <= LENGTH.size + most_bytes + STATUS.size:
            ours.settimeout(_left(deadline))
            chunk = ours.recv(_CHUNK)
            if not chunk:
                break
            received += chunk
    except TimeoutError:
        raise TaskTimeoutError from None
    except ConnectionResetError:
        pass
    return bytes(received)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _ended(received: bytes, most_bytes: int) -> TaskOutcome:
    status = STATUS.unpack(received[-STATUS.size :])[0] if len(received) >= STATUS.size else None
    if len(received) >= LENGTH.size + STATUS.size:
        (length,) = LENGTH.unpack_from(received)
        if length <= most_bytes and len(received) == LENGTH.size + length + STATUS.size:
            return TaskOutcome(received[LENGTH.size : -STATUS.size], status)
    return TaskOutcome(None, status)
