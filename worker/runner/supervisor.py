"""The supervisor: takes one job after the other from its record to its artifacts.

It touches nothing of a user's itself: it fetches what the job needs, monitors the process that does the job
(``worker/runner/job_process.py``), publishes what that one left, and writes how the job ended, once.
"""

import contextlib
import logging
import socket
from pathlib import Path

import redis
from opentelemetry.trace import Tracer

from worker.config.settings import Settings
from worker.execution.job_failure import failure_problem
from worker.execution.job_inputs import fetch_inputs
from worker.process.children import set_process_name
from worker.queue.job_queue import JobQueue, open_impatient_queue
from worker.queue.lease import Lease
from worker.records.accelerator_store import Accelerators
from worker.records.attempts import Attempt, Attempts
from worker.records.event_journal import EventJournal
from worker.records.job_artifacts import discard, publish
from worker.records.job_record import Job, Stage, Summary
from worker.records.job_store import Jobs
from worker.records.problem_details import Problem
from worker.records.result_cache import ResultCache
from worker.runner.attempt_telemetry import AttemptTelemetry
from worker.runner.job_monitor import JobMonitor, JobOutcome
from worker.runner.job_outputs import OutputLimitError, check_outputs, ensure_real_directory, output_files
from worker.runner.job_process import OUTPUT_FOLDER
from worker.runner.job_reporting import JobLog, ProgressReporter
from worker.runner.supervisor_process import DONE, Assignment, JobProcessProxy, receive_assignment
from worker.storage.compiler_cache import StoreCache
from worker.storage.connections import open_store
from worker.storage.identifiers import utc_now
from worker.storage.object_store import Store, StoreUnavailableError, retry_while_away
from worker.telemetry import logs
from worker.telemetry.tracing import job_tracer

_log = logging.getLogger(__name__)
# what events may take: their lines of the log, more than once where they have to be escaped, and the stages
_EVENTS_SHARE = 2
_EVENTS_BYTES = 64 << 10


def supervise_job(
    assignment: Assignment,
    process: JobProcessProxy,
    settings: Settings,
    *,
    store: Store,
    answers: ResultCache,
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
        attendant = _JobSupervision(assignment, settings, store, answers, queue, tracer)
        attendant.attend(process, Path(assignment.scratch), assignment.begun + settings.job_seconds)


class _JobSupervision:
    """Attends to one job."""

    def __init__(
        self,
        assignment: Assignment,
        settings: Settings,
        store: Store,
        answers: ResultCache,
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
        self._account = AttemptTelemetry(self._job_id, queue.name, queue.connection, tracer)

    def attend(self, process: JobProcessProxy, scratch: Path, deadline: float) -> None:
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

    def _run(self, process: JobProcessProxy, scratch: Path, deadline: float, lease: Lease) -> float | None:
        """Run an attempt; gives the seconds until the next one if there is to be one."""
        if self._jobs.ended(self._job_id):  # just before the lease was ours
            return None
        attempts = Attempts(self._store, self._job_id)
        number = attempts.begin(
            Attempt(started=utc_now(), host=socket.gethostname(), worker=self._worker, token=self._token)
        )
        if number is None:
            problem = attempts.lost()
            if self._jobs.fail(self._job_id, problem):
                self._account.gave_up(problem)
            self._tell_end()
            return None
        self._account.begin(number)
        journal = EventJournal(
            self._job_id, number, self._queue.connection, _EVENTS_SHARE * self._settings.job_log_bytes + _EVENTS_BYTES
        )
        outcome = self._outcome(number, process, scratch, deadline, lease, journal)
        if outcome.death is not None:
            _log.error("job %s, attempt %d: %s", self._job_id, number, outcome.death)
            self._account.died(outcome.death)
            pause = retry_while_away(lambda: attempts.died(self._token, str(outcome.death)))
            retry_while_away(lambda: self._jobs.wait_again(self._job_id))
            with contextlib.suppress(redis.RedisError):  # who follows hears of the next attempt
                self._queue.tell_waits(self._job_id, number)
            return pause
        self._end(number, outcome, scratch / OUTPUT_FOLDER, journal)
        return None

    def _outcome(
        self, number: int, process: JobProcessProxy, scratch: Path, deadline: float, lease: Lease, journal: EventJournal
    ) -> JobOutcome:
        reporter = ProgressReporter(self._job_id, number, self._jobs, journal, self._settings.progress_seconds)
        log = JobLog(self._job_id, self._settings.job_log_bytes, reporter.line)
        try:
            self._job = job = retry_while_away(lambda: self._jobs.get(self._job_id))
            self._account.trace(job.origin)
            with self._account.own_stage("fetch"):
                work = retry_while_away(lambda: fetch_inputs(job, scratch, self._store, job.document))
        except StoreUnavailableError as error:
            return JobOutcome(death=f"the store stayed away: {error}")
        except Exception as error:  # noqa: BLE001 - the job must end with a reason
            problem = failure_problem(error)
            if problem.incident is not None:
                _log.exception("incident %s: job %s: its inputs could not be fetched", problem.incident, self._job_id)
            return JobOutcome(problem=problem)
        watch = JobMonitor(
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
        ensure_real_directory(scratch / OUTPUT_FOLDER)
        log.save(scratch / OUTPUT_FOLDER)
        journal.save(scratch / OUTPUT_FOLDER)
        return outcome

    def _noted(self, stage: Stage | None, reporter: ProgressReporter) -> None:
        self._account.stage(stage)
        reporter.stage(stage)

    def _end(self, number: int, outcome: JobOutcome, out: Path, journal: EventJournal) -> None:
        """Publish the files and write the end; where the job has ended meanwhile, nothing is left of them."""
        problem, ours = outcome.problem, False
        if problem is not None or outcome.result is not None:
            try:
                check_outputs(out, self._settings.job_output_bytes)
                files = output_files(out)  # once: one that is published has two names, and would be no output any more
                with self._account.own_stage("publish"):
                    retry_while_away(lambda: publish(self._store, self._job_id, number, files))
            except OutputLimitError as error:
                problem = error.problem
            ours = retry_while_away(lambda: self._record_end(number, problem, outcome.result))
        self._tell_end(journal.last)
        # where an answer of the store got lost, the end may be ours although it was there when we wrote it again
        if ours or retry_while_away(lambda: self._ended_by(number)):
            self._account.ended(problem)
        else:
            self._account.ended_elsewhere()
            retry_while_away(lambda: discard(self._store, self._job_id, number))

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


PROCESS_NAME = "cyclops-attend"


def supervise(line: socket.socket, settings: Settings) -> None:
    """Attend to what the worker hands over, until it hangs up."""
    set_process_name(PROCESS_NAME)
    logs.begin(process="horse")
    store = open_store(settings)
    queue = open_impatient_queue(settings)
    answers = ResultCache(store, Jobs(store), Accelerators(store))
    while (handed := receive_assignment(line)) is not None:
        assignment, process = handed
        with logs.bound(job=assignment.job_id):
            try:
                supervise_job(assignment, process, settings, store=store, answers=answers, queue=queue)
            finally:
                process.close()
        line.sendall(DONE)
