"""Attending to the process of a job while it runs: its progress, its cache, its log, its limits.

The process may be in the hands of whoever wrote the model. So nothing here waits for it: every read and write takes
what there is, and the clock is looked at whatever it does. Nor does anything wait for the store
(``worker/runner/store_thread.py``): while the cache is asked, nothing further is read of what the process says.
"""

import os
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

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
    Frames,
    JobMessage,
    LogMessage,
    StageMessage,
    Succeeded,
    encode_frame,
    encode_inputs,
    parse_message,
)
from worker.runner.job_reporting import JobLog
from worker.runner.store_thread import StoreThread

_TICK = 0.1  # seconds between two looks at the clock
_MEASURE_EVERY = 1.0  # seconds between two looks at the disk
_LEAVE = 1.0  # seconds for a process to end once it has let go of the line
_CHUNK = 1 << 20


class MonitoredProcess(Protocol):
    """The process of a job; see :class:`worker.runner.job_process.JobProcess`, which whoever forked it has."""

    line: socket.socket
    written: int

    def poll(self) -> int | None: ...  # noqa: D102

    def kill(self) -> int: ...  # noqa: D102


@dataclass(frozen=True)
class JobOutcome:
    """How it went: a result, a problem, or how the process died; nothing of these where the job was ended elsewhere."""

    result: Summary | None = None
    problem: Problem | None = None
    death: str | None = None


class JobMonitor:
    """Attends to one process.

    Args:
        process: the process.
        scratch: its directory.
        settings: its limits.
        cache: what it may read and write through us.
        stage: is told how far the job is, and None every tick; from another thread, so that it may wait.
        log: takes what it logs.
        stopped: whether the job has been ended elsewhere.
    """

    def __init__(
        self,
        process: MonitoredProcess,
        scratch: Path,
        settings: Settings,
        *,
        cache: CacheStore,
        stage: Callable[[Stage | None], None],
        log: JobLog,
        stopped: Callable[[], bool],
    ) -> None:
        self._process = process
        self._scratch = scratch
        self._settings = settings
        self._aside = StoreThread(cache, stage)
        self._asked: CacheGet | CachePut | None = None
        self._found: deque[tuple[JobMessage, bytes]] = deque()
        self._log = log
        self._stopped = stopped
        self._frames = Frames(settings.max_cache_entry_bytes)
        self._outgoing = b""
        self._outcome: JobOutcome | None = None
        self._measured = time.monotonic()

    def follow(self, work: ModelJobInputs | ProgramJobInputs, deadline: float) -> JobOutcome:
        """Give it the work, and see it to its end: afterwards there is no such process.

        Args:
            work: what to do.
            deadline: the time of ``time.monotonic`` at which it must have ended.
        """
        self._outgoing = encode_frame(encode_inputs(work))
        self._process.line.setblocking(False)
        os.set_blocking(self._process.written, False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.line, selectors.EVENT_READ)
            selector.register(self._process.written, selectors.EVENT_READ)
            while self._outcome is None:
                self._choose_line(selector)
                ready = selector.select(_TICK)
                for key, _ in ready:
                    if key.fileobj is self._process.line:
                        self._line_ready()
                    elif key.fileobj is self._aside.line:
                        self._answered()
                    elif not self._read_written():
                        selector.unregister(self._process.written)
                self._look_at_limits(deadline)
        self._process.kill()
        self._aside.close()
        self._read_written()
        return self._of_memory(self._outcome)

    def _choose_line(self, selector: selectors.BaseSelector) -> None:
        """Wait for the process, or for the answer to what it asked."""
        line, other, wanted = self._process.line, self._aside.line, selectors.EVENT_READ
        if self._asked is not None:
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
        self._hear(self._frames.feed(data))
        if not data and self._outcome is None:
            self._outcome = self._left()

    def _hear(self, frames: Iterable[tuple[dict[str, Any], bytes]] = ()) -> None:
        """Heed what has been said, up to a question; what is after that is kept until it is answered."""
        try:
            for found in frames:
                self._found.append((parse_message(found), found[1]))
                self._heed()
            self._heed()
        except BrokenFrameError as error:
            self._outcome = JobOutcome(death=f"the process said what none of ours says: {error}")

    def _heed(self) -> None:
        while self._found and self._asked is None and self._outcome is None:
            self._heard(*self._found.popleft())

    def _answered(self) -> None:
        entry = self._aside.answer()
        if isinstance(self._asked, CacheGet):
            self._outgoing += encode_frame(CacheEntry(found=entry is not None).model_dump(), entry or b"")
        self._asked = None
        self._hear()

    def _send(self) -> None:
        try:
            self._outgoing = self._outgoing[self._process.line.send(self._outgoing) :]
        except BlockingIOError:
            return
        except OSError:  # it has let go of the line, and may have said why
            self._outgoing = b""

    def _heard(self, message: JobMessage, body: bytes) -> None:
        match message:
            case StageMessage():
                self._aside.note(message.stage)
            case LogMessage():
                self._log.add(message.level, message.text)
            case CacheGet():
                if self._outgoing:  # it has not read the last answer; those to all that it may ask are too much
                    raise BrokenFrameError("it asks twice at one time")
                self._asked = message
                self._aside.get(message.key)
            case CachePut():
                self._asked = message
                self._aside.put(message.key, body)
            case Succeeded():
                self._outcome = JobOutcome(result=message.result)
            case Failed():
                self._outcome = JobOutcome(problem=message.problem)

    def _read_written(self) -> bool:
        """Take what it wrote; False where it will write no more."""
        try:
            data = os.read(self._process.written, _CHUNK)
        except BlockingIOError:
            return True
        self._log.written(data)
        return bool(data)

    def _left(self) -> JobOutcome:
        """It has let go of the line without a word."""
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

    def _look_at_limits(self, deadline: float) -> None:
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

    def _of_memory(self, outcome: JobOutcome) -> JobOutcome:
        """Native code that gets no memory aborts, and says so in its last words."""
        if outcome.death is not None and is_out_of_memory(self._log.last_words):
            return JobOutcome(problem=memory_limit_problem(self._log.last_words.strip().splitlines()[-1]))
        return outcome


def time_limit_problem(how: str) -> Problem:
    """The problem of a job that took too long."""
    return problem("time-limit", "The job took longer than the limit.", f"{how}; see its last stage")
