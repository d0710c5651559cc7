"""The process of a job: it alone reads what a user uploaded.

It is forked from the worker, which never touches the store, and confined (``worker/sandbox/confinement.py``): of the
open descriptors it keeps a line to the supervisor, and its output, which the supervisor reads. It compiles and
simulates in a scratch directory, where it reads its inputs and writes to two folders. A second process that it forks
before, an assistant that lowers half of the model's regions, is confined too, and has a line to it alone.
"""

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from accel.driver.helpers.job_helpers import Helpers
from accel.driver.helpers.lowering_assistant import LoweringAssistant, assist
from accel.util.free_memory import keep_freed_memory
from accel.util.helper_process import line_to_helper, may_help
from worker.config.settings import Settings
from worker.execution.job_execution import execute
from worker.execution.job_failure import StageRecorder, failure_problem, write_incident
from worker.process.children import set_process_name, start_child
from worker.records.job_record import Stage
from worker.runner.job_protocol import (
    CacheEntry,
    CacheGet,
    CachePut,
    Failed,
    FamilyRequest,
    Frame,
    Frames,
    KernelRequest,
    LogMessage,
    Request,
    StageMessage,
    Succeeded,
    decode_inputs,
    encode_frame,
)
from worker.sandbox.confinement import TEMPORARY, confine

_CHUNK = 1 << 20
_MOST_TEXT = 4096  # characters of a logged line


class SupervisorLink(logging.Handler):
    """Sends stages and log lines to the supervisor, and gets the compiler's cache and kernels through it.

    Blocking and thread-safe. Every method raises ConnectionError if the supervisor is gone.
    """

    def __init__(self, connection: socket.socket, most_body: int) -> None:
        super().__init__()
        self._connection = connection
        self._most_body = most_body
        self._frames = Frames(most_body)
        self._waiting: list[Frame] = []
        self._turn = threading.RLock()

    def send(self, document: Mapping[str, Any], body: bytes = b"") -> None:
        """Sends a frame."""
        with self._turn:
            self._connection.sendall(encode_frame(document, body))

    def receive(self) -> Frame:
        """Returns the next frame."""
        with self._turn:
            while not self._waiting:
                data = self._connection.recv(_CHUNK)
                if not data:
                    raise ConnectionResetError("the supervisor of the job is gone")
                self._waiting += self._frames.feed(data)
            return self._waiting.pop(0)

    def stage(self, stage: Stage) -> None:
        """Sends a stage."""
        self.send(StageMessage(stage=stage).model_dump())

    def emit(self, record: logging.LogRecord) -> None:
        """Sends a log record."""
        text = f"{record.name}: {record.getMessage()}"
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        self.send(LogMessage(level=min(max(record.levelno, 0), 100), text=text[:_MOST_TEXT]).model_dump())

    def get(self, key: str) -> bytes | None:
        """Returns the entry of the cache, or None."""
        return self._ask(CacheGet(key=key))

    def _ask(self, request: Request, body: bytes = b"") -> bytes | None:
        with self._turn:
            self.send(request.model_dump(), body)
            document, answer = self.receive()
        return answer if CacheEntry.model_validate(document).found else None

    def put(self, key: str, data: bytes) -> None:
        """Stores an entry in the cache, unless it is too large."""
        if len(data) <= self._most_body:
            self.send(CachePut(key=key).model_dump(), data)

    def prepare_family(self, name: str) -> None:
        """Has a family's kernels compiled to the disk, and says so to who follows the job."""
        _log.info("what simulates the family %s is not compiled yet: that comes first", name)
        self._ask(FamilyRequest(family=name))

    def kernel_code(self, name: str, text: str) -> bytes | None:
        """Returns the object code of a kernel, or None."""
        data = text.encode()
        return self._ask(KernelRequest(family=name), data) if len(data) <= self._most_body else None


_log = logging.getLogger(__name__)
PROCESS_NAME = "cyclops-job"
ASSISTANT_NAME = "cyclops-assist"
_Assistant = tuple[int, socket.socket]
OUT_OF_MEMORY_STATUS = 78  # the exit status of a process that had no memory left
OUTPUT_FOLDER = "out"  # the directory of the artifacts in the scratch directory


class JobProcess:
    """A running process of a job.

    Attributes:
        pid: its number.
        line: the line to it.
        output: a pipe of its standard output and error.
    """

    def __init__(self, pid: int, line: socket.socket, written: int) -> None:
        self.line = line
        self.output = written
        self.pid = pid
        self._status: int | None = None

    def poll(self) -> int | None:
        """Returns its wait status once it has ended, else None."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status

    def kill(self) -> int:
        """Kills the process and its group, unless it has ended; returns its wait status."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it may not have come to lead its group
                os.killpg(self.pid, signal.SIGKILL)
            os.kill(self.pid, signal.SIGKILL)
            self._status = os.waitpid(self.pid, 0)[1]
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # what it left behind keeps its group, and with it the number
        return self._status or 0

    def close(self) -> None:
        """Kills the process if it runs, and closes its line."""
        self.kill()
        self.line.close()
        os.close(self.output)


def start_job_process(settings: Settings, scratch: Path) -> JobProcess:
    """Forks the process, which waits for its inputs (:func:`worker.runner.job_protocol.encode_inputs`).

    It dies with the calling process.

    Raises:
        OSError: there is no process, memory, descriptor or room on the disk for it.
    """
    for name in (OUTPUT_FOLDER, TEMPORARY):
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
    set_process_name(PROCESS_NAME)
    keep_freed_memory()
    assistant = _start_assistant(settings, scratch) if settings.job_assistant and may_help() else None
    os.dup2(writes, 1)
    os.dup2(writes, 2)
    # its inputs come into the directory later: it may read them there, and write beside them only
    kept = (1, 2, line.fileno(), *(() if assistant is None else (assistant[1].fileno(),)))
    confine(settings, scratch, writable=(OUTPUT_FOLDER, TEMPORARY), keep=kept)
    link = SupervisorLink(line, settings.max_cache_entry_bytes)
    _log_into(link, settings.log_level)
    try:
        _do(link, settings, scratch, assistant)
    except MemoryError:  # there is not enough even to say so
        os._exit(OUT_OF_MEMORY_STATUS)


@contextlib.contextmanager
def _assisted(started: _Assistant | None) -> Iterator[LoweringAssistant | None]:
    """Within, there is the assistant, if one was started; afterwards it has ended, and left nothing to reap."""
    if started is None:
        yield None
        return
    process, line = started
    assistant = LoweringAssistant(line)
    try:
        yield assistant
    finally:
        assistant.close()
        os.waitpid(process, 0)


def _start_assistant(settings: Settings, scratch: Path) -> _Assistant | None:
    """Fork the assistant, which dies with this process.

    Returns:
        Its number, and the line to it; None if there is no process for it.
    """
    ours, theirs = line_to_helper()

    def serve() -> None:
        set_process_name(ASSISTANT_NAME)
        confine(settings, scratch, writable=(), keep=(theirs.fileno(),))
        assist(theirs)

    try:
        return start_child(serve), ours
    except OSError:
        ours.close()
        return None
    finally:
        theirs.close()


def _do(link: SupervisorLink, settings: Settings, scratch: Path, started: _Assistant | None) -> None:
    work = decode_inputs(link.receive()[0])
    _log.info("begun in process %d, with its inputs at hand", os.getpid())
    reached = StageRecorder(link.stage)
    try:
        with _assisted(started) as assistant:
            out = scratch / OUTPUT_FOLDER
            result = execute(work, out, settings, reached, cache=link, kernels=link, helpers=Helpers(assistant))
    except ConnectionError:  # no supervisor is left to report to
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the job must end with a reason
        problem = failure_problem(error)
        if problem.incident is not None:
            _log.exception("incident %s: the job failed", problem.incident)
            write_incident(problem, error, reached.stage, work, scratch / OUTPUT_FOLDER, settings)
        link.send(Failed(problem=problem).model_dump(mode="json"))
    else:
        link.send(Succeeded(result=result).model_dump(mode="json"))


def _log_into(link: SupervisorLink, level: str) -> None:
    root = logging.getLogger()
    root.handlers = [link]
    root.setLevel(level)
