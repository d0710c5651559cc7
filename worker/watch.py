"""Attending to the process of a job while it runs: its progress, its cache, its log, its limits.

The process may be in the hands of whoever wrote the model. So nothing here waits for it: every read and write takes
what there is, and the clock is looked at whatever it does. Nor does anything wait for the store (``worker/aside.py``):
while the cache is asked, nothing further is read of what the process says.
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

from accel.cache import Cache
from worker.aside import Aside
from worker.exits import death_reason
from worker.failure import memory_limit, out_of_memory
from worker.frames import BrokenFrameError, Frames, frame
from worker.job_log import JobLog
from worker.job_process import NO_MEMORY, OUT
from worker.job_record import Stage, Summary
from worker.messages import Entry, Failed, Get, Line, Progress, Put, Said, Succeeded, said, work_document
from worker.outputs import OutputLimitError, check_outputs
from worker.problem import Problem, problem
from worker.settings import Settings
from worker.work import ProgramWork, Work

_TICK = 0.1  # seconds between two looks at the clock
_MEASURE_EVERY = 1.0  # seconds between two looks at the disk
_LEAVE = 1.0  # seconds for a process to end once it has let go of the line
_CHUNK = 1 << 20


class Process(Protocol):
    """The process of a job; see :class:`worker.job_process.JobProcess`, which whoever forked it has."""

    line: socket.socket
    written: int

    def poll(self) -> int | None: ...  # noqa: D102

    def kill(self) -> int: ...  # noqa: D102


@dataclass(frozen=True)
class Outcome:
    """How it went: a result, a problem, or how the process died; nothing of these where the job was ended elsewhere."""

    result: Summary | None = None
    problem: Problem | None = None
    death: str | None = None


class Watch:
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
        process: Process,
        scratch: Path,
        settings: Settings,
        *,
        cache: Cache,
        stage: Callable[[Stage | None], None],
        log: JobLog,
        stopped: Callable[[], bool],
    ) -> None:
        self._process = process
        self._scratch = scratch
        self._settings = settings
        self._aside = Aside(cache, stage)
        self._asked: Get | Put | None = None
        self._found: deque[tuple[Said, bytes]] = deque()
        self._log = log
        self._stopped = stopped
        self._frames = Frames(settings.max_cache_entry_bytes)
        self._outgoing = b""
        self._outcome: Outcome | None = None
        self._measured = time.monotonic()

    def follow(self, work: Work | ProgramWork, deadline: float) -> Outcome:
        """Give it the work, and see it to its end: afterwards there is no such process.

        Args:
            work: what to do.
            deadline: the time of ``time.monotonic`` at which it must have ended.
        """
        self._outgoing = frame(work_document(work))
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
                self._found.append((said(found), found[1]))
                self._heed()
            self._heed()
        except BrokenFrameError as error:
            self._outcome = Outcome(death=f"the process said what none of ours says: {error}")

    def _heed(self) -> None:
        while self._found and self._asked is None and self._outcome is None:
            self._heard(*self._found.popleft())

    def _answered(self) -> None:
        entry = self._aside.answer()
        if isinstance(self._asked, Get):
            self._outgoing += frame(Entry(found=entry is not None).model_dump(), entry or b"")
        self._asked = None
        self._hear()

    def _send(self) -> None:
        try:
            self._outgoing = self._outgoing[self._process.line.send(self._outgoing) :]
        except BlockingIOError:
            return
        except OSError:  # it has let go of the line, and may have said why
            self._outgoing = b""

    def _heard(self, message: Said, body: bytes) -> None:
        match message:
            case Progress():
                self._aside.note(message.stage)
            case Line():
                self._log.add(message.level, message.text)
            case Get():
                if self._outgoing:  # it has not read the last answer; those to all that it may ask are too much
                    raise BrokenFrameError("it asks twice at one time")
                self._asked = message
                self._aside.get(message.key)
            case Put():
                self._asked = message
                self._aside.put(message.key, body)
            case Succeeded():
                self._outcome = Outcome(result=message.result)
            case Failed():
                self._outcome = Outcome(problem=message.problem)

    def _read_written(self) -> bool:
        """Take what it wrote; False where it will write no more."""
        try:
            data = os.read(self._process.written, _CHUNK)
        except BlockingIOError:
            return True
        self._log.written(data)
        return bool(data)

    def _left(self) -> Outcome:
        """It has let go of the line without a word."""
        deadline = time.monotonic() + _LEAVE
        while (status := self._process.poll()) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if status is None:
            return Outcome(death="the process hung up and went on")
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
            return Outcome(problem=time_limit(f"it used its {self._settings.job_cpu_seconds} s of processor time"))
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == NO_MEMORY:
            return Outcome(problem=memory_limit("out of memory"))
        return Outcome(death=death_reason(status))

    def _look_at_limits(self, deadline: float) -> None:
        if self._outcome is not None:
            return
        if self._stopped():
            self._outcome = Outcome()
        elif time.monotonic() > deadline:
            self._outcome = Outcome(problem=time_limit(f"it ran for {self._settings.job_seconds} s"))
        elif time.monotonic() > self._measured + _MEASURE_EVERY:
            try:
                check_outputs(self._scratch, self._settings.job_scratch_bytes)
                check_outputs(self._scratch / OUT, self._settings.job_output_bytes)
            except OutputLimitError as error:
                self._outcome = Outcome(problem=error.problem)
            self._measured = time.monotonic()

    def _of_memory(self, outcome: Outcome) -> Outcome:
        """Native code that gets no memory aborts, and says so in its last words."""
        if outcome.death is not None and out_of_memory(self._log.last_words):
            return Outcome(problem=memory_limit(self._log.last_words.strip().splitlines()[-1]))
        return outcome


def time_limit(how: str) -> Problem:
    """The problem of a job that took too long."""
    return problem("time-limit", "The job took longer than the limit.", f"{how}; see its last stage")
