"""Monitoring of a job's process while it runs: progress, cache, log and limits.

The process may be controlled by the author of the model. So every read and write is non-blocking, and limits are
checked whatever it does. The store may hang too: it is used from another thread (:class:`StoreThread`),
and during a request to the cache no further messages are read.
"""

import contextvars
import logging
import os
import selectors
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from accel.isa.family import KernelProvider
from accel.util.content_cache import CacheStore
from worker.config.settings import Settings
from worker.execution.job_failure import is_out_of_memory, memory_limit_problem
from worker.execution.job_inputs import ModelJobInputs, ProgramJobInputs
from worker.process.children import death_reason
from worker.records.job_record import Stage, Summary
from worker.records.problem_details import Problem, problem
from worker.runner.job_outputs import OutputLimitError, check_outputs
from worker.runner.job_process import OUT_OF_MEMORY_STATUS, OUTPUT_FOLDER
from worker.runner.job_protocol import (
    BrokenFrameError,
    CacheEntry,
    CacheGet,
    CachePut,
    Failed,
    FamilyRequest,
    Frames,
    JobMessage,
    KernelRequest,
    LogMessage,
    Request,
    StageMessage,
    Succeeded,
    encode_frame,
    encode_inputs,
    parse_message,
)
from worker.runner.job_reporting import JobLog

_log = logging.getLogger(__name__)
_TICK = 0.1  # seconds between two checks of the clock, and between two calls that record the stage
_JOIN_SECONDS = 1.0  # that the store's thread is waited for at the end
_MOST_STAGES = 200  # that wait to be recorded; after these, the last one replaces the one before
_MEASURE_EVERY = 1.0  # seconds between two looks at the disk
_LEAVE = 1.0  # seconds for a process to end once it has let go of the line
_CHUNK = 1 << 20


class StoreThread:
    """Blocking calls of the store and Redis for the monitor's loop, made in a thread.

    The loop passes stages, and one request to the cache at a time. A store that hangs blocks this thread, and not the
    loop.

    Args:
        cache: the cache that the job reads and writes.
        kernels: compiles for the job.
        stage: is called with each stage, and with None at every tick.

    Attributes:
        line: is readable once a request has been answered.
    """

    def __init__(self, cache: CacheStore, kernels: KernelProvider, stage: Callable[[Stage | None], None]) -> None:
        self._cache = cache
        self._kernels = kernels
        self._stage = stage
        self._changed = threading.Condition()
        self._stages: list[Stage] = []
        self._question: Callable[[], bytes | None] | None = None
        self._answer: bytes | None = None
        self._closed = False
        self.line, self._theirs = socket.socketpair()
        run = contextvars.copy_context().run  # it logs as who started it
        self._thread = threading.Thread(target=run, args=(self._work,), name="store", daemon=True)
        self._thread.start()

    def report_stage(self, stage: Stage) -> None:
        """Queues a stage to be recorded; of many steps of one stage, the last."""
        with self._changed:
            if self._stages and (self._stages[-1].name == stage.name or len(self._stages) >= _MOST_STAGES):
                self._stages.pop()
            self._stages.append(stage)
            self._changed.notify()

    def handle(self, request: Request, body: bytes) -> None:
        """Requests what a job's process has asked for."""
        match request:
            case CacheGet():
                self._ask(lambda: self._cache.get(request.key))
            case CachePut():
                self._ask(lambda: self._cache.put(request.key, body))
            case FamilyRequest():
                self._ask(lambda: self._kernels.prepare_family(request.family))
            case KernelRequest():
                self._ask(lambda: self._kernels.kernel_code(request.family, body.decode()))

    def _ask(self, question: Callable[[], bytes | None]) -> None:
        with self._changed:
            self._question = question
            self._changed.notify()

    def answer(self) -> bytes | None:
        """Returns the entry, or None, once :attr:`line` is readable."""
        self.line.recv(1)
        return self._answer

    def close(self) -> None:
        """Records the queued stages and ends the thread; a thread that hangs in the store is abandoned."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(_JOIN_SECONDS)
        self._stages.clear()
        self.line.close()

    def _work(self) -> None:
        with self._theirs:
            while not self._closed or self._stages:
                with self._changed:
                    if not (self._stages or self._question or self._closed):
                        self._changed.wait(_TICK)
                    stages, self._stages = self._stages, []
                    question, self._question = self._question, None
                for stage in [*stages, None]:
                    self._guarded(lambda each=stage: self._stage(each))  # type: ignore[misc]
                if question is not None:
                    self._answer = self._guarded(question)
                    self._guarded(lambda: self._theirs.sendall(b"."))

    def _guarded(self, action: Callable[[], bytes | None]) -> bytes | None:
        try:
            return action()
        except Exception as error:  # noqa: BLE001 - neither the cache nor a record decides what becomes of the job
            if not self._closed:
                _log.warning("beside the job: %s", error, exc_info=not isinstance(error, OSError))
            return None


class MonitoredProcess(Protocol):
    """The process of a job: a :class:`worker.runner.job_process.JobProcess`, or a proxy of one."""

    line: socket.socket
    output: int

    def poll(self) -> int | None: ...  # noqa: D102

    def kill(self) -> int: ...  # noqa: D102


@dataclass(frozen=True)
class JobOutcome:
    """A result, a problem, or the reason of the process's death; all None if the job was ended elsewhere."""

    result: Summary | None = None
    problem: Problem | None = None
    death: str | None = None


class JobMonitor:
    """Monitors one process.

    Args:
        process: the process.
        scratch: its directory.
        settings: its limits.
        cache: the cache that it reads and writes through the monitor.
        kernels: compiles for it what it may not keep itself.
        stage: is called with each stage, and with None every tick; from another thread, so that it may block.
        log: receives the lines that it logs.
        stopped: returns whether the job has been ended elsewhere.
    """

    def __init__(
        self,
        process: MonitoredProcess,
        scratch: Path,
        settings: Settings,
        *,
        cache: CacheStore,
        kernels: KernelProvider,
        stage: Callable[[Stage | None], None],
        log: JobLog,
        stopped: Callable[[], bool],
    ) -> None:
        self._process = process
        self._scratch = scratch
        self._settings = settings
        self._store_thread = StoreThread(cache, kernels, stage)
        self._request: Request | None = None
        self._messages: deque[tuple[JobMessage, bytes]] = deque()
        self._log = log
        self._stopped = stopped
        self._frames = Frames(settings.max_cache_entry_bytes)
        self._outgoing = memoryview(b"")  # of which a part is cut off without a copy of the rest
        self._outcome: JobOutcome | None = None
        self._measured = time.monotonic()

    def run(self, work: ModelJobInputs | ProgramJobInputs, deadline: float) -> JobOutcome:
        """Sends the process its inputs, monitors it, and ends it: afterwards the process is gone.

        Args:
            work: the job's inputs.
            deadline: the ``time.monotonic`` at which the process is ended.
        """
        self._outgoing = memoryview(encode_frame(encode_inputs(work)))
        self._process.line.setblocking(False)
        os.set_blocking(self._process.output, False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.line, selectors.EVENT_READ)
            selector.register(self._process.output, selectors.EVENT_READ)
            while self._outcome is None:
                self._select_line(selector)
                ready = selector.select(_TICK)
                for key, _ in ready:
                    if key.fileobj is self._process.line:
                        self._line_ready()
                    elif key.fileobj is self._store_thread.line:
                        self._answered()
                    elif not self._read_output():
                        selector.unregister(self._process.output)
                self._check_limits(deadline)
        self._process.kill()
        self._store_thread.close()
        self._read_output()
        return self._memory_outcome(self._outcome)

    def _select_line(self, selector: selectors.BaseSelector) -> None:
        """Selects the process's line or, during a request to the cache, the line of the store's thread."""
        line, other, wanted = self._process.line, self._store_thread.line, selectors.EVENT_READ
        if self._request is not None:
            line, other = other, line
        elif self._outgoing:
            wanted = selectors.EVENT_WRITE
        if other in selector.get_map():
            selector.unregister(other)
            selector.register(line, wanted)
        else:
            selector.modify(line, wanted)

    def _line_ready(self) -> None:
        if self._outgoing:
            self._send()
            return
        try:
            data = self._process.line.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._receive(self._frames.feed(data))
        if not data and self._outcome is None:
            self._outcome = self._hung_up()

    def _receive(self, frames: Iterable[tuple[dict[str, Any], bytes]] = ()) -> None:
        """Queues messages, and handles them up to a request to the cache."""
        try:
            for found in frames:
                self._messages.append((parse_message(found), found[1]))
                self._handle_messages()
            self._handle_messages()
        except BrokenFrameError as error:
            self._outcome = JobOutcome(death=f"the process sent an invalid message: {error}")

    def _handle_messages(self) -> None:
        while self._messages and self._request is None and self._outcome is None:
            self._handle(*self._messages.popleft())

    def _answered(self) -> None:
        entry = self._store_thread.answer()
        if not isinstance(self._request, CachePut):
            answer = encode_frame(CacheEntry(found=entry is not None).model_dump(), entry or b"")
            self._outgoing = memoryview(bytes(self._outgoing) + answer)
        self._request = None
        self._receive()

    def _send(self) -> None:
        try:
            self._outgoing = self._outgoing[self._process.line.send(self._outgoing) :]
        except BlockingIOError:
            return
        except OSError:  # it has let go of the line, and may have said why
            self._outgoing = memoryview(b"")

    def _handle(self, message: JobMessage, body: bytes) -> None:
        match message:
            case StageMessage():
                self._store_thread.report_stage(message.stage)
            case LogMessage():
                self._log.add(message.level, message.text)
            case CacheGet() | CachePut() | FamilyRequest() | KernelRequest():
                # it has not read the last answer; those to all that it may ask are too much
                if self._outgoing and not isinstance(message, CachePut):
                    raise BrokenFrameError("it asks twice at one time")
                self._request = message
                self._store_thread.handle(message, body)
            case Succeeded():
                self._outcome = JobOutcome(result=message.result)
            case Failed():
                self._outcome = JobOutcome(problem=message.problem)

    def _read_output(self) -> bool:
        """Reads what the process wrote; returns False at the end of file."""
        try:
            data = os.read(self._process.output, _CHUNK)
        except BlockingIOError:
            return True
        self._log.add_output(data)
        return bool(data)

    def _hung_up(self) -> JobOutcome:
        """Returns the outcome of a process that closed its line without a result."""
        deadline = time.monotonic() + _LEAVE
        while (status := self._process.poll()) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if status is None:
            return JobOutcome(death="the process hung up and went on")
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
            return JobOutcome(
                problem=time_limit_problem(f"it used its {self._settings.job_cpu_seconds} s of processor time")
            )
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == OUT_OF_MEMORY_STATUS:
            return JobOutcome(problem=memory_limit_problem("out of memory"))
        return JobOutcome(death=death_reason(status))

    def _check_limits(self, deadline: float) -> None:
        if self._outcome is not None:
            return
        if self._stopped():
            self._outcome = JobOutcome()
        elif time.monotonic() > deadline:
            self._outcome = JobOutcome(problem=time_limit_problem(f"it ran for {self._settings.job_seconds} s"))
        elif time.monotonic() > self._measured + _MEASURE_EVERY:
            try:
                check_outputs(self._scratch, self._settings.job_scratch_bytes)
                check_outputs(self._scratch / OUTPUT_FOLDER, self._settings.job_output_bytes)
            except OutputLimitError as error:
                self._outcome = JobOutcome(problem=error.problem)
            self._measured = time.monotonic()

    def _memory_outcome(self, outcome: JobOutcome) -> JobOutcome:
        """Turns a death into a memory-limit problem if the output ends so: native code aborts without memory."""
        if outcome.death is not None and is_out_of_memory(self._log.tail):
            return JobOutcome(problem=memory_limit_problem(self._log.tail.strip().splitlines()[-1]))
        return outcome


def time_limit_problem(how: str) -> Problem:
    """Returns the problem of a job that took too long."""
    return problem("time-limit", "The job took longer than the limit.", f"{how}; see its last stage")
