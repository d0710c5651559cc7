"""The supervisor: takes one job after the other from its record to its artifacts.

It opens no upload itself: it fetches a job's inputs, monitors the job's process (``worker/runner/job_process.py``),
publishes the files that it left, and writes the end of the job, once.
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
from worker.queue.job_queue import JobQueue, open_fail_fast_queue
from worker.queue.lease import Lease
from worker.records.accelerator_store import Accelerators
from worker.records.event_journal import EventJournal
from worker.records.job_artifacts import discard, publish
from worker.records.job_record import Job, Stage, Summary
from worker.records.job_store import Attempt, Attempts, Jobs
from worker.records.problem_details import Problem
from worker.records.result_cache import ResultCache
from worker.runner.attempt_telemetry import AttemptTelemetry
from worker.runner.job_monitor import JobMonitor, JobOutcome
from worker.runner.job_outputs import OutputLimitError, check_outputs, ensure_real_directory, output_files
from worker.runner.job_process import OUTPUT_FOLDER
from worker.runner.job_reporting import JobLog, ProgressReporter
from worker.runner.kernel_compiler import KernelServer, OwnerKernels
from worker.runner.supervisor_process import DONE, Assignment, JobProcessProxy, receive_assignment
from worker.storage.compiler_cache import StoreCache
from worker.storage.connections import open_store
from worker.storage.identifiers import utc_now
from worker.storage.object_store import Store, StoreUnavailableError, retry_while_away
from worker.telemetry import logs
from worker.telemetry.tracing import job_tracer

_log = logging.getLogger(__name__)
# limits of the events: log lines, which grow where they are escaped, and stages
_EVENTS_SHARE = 2
_EVENTS_BYTES = 64 << 10


def supervise_job(
    assignment: Assignment,
    process: JobProcessProxy,
    settings: Settings,
    *,
    store: Store,
    results: ResultCache,
    queue: JobQueue,
    kernels: KernelServer,
) -> None:
    """Runs an attempt of the job and records its end, unless the process died and another attempt is left.

    Args:
        assignment: the job; one that does not exist or has ended is skipped.
        process: the job's process.
        settings: the settings.
        store: the store.
        results: the result cache.
        queue: the queue, over a Redis connection that fails soon where there is none.
        kernels: compiles for the job's process.
    """
    with job_tracer() as tracer:
        supervision = _JobSupervision(assignment, settings, store, results, queue, kernels, tracer)
        supervision.run(process, Path(assignment.scratch), assignment.begun + settings.job_seconds)


class _JobSupervision:
    """Supervises one job."""

    def __init__(
        self,
        assignment: Assignment,
        settings: Settings,
        store: Store,
        results: ResultCache,
        queue: JobQueue,
        kernels: KernelServer,
        tracer: Tracer | None,
    ) -> None:
        self._job_id, self._token, self._worker = assignment.job_id, assignment.token, assignment.worker
        self._settings = settings
        self._store = store
        self._jobs = Jobs(store, queue.index)
        self._job: Job | None = None
        self._results = results
        self._queue = queue
        self._kernels = kernels
        self._telemetry = AttemptTelemetry(self._job_id, queue.name, queue.connection, tracer)

    def run(self, process: JobProcessProxy, scratch: Path, deadline: float) -> None:
        """Runs the job in ``process``, if it has not ended and no other process runs it."""
        if not self._jobs.runnable(self._job_id):
            with contextlib.suppress(redis.RedisError):
                self._queue.forget(self._job_id)
            return
        lease = Lease(self._queue.connection, self._job_id, self._token, lambda: not self._jobs.runnable(self._job_id))
        if not lease.acquire():
            _log.warning("job %s is run by another process", self._job_id)
            with contextlib.suppress(redis.RedisError):  # should that one die, the job is found in the store
                self._queue.forget(self._job_id)
            return
        with contextlib.suppress(redis.RedisError):  # the reconciler would see to it
            self._queue.waiting.leave(self._job_id)
        with lease, self._telemetry:
            pause = self._run_attempt(process, scratch, deadline, lease)
            with contextlib.suppress(StoreUnavailableError):  # it has been away for a minute
                retry_while_away(self._erase_if_deleted)
        with contextlib.suppress(redis.RedisError):  # what is lost so is found in the store
            self._queue.forget(self._job_id)
            if pause is not None:
                self._queue.delay(self._job_id, pause)

    def _run_attempt(self, process: JobProcessProxy, scratch: Path, deadline: float, lease: Lease) -> float | None:
        """Runs an attempt; returns the seconds until the next one, None if there is none."""
        if not self._jobs.runnable(self._job_id):  # it has ended just before the lease was ours
            return None
        attempts = Attempts(self._store, self._job_id)
        number = attempts.begin(
            Attempt(started=utc_now(), host=socket.gethostname(), worker=self._worker, token=self._token)
        )
        if number is None:
            problem = attempts.exhausted_problem()
            if self._jobs.fail(self._job_id, problem):
                self._telemetry.record_exhausted(problem)
            self._publish_end()
            return None
        self._telemetry.begin(number)
        journal = EventJournal(
            self._job_id, number, self._queue.connection, _EVENTS_SHARE * self._settings.job_log_bytes + _EVENTS_BYTES
        )
        outcome = self._outcome(number, process, scratch, deadline, lease, journal)
        if outcome.death is not None:
            _log.error("job %s, attempt %d: %s", self._job_id, number, outcome.death)
            self._telemetry.record_death(outcome.death)
            pause = retry_while_away(lambda: attempts.record_death(self._token, str(outcome.death)))
            retry_while_away(lambda: self._jobs.wait_again(self._job_id))
            with contextlib.suppress(redis.RedisError):  # clients see the next attempt
                self._queue.publish_wait(self._job_id, number)
            return pause
        self._publish_result(number, outcome, scratch / OUTPUT_FOLDER, journal)
        return None

    def _erase_if_deleted(self) -> None:
        """Erases what the attempt wrote of a job that was deleted meanwhile, after whoever deleted it had looked."""
        if self._jobs.recorded(self._job_id):
            return
        if self._job is not None:
            self._results.remove(self._job)
        self._store.delete_all([*self._store.keys(f"jobs/{self._job_id}"), f"open/{self._job_id}"])

    def _outcome(
        self, number: int, process: JobProcessProxy, scratch: Path, deadline: float, lease: Lease, journal: EventJournal
    ) -> JobOutcome:
        reporter = ProgressReporter(self._job_id, number, self._jobs, journal, self._settings.progress_seconds)
        log = JobLog(self._job_id, self._settings.job_log_bytes, reporter.line)
        try:
            self._job = job = retry_while_away(lambda: self._jobs.get(self._job_id))
            self._telemetry.continue_trace(job.origin)
            with self._telemetry.supervisor_stage("fetch"):
                work = retry_while_away(lambda: fetch_inputs(job, scratch, self._store, job.document))
        except StoreUnavailableError as error:
            return JobOutcome(death=f"the store stayed away: {error}")
        except Exception as error:  # noqa: BLE001 - the job must end with a reason
            problem = failure_problem(error)
            if problem.incident is not None:
                _log.exception("incident %s: job %s: its inputs could not be fetched", problem.incident, self._job_id)
            return JobOutcome(problem=problem)
        monitor = JobMonitor(
            process,
            scratch,
            self._settings,
            cache=self._telemetry.counting_cache(
                StoreCache(self._store, self._settings.max_cache_entry_bytes, job.owner)
            ),
            kernels=OwnerKernels(self._settings, job.owner, self._kernels),
            stage=lambda stage: self._report_stage(stage, reporter),
            log=log,
            stopped=lease.stopped,
        )
        outcome = monitor.run(work, deadline)
        reporter.finish()
        ensure_real_directory(scratch / OUTPUT_FOLDER)
        log.save(scratch / OUTPUT_FOLDER)
        journal.save(scratch / OUTPUT_FOLDER)
        return outcome

    def _report_stage(self, stage: Stage | None, reporter: ProgressReporter) -> None:
        self._telemetry.stage(stage)
        reporter.stage(stage)

    def _publish_result(self, number: int, outcome: JobOutcome, out: Path, journal: EventJournal) -> None:
        """Publishes the files and records the end; if the job has ended meanwhile, the files are deleted."""
        problem, ours = outcome.problem, False
        if problem is not None or outcome.result is not None:
            try:
                check_outputs(out, self._settings.job_output_bytes)
                files = output_files(out)  # once: one that is published has two names, and would be no output any more
                with self._telemetry.supervisor_stage("publish"):
                    retry_while_away(lambda: publish(self._store, self._job_id, number, files))
            except OutputLimitError as error:
                problem = error.problem
            ours = retry_while_away(lambda: self._record_end(number, problem, outcome.result))
        self._publish_end(journal.last)
        # where an answer of the store got lost, the end may be ours although it was there when we wrote it again
        if ours or retry_while_away(lambda: self._ended_by(number)):
            self._telemetry.record_end(problem)
        else:
            self._telemetry.record_ended_elsewhere()
            retry_while_away(lambda: discard(self._store, self._job_id, number))

    def _record_end(self, number: int, problem: Problem | None, result: Summary | None) -> bool:
        """Records the end; returns False if the job had ended before."""
        if problem is not None:
            return self._jobs.fail(self._job_id, problem, number)
        assert result is not None
        ended = self._jobs.succeed(self._job_id, number, result)
        if ended or self._ended_by(number):
            self._remember(number)
        return ended

    def _remember(self, number: int) -> None:
        """Adds the succeeded job to the result cache, if the store is there: the entry only saves time."""
        assert self._job is not None
        with contextlib.suppress(StoreUnavailableError, KeyError):
            self._results.put(self._job.model_copy(update={"attempt": number}))

    def _publish_end(self, last: str | None = None) -> None:
        with contextlib.suppress(redis.RedisError):  # clients look at the store too
            self._queue.publish_end(self._job_id, last)

    def _ended_by(self, number: int) -> bool:
        try:
            return self._jobs.get(self._job_id).attempt == number
        except KeyError:  # it was withdrawn
            return False


PROCESS_NAME = "cyclops-superv"  # of 15 letters at most


def supervise(line: socket.socket, settings: Settings) -> None:
    """Supervises the jobs that the worker assigns, until it closes the line."""
    set_process_name(PROCESS_NAME)
    logs.begin(process="supervisor")
    kernels = KernelServer(settings, line)  # forked before the store has threads
    store = open_store(settings)
    queue = open_fail_fast_queue(settings)
    results = ResultCache(store, Jobs(store), Accelerators(store))
    while (handed := receive_assignment(line)) is not None:
        assignment, process = handed
        with logs.bound(job=assignment.job_id):
            try:
                supervise_job(assignment, process, settings, store=store, results=results, queue=queue, kernels=kernels)
            finally:
                process.close()
        line.sendall(DONE)
