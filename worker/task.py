"""The task: one job, from its record to its artifacts, as a worker's forked process does it."""

import logging
import shutil
import time
from pathlib import Path

from rq.timeouts import JobTimeoutException

from accel.errors import CyclopsError
from worker.artifacts import publish
from worker.execute import execute
from worker.fetch import fetch
from worker.jobs import Job, Jobs, Stage, now
from worker.problem import Problem, problem, problem_of
from worker.settings import Settings
from worker.store import Store

_log = logging.getLogger(__name__)
_TIMER_SLACK = 0.1  # RQ's timer starts a little before ours


class _CanceledError(Exception):
    """The job was ended by somebody else while it ran."""


def run_job(job_id: str) -> None:
    """Run the job under this process's limits, and end its record whatever happens.

    The settings come from the environment, not from the message, which anybody at Redis could have written.
    """
    begin = time.monotonic()
    settings = Settings()
    store = Store(settings.store_dir)
    jobs = Jobs(store)
    job = jobs.get(job_id)
    if job.ended:
        return
    scratch = settings.scratch_dir / f"job-{job_id}"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        _run(job, scratch, settings, begin, store, jobs)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _run(job: Job, scratch: Path, settings: Settings, begin: float, store: Store, jobs: Jobs) -> None:
    out = scratch / "out"
    out.mkdir()
    reporter = _Reporter(job.id, jobs, settings.progress_seconds)
    try:
        summary = execute(fetch(job, scratch, store), out, settings, reporter)
        publish(store, job.id, out)
    except _CanceledError:
        return
    except Exception as error:  # noqa: BLE001 - whatever it is, the job must end with a reason
        late = time.monotonic() - begin > settings.job_seconds - _TIMER_SLACK
        publish(store, job.id, out)
        jobs.fail(job.id, _failure(job.id, error, late=late))
    else:
        jobs.succeed(job.id, summary)


def _failure(job_id: str, error: Exception, *, late: bool) -> Problem:
    """The problem that ended a job. ``late``: its time was over, whatever native code made of RQ's exception."""
    if late or isinstance(error, JobTimeoutException):
        _log.info("job %s reached the time limit", job_id)
        return problem("time-limit", "The job took longer than the limit.", "the job was stopped; see its last stage")
    if isinstance(error, CyclopsError):
        _log.info("job %s failed: %s", job_id, error)
        return problem_of(error)
    _log.error("job %s failed", job_id, exc_info=error)
    if isinstance(error, MemoryError):
        return problem("memory-limit", "The job needed more memory than the limit.", str(error) or "out of memory")
    return problem("internal-error", "Something went wrong on our side.", f"{type(error).__name__}: {error}")


class _Reporter:
    """Writes progress into the job's record: every new stage, and steps within one not too often."""

    def __init__(self, job_id: str, jobs: Jobs, interval: float) -> None:
        self._job_id = job_id
        self._jobs = jobs
        self._interval = interval
        self._started = now()
        self._stage = ""
        self._written = time.monotonic()
        jobs.progress(job_id, self._started, None)

    def __call__(self, stage: Stage) -> None:
        """Record the stage; _CanceledError if the job has been ended meanwhile."""
        if stage.name == self._stage and time.monotonic() - self._written < self._interval:
            return
        if self._jobs.ended(self._job_id):
            raise _CanceledError
        self._jobs.progress(self._job_id, self._started, stage)
        self._stage = stage.name
        self._written = time.monotonic()
