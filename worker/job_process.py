"""The process that does a job: all that touches what a user uploaded happens in it.

It is forked from the worker, which never touches the store, and confined (``worker/confine.py``): of what was open only
a line to the attending process remains, and its standard error, which that one reads. It compiles and simulates in a
scratch directory, where it reads its inputs and writes to two folders.
"""

import contextlib
import logging
import os
import signal
import socket
from pathlib import Path

from worker.children import start_child
from worker.confine import TEMPORARY, confine
from worker.execute import execute
from worker.failure import Reached, failure, keep_incident
from worker.link import Link
from worker.messages import Failed, Succeeded, work_of
from worker.named import name_process
from worker.settings import Settings

_log = logging.getLogger(__name__)
PROCESS_NAME = "cyclops-job"
NO_MEMORY = 78  # the exit status of a process that had no memory left
OUT = "out"  # the directory of the artifacts in the scratch directory


class JobProcess:
    """A running process of a job.

    Attributes:
        line: the line to it.
        written: a pipe with what it writes to its standard output and error.
    """

    def __init__(self, pid: int, line: socket.socket, written: int) -> None:
        self.line = line
        self.written = written
        self._pid = pid
        self._status: int | None = None

    def poll(self) -> int | None:
        """Its wait status once it has ended, else None."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status

    def kill(self) -> int:
        """End it and what it started, unless it has ended; gives its wait status."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it may not have come to lead its group
                os.killpg(self._pid, signal.SIGKILL)
            os.kill(self._pid, signal.SIGKILL)
            self._status = os.waitpid(self._pid, 0)[1]
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)  # what it left behind keeps its group, and with it the number
        return self._status or 0

    def close(self) -> None:
        """End it if it runs, and give its line back."""
        self.kill()
        self.line.close()
        os.close(self.written)


def start_job_process(settings: Settings, scratch: Path) -> JobProcess:
    """Fork it. It waits for its work, which :func:`worker.messages.work_document` says, and dies with this process.

    Raises:
        OSError: there is no process, memory, descriptor or room on the disk for it.
    """
    for name in (OUT, TEMPORARY):
        (scratch / name).mkdir()
    written, writes = os.pipe()
    ours, theirs = socket.socketpair()
    try:
        pid = start_child(lambda: _serve(theirs, writes, settings, scratch))
    except OSError:
        ours.close()
        os.close(written)
        raise
    finally:
        theirs.close()
        os.close(writes)
    return JobProcess(pid, ours, written)


def _serve(line: socket.socket, writes: int, settings: Settings, scratch: Path) -> None:
    os.setsid()
    name_process(PROCESS_NAME)
    os.dup2(writes, 1)
    os.dup2(writes, 2)
    # its inputs come into the directory later: it may read them there, and write beside them only
    confine(settings, scratch, writable=(OUT, TEMPORARY), keep=(1, 2, line.fileno()))
    link = Link(line, settings.max_cache_entry_bytes)
    _log_into(link, settings.log_level)
    try:
        _do(link, settings, scratch)
    except MemoryError:  # there is not enough even to say so
        os._exit(NO_MEMORY)


def _do(link: Link, settings: Settings, scratch: Path) -> None:
    work = work_of(link.receive()[0])
    _log.info("begun in process %d, with its inputs at hand", os.getpid())
    reached = Reached(link.stage)
    try:
        result = execute(work, scratch / OUT, settings, reached, link)
    except ConnectionError:  # nobody is there to be told
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the job must end with a reason
        problem = failure(error)
        if problem.incident is not None:
            _log.exception("incident %s: the job failed", problem.incident)
            keep_incident(problem, error, reached.stage, work, scratch / OUT, settings)
        link.send(Failed(problem=problem).model_dump(mode="json"))
    else:
        link.send(Succeeded(result=result).model_dump(mode="json"))


def _log_into(link: Link, level: str) -> None:
    root = logging.getLogger()
    root.handlers = [link]
    root.setLevel(level)
