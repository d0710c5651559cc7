"""The worker's side of the supervisor: starts its process, hands jobs to it, and the protocol between the two.

The supervisor has the store and Redis, and keeps them from job to job. It cannot fork the processes of the jobs: the
store's threads do not live through a fork. So the worker, which has no threads, forks these too, and hands over a job
as a JSON document, with the two descriptors that lead to its process. While it supervises the job, the other side asks
for the end of that process: :data:`ASK`, or :data:`KILL`, upon which the worker sends its wait status, or that it has
none. With :data:`DONE` the job is done with.
"""

import json
import logging
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import NamedTuple

from worker.config.settings import Settings
from worker.process.children import start_child
from worker.process.scratch import scratch_directory
from worker.runner.job_process import JobProcess, start_job_process

ASK, KILL, DONE = b"?", b"x", b"."
_STATUS = struct.Struct("?i")
_MOST = 1 << 16


class Assignment(NamedTuple):
    """A job to attend to.

    Attributes:
        job_id: the job.
        token: of the attempt that it may become.
        worker: the name of the worker.
        scratch: path of the directory of the job's process.
        begun: the time of ``time.monotonic`` from which its seconds count.
    """

    job_id: str
    token: str
    worker: str
    scratch: str
    begun: float


def send_assignment(line: socket.socket, assignment: Assignment, process: JobProcess) -> None:
    """Hand over a job and the ways to its process."""
    socket.send_fds(line, [json.dumps(assignment).encode()], [process.line.fileno(), process.written])


def receive_assignment(line: socket.socket) -> tuple[Assignment, "JobProcessProxy"] | None:
    """The next job, and its process; None once the worker has hung up."""
    try:
        data, descriptors, *_ = socket.recv_fds(line, _MOST, 2)
    except ConnectionResetError:
        return None
    if not data:
        return None
    theirs, written = descriptors
    return Assignment(*json.loads(data)), JobProcessProxy(line, socket.socket(fileno=theirs), written)


def send_status(line: socket.socket, status: int | None) -> None:
    """Say how a process ended, or that it has not."""
    line.sendall(_STATUS.pack(status is not None, status or 0))


class JobProcessProxy:
    """The process of a job that has been handed over: the worker holds it, and we hold its line.

    Attributes:
        line: the line to it.
        written: a pipe with what it writes to its standard output and error.
    """

    def __init__(self, worker: socket.socket, line: socket.socket, written: int) -> None:
        self.line = line
        self.written = written
        self._worker = worker

    def poll(self) -> int | None:
        """Its wait status once it has ended, else None."""
        return self._asked(ASK)

    def kill(self) -> int:
        """End it and what it started, unless it has ended; gives its wait status."""
        return self._asked(KILL) or 0

    def _asked(self, question: bytes) -> int | None:
        self._worker.sendall(question)
        answer = self._worker.recv(_STATUS.size, socket.MSG_WAITALL)
        if len(answer) < _STATUS.size:
            raise ConnectionError("the worker has hung up")
        ended, status = _STATUS.unpack(answer)
        return int(status) if ended else None

    def close(self) -> None:
        """Give its line back; the worker ends it."""
        self.line.close()
        os.close(self.written)


_log = logging.getLogger(__name__)
_MOST_JOBS = 200  # then another process takes over: what one comes to need more and more of is given back
_BEAT = 2.0  # seconds between two signs of life while a job runs


class SupervisorProcess:
    """Has jobs run, one after the other.

    Args:
        settings: the settings.
        attend: what the attending process does with its end of the line, until nobody is at the other.
    """

    def __init__(self, settings: Settings, attend: Callable[[socket.socket], None]) -> None:
        self._settings = settings
        self._attend = attend
        self._process: tuple[int, socket.socket] | None = None
        self._jobs = 0

    @property
    def pid(self) -> int:
        """The id of the attending process; 0 if there is none."""
        return 0 if self._process is None else self._process[0]

    def ready(self) -> None:
        """Have an attending process, a new one if there is none or it has attended to many."""
        if self._process is not None and (self._jobs >= _MOST_JOBS or _hung_up(self._process[1])):
            self.close()
        if self._process is None:
            self._process = self._started()
            self._jobs = 0

    def _started(self) -> tuple[int, socket.socket]:
        ours, theirs = socket.socketpair()

        def attend() -> None:
            ours.close()
            self._attend(theirs)

        with theirs:
            try:
                return start_child(attend, group=True), ours
            except OSError:
                ours.close()
                raise

    def run(self, job_id: str, token: str, worker: str, beat: Callable[[], None]) -> int:
        """Have the job run, and wait for it.

        Args:
            job_id: the job.
            token: of this attempt, if it becomes one.
            worker: the worker's name.
            beat: is called every two seconds; that it fails does the job no harm.

        Returns:
            0 once the job is done with, and else the wait status of the attending process, which has ended.

        Raises:
            OSError: there is no room for the job's directory, or for its process; nobody has begun it.
        """
        self.ready()
        self._jobs += 1
        begun = time.monotonic()
        with scratch_directory(self._settings.scratch_dir, f"job-{job_id}") as scratch:
            process = start_job_process(self._settings, scratch)
            try:
                done = self._hand(Assignment(job_id, token, worker, str(scratch), begun), process, beat)
            finally:
                process.close()
        return 0 if done else self.close()

    def _hand(self, assignment: Assignment, process: JobProcess, beat: Callable[[], None]) -> bool:
        """Whether the attending process is done with the job; it has died if not."""
        assert self._process is not None
        line = self._process[1]
        try:
            send_assignment(line, assignment, process)
            while True:
                while not select.select([line], [], [], _BEAT)[0]:
                    _try(beat)
                asked = line.recv(1)
                if asked == ASK:
                    send_status(line, process.poll())
                elif asked == KILL:
                    send_status(line, process.kill())
                else:
                    return asked == DONE
        except (BrokenPipeError, ConnectionResetError):
            return False

    def close(self) -> int:
        """Hang up, upon which the attending process ends; gives its wait status."""
        if self._process is None:
            return 0
        pid, line = self._process
        self._process = None
        line.close()
        return os.waitpid(pid, 0)[1]


def _try(beat: Callable[[], None]) -> None:
    try:
        beat()
    except Exception:  # noqa: BLE001 - whatever is done beside the job, the job goes on
        _log.exception("something beside the job failed")


def _hung_up(line: socket.socket) -> bool:
    """Whether the other side is gone: between two jobs it says nothing."""
    return bool(select.select([line], [], [], 0)[0])
