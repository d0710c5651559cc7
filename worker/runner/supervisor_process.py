"""The worker's side of the supervisor: it starts the supervisor's process and assigns jobs to it.

The supervisor keeps its connections to the store and Redis from job to job. It cannot fork the processes of jobs: the
store's threads do not survive a fork. So the worker, which has no threads, forks these too, and assigns a job as a JSON
document with the two descriptors of its process. While the supervisor runs the job it sends :data:`ASK` or :data:`KILL`
for that process, and the worker answers with its wait status, if it has ended; :data:`DONE` ends the assignment.
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
    """A job for the supervisor.

    Attributes:
        job_id: the job.
        token: identifies the attempt.
        worker: the name of the worker.
        scratch: path of the directory of the job's process.
        begun: the ``time.monotonic`` at which its wall time begins.
    """

    job_id: str
    token: str
    worker: str
    scratch: str
    begun: float


def send_assignment(line: socket.socket, assignment: Assignment, process: JobProcess) -> None:
    """Sends a job with the descriptors of its process."""
    socket.send_fds(line, [json.dumps(assignment).encode()], [process.line.fileno(), process.output])


def receive_assignment(line: socket.socket) -> tuple[Assignment, "JobProcessProxy"] | None:
    """Receives the next job and its process; returns None once the worker has closed the line."""
    try:
        data, descriptors, *_ = socket.recv_fds(line, _MOST, 2)
    except ConnectionResetError:
        return None
    if not data:
        return None
    theirs, written = descriptors
    return Assignment(*json.loads(data)), JobProcessProxy(line, socket.socket(fileno=theirs), written)


def send_status(line: socket.socket, status: int | None) -> None:
    """Sends a wait status, or that the process has not ended."""
    line.sendall(_STATUS.pack(status is not None, status or 0))


class JobProcessProxy:
    """The process of an assigned job: the worker is its parent, and the supervisor has its line.

    Attributes:
        line: the line to it.
        output: a pipe of its standard output and error.
    """

    def __init__(self, worker: socket.socket, line: socket.socket, written: int) -> None:
        self.line = line
        self.output = written
        self._worker = worker

    def poll(self) -> int | None:
        """Returns its wait status once it has ended, else None."""
        return self._ask(ASK)

    def kill(self) -> int:
        """Kills the process and its group, unless it has ended; returns its wait status."""
        return self._ask(KILL) or 0

    def _ask(self, question: bytes) -> int | None:
        self._worker.sendall(question)
        answer = self._worker.recv(_STATUS.size, socket.MSG_WAITALL)
        if len(answer) < _STATUS.size:
            raise ConnectionError("the worker has closed the line")
        ended, status = _STATUS.unpack(answer)
        return int(status) if ended else None

    def close(self) -> None:
        """Closes its line; the worker ends the process."""
        self.line.close()
        os.close(self.output)


_log = logging.getLogger(__name__)
_MOST_JOBS = 200  # then another process takes over: what one comes to need more and more of is given back
_BEAT = 2.0  # seconds between two signs of life while a job runs


class SupervisorProcess:
    """Runs jobs, one after the other, in the supervisor's process.

    Args:
        settings: the settings.
        supervise: runs in the supervisor's process with its end of the line, until the worker closes the other.
    """

    def __init__(self, settings: Settings, supervise: Callable[[socket.socket], None]) -> None:
        self._settings = settings
        self._supervise = supervise
        self._process: tuple[int, socket.socket] | None = None
        self._jobs = 0

    @property
    def pid(self) -> int:
        """The supervisor's process id; 0 if there is none."""
        return 0 if self._process is None else self._process[0]

    def ensure_running(self) -> None:
        """Starts the supervisor's process if there is none, or a new one after many jobs."""
        if self._process is not None and (self._jobs >= _MOST_JOBS or _hung_up(self._process[1])):
            self.close()
        if self._process is None:
            self._process = self._start()
            self._jobs = 0

    def _start(self) -> tuple[int, socket.socket]:
        ours, theirs = socket.socketpair()

        def supervise() -> None:
            ours.close()
            self._supervise(theirs)

        with theirs:
            try:
                return start_child(supervise, group=True), ours
            except OSError:
                ours.close()
                raise

    def run(self, job_id: str, token: str, worker: str, beat: Callable[[], None]) -> int:
        """Runs the job, and waits for it.

        Args:
            job_id: the job.
            token: identifies the attempt.
            worker: the worker's name.
            beat: is called every two seconds; its failures are logged.

        Returns:
            0 once the supervisor is done with the job, else the wait status of the supervisor, which died.

        Raises:
            OSError: the system lacks space for the job's directory or resources for its process; the job has not begun.
        """
        self.ensure_running()
        self._jobs += 1
        begun = time.monotonic()
        with scratch_directory(self._settings.scratch_dir, f"job-{job_id}") as scratch:
            process = start_job_process(self._settings, scratch)
            try:
                done = self._hand_over(Assignment(job_id, token, worker, str(scratch), begun), process, beat)
            finally:
                process.close()
        return 0 if done else self.close()

    def _hand_over(self, assignment: Assignment, process: JobProcess, beat: Callable[[], None]) -> bool:
        """Returns True once the supervisor is done with the job, and False if it died."""
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
        """Closes the line, upon which the supervisor ends; returns its wait status."""
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
        _log.exception("a periodic task failed while the job runs")


def _hung_up(line: socket.socket) -> bool:
    """Returns whether the other side is gone: between two jobs it sends nothing."""
    return bool(select.select([line], [], [], 0)[0])
