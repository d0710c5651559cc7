"""Retention: DELETE of ended jobs and of uploads that no job needs, and pins, which keep a job."""

from fastapi import APIRouter

from accel.catalog.load_accelerator import preset_names
from service.auth.caller import CurrentOwner
from service.auth.route_policy import access
from service.context import Context, RequestContext, RequestJobs
from service.http.declarations import declare_problems
from service.http.problems import ProblemError
from service.http.resources import JobResource, job_resource
from service.jobs.job_id import JobId
from worker.records.upload_locks import UploadKind, UploadName
from worker.retention.deletion import InUseError

router = APIRouter(prefix="/v1")
_PROBLEMS = declare_problems("not-found", "in-use", "conflict")


@router.delete(
    "/jobs/{id}",
    status_code=204,
    summary="Erase a job",
    tags=["jobs"],
    responses=declare_problems("not-found", "conflict"),
)
@access("key")
def delete_job(id: JobId, context: RequestContext) -> None:  # noqa: A002 - the API's name
    """Erase a job that has ended, with its record and every file that it left. Cancel it first if it has not."""
    job = context.jobs.get(id)
    if not job.ended:
        raise ProblemError("conflict", f"the job is {job.state}; cancel it first", field="id")
    context.deleter.delete_job(job)


@router.delete("/models/{id}", status_code=204, summary="Erase a model", tags=["models"], responses=_PROBLEMS)
@access("key")
def delete_model(id: str, context: RequestContext, owner: CurrentOwner) -> None:  # noqa: A002 - the API's name
    """Erase a model that no job needs: erase the jobs that name it first, also those that have ended."""
    _delete_upload("models", id, owner, context)


@router.delete("/programs/{id}", status_code=204, summary="Erase a program", tags=["programs"], responses=_PROBLEMS)
@access("key")
def delete_program(id: str, context: RequestContext, owner: CurrentOwner) -> None:  # noqa: A002 - the API's name
    """Erase a program that no job needs: erase the jobs that name it first, also those that have ended."""
    _delete_upload("programs", id, owner, context)


@router.delete("/tensors/{id}", status_code=204, summary="Erase tensors", tags=["tensors"], responses=_PROBLEMS)
@access("key")
def delete_tensors(id: str, context: RequestContext, owner: CurrentOwner) -> None:  # noqa: A002 - the API's name
    """Erase tensors that no job needs: erase the jobs that name them first, also those that have ended."""
    _delete_upload("tensors", id, owner, context)


@router.delete(
    "/accelerators/{id}", status_code=204, summary="Erase an accelerator", tags=["accelerators"], responses=_PROBLEMS
)
@access("key")
def delete_accelerator(id: str, context: RequestContext, owner: CurrentOwner) -> None:  # noqa: A002 - the API's name
    """Erase an uploaded accelerator that no job needs. The presets stay."""
    if id in preset_names():
        raise ProblemError("conflict", f"{id} comes with Cyclops, and stays", field="id")
    _delete_upload("accelerators", id, owner, context)


@router.put("/jobs/{id}/pin", summary="Keep a job", tags=["jobs"], responses=declare_problems("not-found", "conflict"))
@access("key")
def pin_job(id: JobId, context: RequestContext) -> JobResource:  # noqa: A002 - the API's name
    """Keep the job, and what it needs, when its time is over. DELETE of the job erases it all the same."""
    job = context.jobs.get(id)
    if not context.deleter.pin_job(job):
        raise ProblemError("not-found", f"there is no job {id!r}", field="id")
    return job_resource(context.jobs.get(id))


@router.delete(
    "/jobs/{id}/pin",
    status_code=204,
    summary="Do not keep a job",
    tags=["jobs"],
    responses=declare_problems("not-found"),
)
@access("key")
def unpin_job(id: JobId, jobs: RequestJobs) -> None:  # noqa: A002 - the API's name
    """Keep the job as long as others. One that is not pinned stays so."""
    jobs.records.unpin(jobs.get(id).id)


def _delete_upload(kind: UploadKind, digest: str, owner: str, context: Context) -> None:
    context.require_visible(kind, digest)
    try:
        context.deleter.delete_upload(UploadName(kind, digest), owner)
    except InUseError as error:
        raise ProblemError("in-use", f"the job {error.job_id} needs it", field="id") from None
