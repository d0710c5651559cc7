"""Submissions: checked, admitted to the queue and recorded as a job, answered by an earlier job, or only planned."""

import hashlib
import logging
from collections.abc import Sequence

import redis
from starlette.concurrency import run_in_threadpool

from accel.catalog.load_accelerator import preset_names
from accel.frontend.read.model_info import Axes, TensorInfo, fix_axes
from accel.report.provenance import file_digest
from service.context import Context
from service.http.problems import ProblemError
from service.http.request_context import current_traceparent, request_id
from service.http.resources import JobSubmission
from service.jobs.webhook_submission import check_webhook, schedule_webhook, schedule_webhook_of_ended_job
from worker.config.settings import Settings
from worker.execution.job_inputs import ModelJobInputs, fetch_inputs
from worker.execution.tensor_archives import check_fit
from worker.process.scratch import scratch_directory
from worker.queue.job_queue import JobQueue
from worker.records.annotations import Annotations
from worker.records.idempotency import KeyReusedError, Proposal, SubmissionOutcome, Withdraw
from worker.records.job_record import Document, Job, Origin
from worker.records.job_request import JobRequest
from worker.records.upload_locks import MissingUploadError
from worker.records.uploads import Model, ProgramInfo
from worker.sandbox.confined_tasks import LimitError
from worker.storage.identifiers import new_id
from worker.telemetry.logs import fields

_log = logging.getLogger(__name__)


def submit(
    request: JobSubmission, owner: str, key: str | None, context: Context
) -> tuple[SubmissionOutcome, Job | None]:
    """Accepts a submission; returns its outcome, and the job's record if it was read already.

    Args:
        request: the submission.
        owner: the owner of the job.
        key: the submission's idempotency key.
        context: what the request works on, restricted to its caller.

    Raises:
        ProblemError: it cannot be accepted.
        InvalidTensors: the tensors do not fit the model or the program.
        BeingDeletedError: what it needs is being deleted at this moment.
    """
    check_webhook(request, context.jobs)
    if key is not None:
        done = _submit_once(request, owner, key, context)
        if done.cached:
            schedule_webhook_of_ended_job(done.job, request, owner, key, context.jobs)
        return done, None
    if answer := _checked_answer(request, owner, context):
        schedule_webhook_of_ended_job(answer.id, request, owner, None, context.jobs)
        return SubmissionOutcome(answer.id, cached=True), answer
    job_id = new_id()
    _record_and_enqueue(job_id, request, owner, context, context.jobs.records.withdraw)
    return SubmissionOutcome(job_id), None


def check_submission(request: JobRequest, context: Context) -> None:
    """Checks all that can be checked without compiling.

    Raises:
        ProblemError: the model, the program, the accelerator or the tensors are unknown.
        InvalidAxes: the options set axes that the model does not have.
        InvalidTensors: they do not fit the model or the program.
    """
    source = _source(request, context)
    options = request.options
    inputs, unset = _inputs(source, options.axes)
    if request.accelerator is not None:
        _check_accelerator(request.accelerator, context)
    if given := _tensors(options.inputs, "options.inputs", context):
        check_fit(given, inputs, field="options.inputs", partial=request.program is not None, unset=unset)
    if given := _tensors(options.calibration, "options.calibration", context):
        check_fit(given, inputs, field="options.calibration", samples=True, unset=unset)


def _inputs(source: Model | ProgramInfo, axes: Axes) -> tuple[list[TensorInfo], Sequence[str]]:
    """Returns the inputs with their axes set, and the names of the axes that are 1 by default."""
    if isinstance(source, ProgramInfo):
        return source.inputs, ()
    fixed = fix_axes(source.inputs, axes)
    return fixed.inputs, fixed.unset


def _source(request: JobRequest, context: Context) -> Model | ProgramInfo:
    """Returns the document of the model or the program."""
    try:
        if request.model is not None:
            return context.uploads.models.get(request.model)
        return context.uploads.programs.get(str(request.program))
    except KeyError:
        kind, digest = ("model", request.model) if request.model is not None else ("program", request.program)
        raise ProblemError(f"unknown-{kind}", f"there is no {kind} {digest}", field=kind) from None


def _check_accelerator(name: str, context: Context) -> None:
    if not context.uploads.accelerators.exists(name):
        known = ", ".join(preset_names())
        detail = f"there is no accelerator {name!r}; there are {known}, and those that were uploaded"
        raise ProblemError("unknown-accelerator", detail, field="accelerator")


def _tensors(digest: str | None, field: str, context: Context) -> list[TensorInfo] | None:
    if digest is None:
        return None
    try:
        return context.uploads.tensors.get(digest).tensors
    except KeyError:
        raise ProblemError("unknown-tensors", f"there are no tensors {digest}", field=field) from None


def _checked_answer(request: JobSubmission, owner: str, context: Context) -> Job | None:
    """Checks the request; returns an earlier job that answers it, unless a fresh one is asked for."""
    check_submission(request, context)
    return None if request.fresh else context.submissions.results.find(request, owner)


def _submit_once(request: JobSubmission, owner: str, key: str, context: Context) -> SubmissionOutcome:
    """Returns the outcome that all submissions with this idempotency key share."""
    try:
        return context.submissions.idempotency.once(
            owner,
            key,
            _digest(request),
            lambda: _propose(request, owner, context),
            lambda job_id, withdraw: _record_and_enqueue(job_id, request, owner, context, withdraw),
        )
    except KeyReusedError:
        detail = "another request came with this key; take a new one for it"
        raise ProblemError("idempotency-key-reused", detail, field="Idempotency-Key") from None


def _digest(request: JobSubmission) -> str:
    """Returns a digest of the request and its webhook's URL; the webhook's secret is dumped as asterisks."""
    # keys that were used before there were labels, notes and tags are good still
    left_out = {name for name in ("webhook", "label", "note", "tags", "document") if not getattr(request, name)}
    return hashlib.sha256(request.model_dump_json(exclude=left_out).encode()).hexdigest()


def _propose(request: JobSubmission, owner: str, context: Context) -> Proposal:
    """Returns an earlier job that answers the request, or the id of a new one."""
    answer = _checked_answer(request, owner, context)
    return Proposal(answer.id, cached=True) if answer else Proposal(new_id(), cached=False)


def _record_and_enqueue(job_id: str, request: JobSubmission, owner: str, context: Context, withdraw: Withdraw) -> None:
    """Records the job and enqueues it. Where that fails, nothing is left that would run.

    Raises:
        ProblemError: the queue cannot be reached, or is full; or what the job needs has been deleted.
        BeingDeletedError: it is being deleted at this moment.
    """
    detail = "the job was not accepted; try again later"
    unavailable = ProblemError("queue-unavailable", detail, headers={"Retry-After": "5"})
    try:
        check_queue_limits(context.jobs.queue, owner, context.settings)
    except redis.RedisError as error:
        raise unavailable from error
    try:
        claim = context.submissions.upload_locks.acquire(job_id, request, owner)
    except MissingUploadError as error:
        kind = error.upload.kind.removesuffix("s" if error.upload.kind != "tensors" else "")
        raise ProblemError(f"unknown-{kind}", f"{error.upload.digest} has been deleted", field=kind) from None
    if not claim.is_valid():  # this process was held up, and nobody heeds it any more
        claim.release()
        raise unavailable
    try:
        schedule_webhook(job_id, request, owner, context.jobs)
        origin = Origin(request_id=request_id(), traceparent=current_traceparent())
        document = context.uploads.accelerators.source(request.accelerator)
        annotations = Annotations(label=request.label, note=request.note, tags=request.tags)
        context.jobs.records.create(request, owner, job_id, origin, document, annotations)
        context.jobs.queue.submit(job_id, owner=owner)
    except redis.RedisError as error:
        if withdraw(job_id):
            claim.release()
            context.jobs.webhooks.remove(job_id)
            raise unavailable from error
        # the message came through, and the job has ended already: then it is accepted
    _log.info("job %s: accepted", job_id, extra=fields(job=job_id))


_QUEUE_FULL_HEADERS = {"Retry-After": "10"}


def check_queue_limits(queue: JobQueue, owner: str, settings: Settings) -> None:
    """Refuses a job if too many are queued, in all or of its owner.

    Raises:
        ProblemError: too many do.
        redis.RedisError: Redis is away.
    """
    most = settings.most_waiting
    if queue.length() >= most > 0:
        raise ProblemError("queue-full", f"{most} jobs wait; try again later", headers=_QUEUE_FULL_HEADERS)
    most = settings.most_waiting_of_owner
    if most > 0 and queue.waiting.count_of_owner(owner) >= most:
        raise ProblemError("queue-full", f"{most} jobs of yours wait; try again later", headers=_QUEUE_FULL_HEADERS)


async def with_kept_document(request: JobSubmission, context: Context, owner: str) -> JobSubmission:
    """Returns the submission with the id of the document that came with it, if one did, which is kept.

    Raises:
        ProblemError: something else is wrong, and nothing is kept; or the document cannot be examined now.
        RefusedError: the document cannot be used.
        InvalidAxes, InvalidTensors: as :func:`check_submission`.
    """
    if request.document is None:
        return request
    await run_in_threadpool(check_submission, request, context)
    accelerator, _ = await context.uploads.keep_document(request.document, owner)
    return request.model_copy(update={"accelerator": accelerator, "document": None})


async def plan(request: JobSubmission, context: Context, owner: str) -> bytes:
    """Returns the plan of a submission as JSON; nothing is kept.

    Raises:
        ProblemError: it cannot be accepted, it is for a program, or it was not its turn or cannot be made in time.
        RefusedError: the document, or another input, cannot be used.
        InvalidAxes, InvalidTensors: as :func:`check_submission`.
    """
    await run_in_threadpool(check_submission, request, context)
    if request.program is not None:
        raise ProblemError("invalid-request", "a program is compiled already: nothing is planned", field="program")
    if request.document is not None:  # with the line of what is wrong, before it has a turn among the plans
        await context.uploads.examine_document(request.document, owner)
    return await context.submissions.plans.run(lambda: _plan(request, context), owner)


def _plan(request: JobSubmission, context: Context) -> bytes:
    with scratch_directory(context.settings.scratch_dir, "plan") as directory:
        text, source = None, context.uploads.accelerators.source(request.accelerator)
        if request.document is not None:
            text = directory / "document.yaml"
            text.write_bytes(request.document.encode())
            source = Document(sha256=file_digest(text))
        work = fetch_inputs(request, directory, context.store, source, text)
        assert isinstance(work, ModelJobInputs)
        try:
            return context.submissions.planner.plan(work, directory)
        except LimitError as error:
            raise ProblemError("plan-failed", f"{error}; submit a job") from error
