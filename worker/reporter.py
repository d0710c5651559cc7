"""What a running job tells: its progress, in the record and as events."""

import logging
import time

from worker.job_record import Stage, now
from worker.jobs import Jobs
from worker.journal import Journal, stamp
from worker.store import StoreUnavailableError

_log = logging.getLogger(__name__)
_FLUSH_EVERY = 0.05  # seconds that an event may wait for others


class Reporter:
    """Tells of one attempt, not too often. Nothing that fails here fails the job.

    Args:
        job_id: the job.
        attempt: the attempt's number.
        jobs: where its progress is recorded.
        journal: takes its events: every stage that begins, and steps within one no more often than they are recorded.
        interval: least seconds between two records.
    """

    def __init__(self, job_id: str, attempt: int, jobs: Jobs, journal: Journal, interval: float) -> None:
        self._job_id = job_id
        self._attempt = attempt
        self._jobs = jobs
        self._journal = journal
        self._interval = interval
        self._started = now()
        self._pending: Stage | None = None
        self._told: Stage | None = None
        self._written = self._flushed = 0.0
        self._record(None)
        journal.add("state", {"state": "running", "attempt": attempt, "time": stamp(self._started)})
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
            self._journal.add("stage", {**stage.model_dump(), "time": stamp(now())})
            self._told = stage
