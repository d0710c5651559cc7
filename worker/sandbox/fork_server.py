"""Fork server: a process with preloaded modules that forks a child for each task.

``python -m worker.sandbox.fork_server MODULE LEVEL FORMAT``; the last two are those of
``worker.telemetry.logs.configure``.

The module says in ``TASKS`` what can be done, a function of bytes to bytes by name. ``worker/sandbox/fork_client.py``
is the other side: over the socket that is standard input it passes a socket for each task, over which the child
receives its arguments and answers. When the child has ended, this process adds its wait status; :data:`NOT_STARTED`
says that there was no process to be had. A task whose socket is closed at the other end is killed, and with the other
side all end.

One thread, and nothing of a task is read here: what a child makes of it harms the child only.
"""

import contextlib
import importlib
import logging
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping
from typing import NoReturn

from worker.process.children import share_with_children, use_large_pages
from worker.process.collection import collection_paused
from worker.process.parent_death import die_with_parent
from worker.sandbox.confinement import prepare_confinement
from worker.telemetry import logs

Tasks = Mapping[str, Callable[[bytes], bytes]]

LENGTH = struct.Struct(">I")  # before each of: the task's name, its arguments, its answer
STATUS = struct.Struct(">i")  # a wait status, at the end
NOT_STARTED = -1  # in its place
_log = logging.getLogger(__name__)
_DONE, _RAISED = 0, 1
_SETTLED_AFTER = 30.0  # seconds


def send(task: socket.socket, data: bytes) -> None:
    """Sends bytes with their length."""
    task.sendall(LENGTH.pack(len(data)) + data)


def receive(task: socket.socket) -> bytes:
    """Receives bytes that were sent with their length.

    Raises:
        EOFError: the other side is gone.
    """
    (length,) = LENGTH.unpack(_exactly(task, LENGTH.size))
    return _exactly(task, length)


def _exactly(task: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        chunk = task.recv(min(count - len(data), 1 << 20))
        if not chunk:
            raise EOFError
        data += chunk
    return bytes(data)


class _Server:
    def __init__(self, control: socket.socket, tasks: Tasks) -> None:
        self._control = control
        self._tasks = tasks
        self._children: dict[int, socket.socket] = {}
        self._poll = select.poll()
        self._ended, self._woken = socket.socketpair()

    def run(self) -> None:
        """Serves until the other side is gone; children that still work are killed."""
        self._woken.setblocking(False)
        self._ended.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._woken.fileno(), warn_on_full_buffer=False)
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(self._ended, select.POLLIN)
        settled: float | None = time.monotonic() + _SETTLED_AFTER
        while True:
            if settled is not None and time.monotonic() >= settled:
                use_large_pages()
                settled = None
            wait = None if settled is None else max(0, settled - time.monotonic()) * 1000
            for descriptor, _ in self._poll.poll(wait):
                if descriptor == self._control.fileno():
                    if not self._accept():
                        self._kill(list(self._children))
                        return
                elif descriptor == self._ended.fileno():
                    self._ended.recv(1 << 10)
                    self._reap()
                else:  # nobody waits for the answer
                    self._kill([pid for pid, task in self._children.items() if task.fileno() == descriptor])

    def _accept(self) -> bool:
        message, descriptors, *_ = socket.recv_fds(self._control, 1, 1)
        for descriptor in descriptors:
            self._start(socket.socket(fileno=descriptor))
        return bool(message)

    def _start(self, task: socket.socket) -> None:
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            _log.warning("a task cannot be started now: %s", error)
            _tell(task, NOT_STARTED)
            return
        if pid == 0:
            self._work(task, server)
        self._children[pid] = task
        self._poll.register(task, 0)  # only that it is closed

    def _work(self, task: socket.socket, server: int) -> NoReturn:
        status = _RAISED
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            die_with_parent(server)
            for other in (self._control, self._ended, self._woken, *self._children.values()):
                other.close()
            name = receive(task).decode()
            send(task, self._tasks[name](receive(task)))
            status = _DONE
        except Exception:  # noqa: BLE001 - logged; this process must not go on as the server
            _log.exception("in process %d", os.getpid())
        finally:
            os._exit(status)

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            task = self._children.pop(pid)
            with contextlib.suppress(KeyError):  # it was killed
                self._poll.unregister(task)
            _tell(task, status)

    def _kill(self, pids: list[int]) -> None:
        for pid in pids:
            self._poll.unregister(self._children[pid])  # it stays closed, and would wake us until the child has ended
            os.kill(pid, signal.SIGKILL)


def _tell(task: socket.socket, status: int) -> None:
    """Sends the task's wait status, and closes its socket."""
    with task:
        task.setblocking(False)
        with contextlib.suppress(OSError):  # nobody waits, or nobody reads
            task.send(STATUS.pack(status))


def main(module: str, level: str, form: logs.Form) -> None:
    """Serves the tasks of ``module`` over standard input."""
    logs.configure(level, form, "inspector")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the other side
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    with collection_paused():
        tasks: Tasks = importlib.import_module(module).TASKS
    prepare_confinement()
    share_with_children()
    _Server(control, tasks).run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], "json" if sys.argv[3] == "json" else "text")
