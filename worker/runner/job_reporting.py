"""Reports of a running job: its progress, in the record and as events, and its log, bounded."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from worker.process.scratch import remove_path
from worker.records.event_journal import EventJournal, event_time
from worker.records.job_record import Stage
from worker.records.job_store import Jobs
from worker.storage.identifiers import utc_now
from worker.storage.object_store import StoreUnavailableError
from worker.telemetry.logs import fields

_log = logging.getLogger(__name__)
_FLUSH_EVERY = 0.05  # seconds that an event may wait for others


class ProgressReporter:
    """Reports the progress of one attempt at a bounded rate. A failure to report does not fail the job.

    Args:
        job_id: the job.
        attempt: the attempt's number.
        jobs: records the progress.
        journal: receives the events: every stage that begins, and steps of a stage as often as they are recorded.
        interval: least seconds between two records.
    """

    def __init__(self, job_id: str, attempt: int, jobs: Jobs, journal: EventJournal, interval: float) -> None:
        self._job_id = job_id
        self._attempt = attempt
        self._jobs = jobs
        self._journal = journal
        self._interval = interval
        self._started = utc_now()
        self._pending: Stage | None = None
        self._reported: Stage | None = None
        self._written = self._flushed = 0.0
        self._record(None)
        journal.add("state", {"state": "running", "attempt": attempt, "time": event_time(self._started)})
        self._flush()

    def stage(self, stage: Stage | None) -> None:
        """Sets the current stage, and records the last one if the interval is over; None sets nothing."""
        if stage is not None:
            self._pending = stage
            if self._reported is None or self._reported.name != stage.name:
                self._report(stage)
        if time.monotonic() - self._written >= self._interval:
            self._report_pending()
        if time.monotonic() - self._flushed >= _FLUSH_EVERY:
            self._flush()

    def finish(self) -> None:
        """Records and publishes the last stage at the end of the attempt."""
        self._report_pending()
        self._flush()

    def _flush(self) -> None:
        self._journal.flush()
        self._flushed = time.monotonic()

    def _report_pending(self) -> None:
        if self._pending is not None:
            self._record(self._pending)
            self._report(self._pending)
            self._pending = None

    def line(self, line: str) -> None:
        """Adds an event of a line of the job's log."""
        self._journal.add("log", {"line": line})

    def _record(self, stage: Stage | None) -> None:
        self._written = time.monotonic()
        try:
            self._jobs.progress(self._job_id, self._attempt, self._started, stage)
        except StoreUnavailableError:
            _log.warning("the progress of job %s cannot be recorded", self._job_id, exc_info=True)

    def _report(self, stage: Stage) -> None:
        if stage != self._reported:
            self._journal.add("stage", {**stage.model_dump(), "time": event_time(utc_now())})
            self._reported = stage


_TAIL = 4096


class JobLog:
    """The log of one job.

    Attributes:
        tail: the last 4096 characters that it logged or wrote.

    Args:
        job_id: the job.
        most_bytes: the limit of all kept lines together.
        on_line: is called with every line that is kept.
    """

    def __init__(self, job_id: str, most_bytes: int, on_line: Callable[[str], None]) -> None:
        self._job_id = job_id
        self._left = most_bytes
        self._on_line = on_line
        self._lines: list[str] = []
        self._unfinished = b""
        self.tail = ""

    def add(self, level: int, text: str) -> None:
        """Adds a record that was logged at a level of ``logging``."""
        self._extend_tail(text)
        for line in text.splitlines():
            self._keep(level, f"{logging.getLevelName(level)} {line}")

    def add_output(self, data: bytes) -> None:
        """Adds bytes of standard output or error; empty bytes mark their end."""
        self._extend_tail(data.decode(errors="replace"))
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        if (not data and self._unfinished) or len(self._unfinished) > _TAIL:
            lines, self._unfinished = [*lines, self._unfinished], b""
        for line in lines:
            self._keep(logging.INFO, line.decode(errors="replace"))

    def _extend_tail(self, text: str) -> None:
        self.tail = (self.tail + text)[-_TAIL:]

    def _keep(self, level: int, line: str) -> None:
        if self._left <= 0:
            return
        stamped = f"{utc_now():%H:%M:%S.%f} {line}"
        self._left -= len(stamped.encode()) + 1
        if self._left <= 0:
            stamped = "and more, which is left out"
        _log.log(level, "job %s: %s", self._job_id, line, extra=fields(process="job"))
        self._lines.append(stamped)
        self._on_line(stamped)

    def save(self, directory: Path) -> None:
        """Writes ``log.txt`` into the directory, if any line was kept."""
        if self._lines:
            path = directory / "log.txt"
            remove_path(path)  # a link, perhaps
            path.write_text("\n".join(self._lines) + "\n", encoding="utf-8")
