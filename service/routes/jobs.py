"""Jobs: post, list, look, cancel."""

import contextlib
from typing import Annotated

import redis
from fastapi import APIRouter, Query, Response

from accel.catalog import preset_names
from accel.frontend.inspect import TensorInfo
from accel.plan_documents import Plan
from service.context import Context, Here
from service.documents import document, problems
from service.dry_run import plan_response
from service.pages import JobCursor, Limit, page_of_ids
from service.problems import ProblemError
from service.schemas import JobResource, Page
from worker.jobs import Job, JobRequest
from worker.problem import problem
from worker.tensors import check_fit
from worker.uploads import Model, ProgramInfo

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
DryRun = Annotated[bool, Query(description="answer 200 with the plan, and make no job")]
_RETRY_SECONDS = "1"
_PARTS = ("report", "outputs", "trace", "tir", "artifacts", "cancel")


def _resource(job: Job) -> JobResource:
    home = f"/v1/jobs/{job.id}"
    return JobResource(**job.model_dump(), links={"self": home} | {part: f"{home}/{part}" for part in _PARTS})


def _check(request: JobRequest, here: Context) -> None:
    """Check all that can be checked without compiling.

    Raises:
        ProblemError: the model, the program, the accelerator or the tensors are unknown.
        InvalidTensors: they do not fit the model or the program.
    """
    source = _source(request, here)
    options, inputs = request.options, source.inputs
    if request.accelerator is not None:
        _check_accelerator(request.accelerator, here)
    if given := _tensors(options.inputs, "options.inputs", here):
        check_fit(given, inputs, field="options.inputs", partial=request.program is not None)
    if given := _tensors(options.calibration, "options.calibration", here):
        check_fit(given, inputs, field="options.calibration", samples=True)


def _source(request: JobRequest, here: Context) -> Model | ProgramInfo:
    """What was found in the model or the program."""
    try:
        if request.model is not None:
            return here.models.get(request.model)
        return here.programs.get(str(request.program))
    except KeyError:
        kind, digest = ("model", request.model) if request.model is not None else ("program", request.program)
        raise ProblemError(f"unknown-{kind}", f"there is no {kind} {digest}", field=kind) from None


def _check_accelerator(name: str, here: Context) -> None:
    if not here.accelerators.known(name):
        known = ", ".join(preset_names())
        detail = f"there is no accelerator {name!r}; there are {known}, and those that were uploaded"
        raise ProblemError("unknown-accelerator", detail, field="accelerator")


def _tensors(digest: str | None, field: str, here: Context) -> list[TensorInfo] | None:
    if digest is None:
        return None
    try:
        return here.tensors.get(digest).tensors
    except KeyError:
        raise ProblemError("unknown-tensors", f"there are no tensors {digest}", field=field) from None


@router.post(
    "",
    status_code=202,
    summary="Submit a job, or try it",
    response_model=JobResource,
    responses=document("with `dry_run`: the plan", Plan)
    | problems(
        "bad-request",
        "too-large",
        "unknown-model",
        "unknown-program",
        "unknown-accelerator",
        "unknown-tensors",
        "invalid-request",
        "plan-failed",
        "busy",
        "queue-unavailable",
    ),
)
def post_job(request: JobRequest, response: Response, here: Here, dry_run: DryRun = False) -> JobResource | Response:
    """Compile the model for the accelerator, simulate and verify it; or simulate a program that is compiled already.

    The answer is at once; follow `Location` until the state is `succeeded`, `failed` or `canceled`.

    With `dry_run` there is no job. The answer is the plan: for every node of the model whether the accelerator runs it,
    how, and why not, with the instructions and the tiling of each launch. Of the options it reads `seed` and
    `calibration`.
    """
    _check(request, here)
    if dry_run:
        return plan_response(request, here)
    job_id = here.jobs.create(request)
    try:
        here.queue.submit(job_id)
    except redis.RedisError as error:
        title = "The queue cannot be reached."
        here.jobs.fail(job_id, problem("queue-unavailable", title, "the job was never queued; submit it again"))
        detail = "the job was not accepted; try again later"
        raise ProblemError("queue-unavailable", detail, headers={"Retry-After": "5"}) from error
    response.headers["Location"] = f"/v1/jobs/{job_id}"
    response.headers["Retry-After"] = _RETRY_SECONDS
    return _resource(here.jobs.get(job_id))


@router.get("", summary="List the jobs")
def list_jobs(here: Here, limit: Limit = 50, cursor: JobCursor = None) -> Page[JobResource]:
    """All jobs, newest first."""
    ids, following = page_of_ids(here.jobs.ids(), cursor, limit)
    return Page(items=[_resource(job) for job in here.jobs.among(ids)], next_cursor=following)


@router.get("/{id}", summary="Describe a job", responses=problems("not-found"))
def get_job(id: str, response: Response, here: Here) -> JobResource:  # noqa: A002 - the API's name
    """State, stage with step and total, and the result in short."""
    job = here.job(id)
    if not job.ended:
        response.headers["Retry-After"] = _RETRY_SECONDS
    return _resource(job)


@router.post("/{id}/cancel", summary="Cancel a job", responses=problems("not-found", "conflict"))
def cancel_job(id: str, here: Here) -> JobResource:  # noqa: A002 - the API's name
    """End a queued or running job. A job that is canceled already stays so; one that ended otherwise is a conflict."""
    job = here.job(id)
    if here.jobs.cancel(job.id):
        with contextlib.suppress(redis.RedisError):  # whoever runs it looks at the record before every stage
            here.queue.cancel(job.id)
    job = here.job(id)
    if job.state != "canceled":
        raise ProblemError("conflict", f"the job has {job.state} already", field="id")
    return _resource(job)
