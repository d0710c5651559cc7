"""What a running job reports: its progress, in the record and as events, and its log, bounded."""

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
    """Tells of one attempt, not too often. Nothing that fails here fails the job.

    Args:
        job_id: the job.
        attempt: the attempt's number.
        jobs: where its progress is recorded.
        journal: takes its events: every stage that begins, and steps within one no more often than they are recorded.
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
        self._told: Stage | None = None
        self._written = self._flushed = 0.0
        self._record(None)
        journal.add("state", {"state": "running", "attempt": attempt, "time": event_time(self._started)})
        self._flush()

    def stage(self, stage: Stage | None) -> None:
        """Take note of how far the job is, and record what was noted last once it is time; None: nothing new."""
        if stage is not None:
            self._pending = stage
            if self._told is None or self._told.name != stage.name:
                self._tell(stage)
        if time.monotonic() - self._written >= self._interval:
            self._catch_up()
        if time.monotonic() - self._flushed >= _FLUSH_EVERY:
            self._flush()

    def finish(self) -> None:
        """Record and tell what was noted last: the attempt is over."""
        self._catch_up()
        self._flush()

    def _flush(self) -> None:
        self._journal.flush()
        self._flushed = time.monotonic()

    def _catch_up(self) -> None:
        if self._pending is not None:
            self._record(self._pending)
            self._tell(self._pending)
            self._pending = None

    def line(self, line: str) -> None:
        """Tell of a line of the job's log."""
        self._journal.add("log", {"line": line})

    def _record(self, stage: Stage | None) -> None:
        self._written = time.monotonic()
        try:
            self._jobs.progress(self._job_id, self._attempt, self._started, stage)
        except StoreUnavailableError:
            _log.warning("the progress of job %s cannot be recorded", self._job_id, exc_info=True)

    def _tell(self, stage: Stage) -> None:
        if stage != self._told:
            self._journal.add("stage", {**stage.model_dump(), "time": event_time(utc_now())})
            self._told = stage


_LAST_WORDS = 4096


class JobLog:
    """The log of one job.

    Attributes:
        last_words: the end of all that it logged or wrote.

    Args:
        job_id: the job.
        most_bytes: the most that is kept.
        told: is told every line that is kept.
    """

    def __init__(self, job_id: str, most_bytes: int, told: Callable[[str], None]) -> None:
        self._job_id = job_id
        self._left = most_bytes
        self._told = told
        self._lines: list[str] = []
        self._unfinished = b""
        self.last_words = ""

    def add(self, level: int, text: str) -> None:
        """Keep what was logged at a level of ``logging``."""
        self._spoken(text)
        for line in text.splitlines():
            self._keep(level, f"{logging.getLevelName(level)} {line}")

    def written(self, data: bytes) -> None:
        """Keep what was written to standard output or error; no data at the end."""
        self._spoken(data.decode(errors="replace"))
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        if (not data and self._unfinished) or len(self._unfinished) > _LAST_WORDS:
            lines, self._unfinished = [*lines, self._unfinished], b""
        for line in lines:
            self._keep(logging.INFO, line.decode(errors="replace"))

    def _spoken(self, text: str) -> None:
        self.last_words = (self.last_words + text)[-_LAST_WORDS:]

    def _keep(self, level: int, line: str) -> None:
        if self._left <= 0:
            return
        stamped = f"{utc_now():%H:%M:%S.%f} {line}"
        self._left -= len(stamped.encode()) + 1
        if self._left <= 0:
            stamped = "and more, which is left out"
        _log.log(level, "job %s: %s", self._job_id, line, extra=fields(process="job"))
        self._lines.append(stamped)
        self._told(stamped)

    def save(self, directory: Path) -> None:
        """Write ``log.txt`` into the directory, if there is anything to write."""
        if self._lines:
            path = directory / "log.txt"
            remove_path(path)  # a link, perhaps
            path.write_text("\n".join(self._lines) + "\n", encoding="utf-8")
