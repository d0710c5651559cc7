"""Tasks in processes of their own, forked from one that has what they need loaded (``worker/fork_server.py``).

The api loads no compiler and opens nothing that was uploaded: such a file may take long, grow, or crash native code.
The workers are no place for it either: all of them may be busy for a quarter of an hour, and a request waits.
"""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from worker.environment import harmless
from worker.fork_server import LENGTH, STATUS, send
from worker.logs import Form

_CHUNK = 1 << 20


class TooLongError(Exception):
    """The task took longer than it may, and was killed."""


@dataclass(frozen=True)
class Ended:
    """How a task ended. ``answer`` is None if it gave none; ``status`` is its wait status, None if nobody knows."""

    answer: bytes | None
    status: int | None


class Forked:
    """Runs the tasks of one module, each as soon as it is asked for; may be used from several threads.

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
        """Start the server, so that it loads its modules meanwhile; the first task does so else."""
        with self._lock:
            self._running()

    def close(self) -> None:
        """End the server and all tasks; another task would start it again."""
        with self._lock:
            if self._server is not None:
                process, control = self._server
                control.close()
                process.wait()
                self._server = None

    def run(self, task: str, arguments: bytes, *, seconds: float, most_bytes: int) -> Ended:
        """Do ``task``, and wait until its process has ended.

        Args:
            task: a name in the module's ``TASKS``.
            arguments: what it is given.
            seconds: how long it may take.
            most_bytes: the longest answer it may give; with a longer one it has given none.

        Raises:
            TooLongError: it took longer than ``seconds``.
        """
        with self._begun() as ours:
            received = _received(ours, task, arguments, time.monotonic() + seconds, most_bytes)
        return _ended(received, most_bytes)

    @contextlib.contextmanager
    def _begun(self) -> Iterator[socket.socket]:
        """Our end of a new task's socket; closing it kills the task."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs, self._lock:
                try:
                    socket.send_fds(self._running(), [b"+"], [theirs.fileno()])
                except OSError:  # it died after we looked
                    self._stop()
                    socket.send_fds(self._running(), [b"+"], [theirs.fileno()])
            yield ours

    def _running(self) -> socket.socket:
        """The server's socket; the server is started if there is none."""
        if self._server is not None and self._server[0].poll() is None:
            return self._server[1]
        self._stop()
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "worker.fork_server", self._module, *self._logs],
                stdin=theirs.fileno(),
                env=harmless(os.environ),
                start_new_session=True,  # Ctrl-C is for us: it ends when we do
            )
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
    """All that the task and the server send, as far as it may be of use."""
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
        raise TooLongError from None
    except ConnectionResetError:
        pass
    return bytes(received)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _ended(received: bytes, most_bytes: int) -> Ended:
    status = STATUS.unpack(received[-STATUS.size :])[0] if len(received) >= STATUS.size else None
    if len(received) >= LENGTH.size + STATUS.size:
        (length,) = LENGTH.unpack_from(received)
        if length <= most_bytes and len(received) == LENGTH.size + length + STATUS.size:
            return Ended(received[LENGTH.size : -STATUS.size], status)
    return Ended(None, status)
