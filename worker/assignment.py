"""What a worker and the process that attends to its jobs say to each other.

The worker hands over a job: a JSON document, with the two descriptors that lead to the process of the job. While it
attends to the job the other side asks for the end of that process: :data:`ASK`, or :data:`KILL`, upon which the worker
sends its wait status, or that it has none. With :data:`DONE` the job is done with.
"""

import json
import os
import socket
import struct
from typing import NamedTuple

from worker.job_process import JobProcess

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


def receive_assignment(line: socket.socket) -> tuple[Assignment, "HeldProcess"] | None:
    """The next job, and its process; None once the worker has hung up."""
    try:
        data, descriptors, *_ = socket.recv_fds(line, _MOST, 2)
    except ConnectionResetError:
        return None
    if not data:
        return None
    theirs, written = descriptors
    return Assignment(*json.loads(data)), HeldProcess(line, socket.socket(fileno=theirs), written)


def send_status(line: socket.socket, status: int | None) -> None:
    """Say how a process ended, or that it has not."""
    line.sendall(_STATUS.pack(status is not None, status or 0))


class HeldProcess:
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
