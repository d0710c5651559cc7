"""The task: one job, from its record to its artifacts, as the process that attends to it does it.

It touches nothing of a user's itself: it fetches what the job needs, attends to the process that does the job
(``worker/job_process.py``), publishes what that one left, and writes how the job ended, once.
"""

import contextlib
import logging
import socket
from pathlib import Path

import redis
from opentelemetry.trace import Tracer

from worker.account import Account
from worker.answers import Answers
from worker.artifacts import discard, publish
from worker.assignment import Assignment, HeldProcess
from worker.attempts import Attempt, Attempts
from worker.cache import StoreCache
from worker.failure import failure
from worker.fetch import fetch
from worker.job_log import JobLog
from worker.job_process import OUT
from worker.job_record import Job, Stage, Summary, now
from worker.jobs import Jobs
from worker.journal import Journal
from worker.lease import Lease
from worker.outages import patiently
from worker.outputs import OutputLimitError, check_outputs, output_files, own_directory
from worker.problem import Problem
from worker.queue import JobQueue
from worker.reporter import Reporter
from worker.settings import Settings
from worker.store import Store, StoreUnavailableError
from worker.tracing import job_tracer
from worker.watch import Outcome, Watch

_log = logging.getLogger(__name__)
# what events may take: their lines of the log, more than once where they have to be escaped, and the stages
_EVENTS_SHARE = 2
_EVENTS_BYTES = 64 << 10


def run_job(
    assignment: Assignment,
    process: HeldProcess,
    settings: Settings,
    *,
    store: Store,
    answers: Answers,
    queue: JobQueue,
) -> None:
    """Run the job, and end its record, unless its process died and may be given another attempt.

    Args:
        assignment: the job; what is none, or has ended, is passed over.
        process: the job's.
        settings: the settings.
        store: the store.
        answers: the store's.
        queue: the queue, over a Redis connection that fails soon where there is none.
    """
    with job_tracer() as tracer:
        attendant = _Attendant(assignment, settings, store, answers, queue, tracer)
        attendant.attend(process, Path(assignment.scratch), assignment.begun + settings.job_seconds)


class _Attendant:
    """Attends to one job."""

    def __init__(
        self,
        assignment: Assignment,
        settings: Settings,
        store: Store,
        answers: Answers,
        queue: JobQueue,
        tracer: Tracer | None,
    ) -> None:
        self._job_id, self._token, self._worker = assignment.job_id, assignment.token, assignment.worker
        self._settings = settings
        self._store = store
        self._jobs = Jobs(store, queue.index)
        self._job: Job | None = None
        self._answers = answers
        self._queue = queue
        self._account = Account(self._job_id, queue.name, queue.connection, tracer)

    def attend(self, process: HeldProcess, scratch: Path, deadline: float) -> None:
        """Run the job in ``process``, if it is to be run."""
        if not self._jobs.runnable(self._job_id):
            with contextlib.suppress(redis.RedisError):
                self._queue.forget(self._job_id)
            return
        lease = Lease(self._queue.connection, self._job_id, self._token, lambda: self._jobs.ended(self._job_id))
        if not lease.take():
            _log.warning("job %s is run by another process", self._job_id)
            with contextlib.suppress(redis.RedisError):  # should that one die, the job is found in the store
                self._queue.forget(self._job_id)
            return
        with contextlib.suppress(redis.RedisError):  # the reconciler would see to it
            self._queue.waiting.leave(self._job_id)
        with lease, self._account:
            pause = self._run(process, scratch, deadline, lease)
        with contextlib.suppress(redis.RedisError):  # what is lost so is found in the store
            self._queue.forget(self._job_id)
            if pause is not None:
                self._queue.rest(self._job_id, pause)

    def _run(self, process: HeldProcess, scratch: Path, deadline: float, lease: Lease) -> float | None:
        """Run an attempt; gives the seconds until the next one if there is to be one."""
        if self._jobs.ended(self._job_id):  # just before the lease was ours
            return None
        attempts = Attempts(self._store, self._job_id)
        number = attempts.begin(
            Attempt(started=now(), host=socket.gethostname(), worker=self._worker, token=self._token)
        )
        if number is None:
            problem = attempts.lost()
            if self._jobs.fail(self._job_id, problem):
                self._account.gave_up(problem)
            self._tell_end()
            return None
        self._account.begin(number)
        journal = Journal(
            self._job_id, number, self._queue.connection, _EVENTS_SHARE * self._settings.job_log_bytes + _EVENTS_BYTES
        )
        outcome = self._outcome(number, process, scratch, deadline, lease, journal)
        if outcome.death is not None:
            _log.error("job %s, attempt %d: %s", self._job_id, number, outcome.death)
            self._account.died(outcome.death)
            pause = patiently(lambda: attempts.died(self._token, str(outcome.death)))
            patiently(lambda: self._jobs.wait_again(self._job_id))
            with contextlib.suppress(redis.RedisError):  # who follows hears of the next attempt
                self._queue.tell_waits(self._job_id, number)
            return pause
        self._end(number, outcome, scratch / OUT, journal)
        return None

    def _outcome(
        self, number: int, process: HeldProcess, scratch: Path, deadline: float, lease: Lease, journal: Journal
    ) -> Outcome:
        reporter = Reporter(self._job_id, number, self._jobs, journal, self._settings.progress_seconds)
        log = JobLog(self._job_id, self._settings.job_log_bytes, reporter.line)
        try:
            self._job = job = patiently(lambda: self._jobs.get(self._job_id))
            self._account.trace(job.origin)
            with self._account.own_stage("fetch"):
                work = patiently(lambda: fetch(job, scratch, self._store, job.document))
        except StoreUnavailableError as error:
            return Outcome(death=f"the store stayed away: {error}")
        except Exception as error:  # noqa: BLE001 - the job must end with a reason
            problem = failure(error)
            if problem.incident is not None:
                _log.exception("incident %s: job %s: its inputs could not be fetched", problem.incident, self._job_id)
            return Outcome(problem=problem)
        watch = Watch(
            process,
            scratch,
            self._settings,
            cache=self._account.counting(StoreCache(self._store, self._settings.max_cache_entry_bytes, job.owner)),
            stage=lambda stage: self._noted(stage, reporter),
            log=log,
            stopped=lease.stopped,
        )
        outcome = watch.follow(work, deadline)
        reporter.finish()
        own_directory(scratch / OUT)
        log.save(scratch / OUT)
        journal.save(scratch / OUT)
        return outcome

    def _noted(self, stage: Stage | None, reporter: Reporter) -> None:
        self._account.stage(stage)
        reporter.stage(stage)

    def _end(self, number: int, outcome: Outcome, out: Path, journal: Journal) -> None:
        """Publish the files and write the end; where the job has ended meanwhile, nothing is left of them."""
        problem, ours = outcome.problem, False
        if problem is not None or outcome.result is not None:
            try:
                check_outputs(out, self._settings.job_output_bytes)
                files = output_files(out)  # once: one that is published has two names, and would be no output any more
                with self._account.own_stage("publish"):
                    patiently(lambda: publish(self._store, self._job_id, number, files))
            except OutputLimitError as error:
                problem = error.problem
            ours = patiently(lambda: self._record_end(number, problem, outcome.result))
        self._tell_end(journal.last)
        # where an answer of the store got lost, the end may be ours although it was there when we wrote it again
        if ours or patiently(lambda: self._ended_by(number)):
            self._account.ended(problem)
        else:
            self._account.ended_elsewhere()
            patiently(lambda: discard(self._store, self._job_id, number))

    def _record_end(self, number: int, problem: Problem | None, result: Summary | None) -> bool:
        """Whether the job had not ended before."""
        if problem is not None:
            return self._jobs.fail(self._job_id, problem, number)
        assert result is not None
        ended = self._jobs.succeed(self._job_id, number, result)
        if ended or self._ended_by(number):
            self._remember(number)
        return ended

    def _remember(self, number: int) -> None:
        """Have the job, which has succeeded, answer whoever asks the same again; without it they only wait."""
        assert self._job is not None
        with contextlib.suppress(StoreUnavailableError, KeyError):
            self._answers.remember(self._job.model_copy(update={"attempt": number}))

    def _tell_end(self, last: str | None = None) -> None:
        with contextlib.suppress(redis.RedisError):  # who waits for it looks at the store too
            self._queue.tell_end(self._job_id, last)

    def _ended_by(self, number: int) -> bool:
        try:
            return self._jobs.get(self._job_id).attempt == number
        except KeyError:  # nobody was told of it
            return False
