"""A job's model compiled anew for changed documents of its accelerator, on demand."""

from typing import Annotated

import pydantic
from fastapi import APIRouter, Response
from pydantic import ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from service.auth.caller import CurrentCaller, CurrentCounter, CurrentOwner
from service.auth.route_policy import access
from service.context import RequestContext
from service.http.conditional import IfNoneMatch, respond_with_etag
from service.http.declarations import NOT_MODIFIED_RESPONSE, declare_document, declare_problems
from service.http.json_bodies import JsonRoute
from service.http.problems import ProblemError
from service.jobs.job_changes import JobChanges, compile_changes, job_changes
from service.jobs.job_id import JobId
from worker.records.job_record import Job

router = APIRouter(prefix="/v1/jobs/{id}/changes", tags=["results"], route_class=JsonRoute)
_MOST = 100
ChangeName = Annotated[str, Field(max_length=100, examples=["memory-spad"])]


class ChangeRequest(pydantic.BaseModel):
    """Which changes to compile with."""

    model_config = ConfigDict(extra="forbid")

    changes: Annotated[list[ChangeName], Field(min_length=1, max_length=_MOST)] | None = Field(
        None, description="names of changes, as `GET` lists them; null: all that can be compiled for"
    )


async def _ended(job_id: str, context: RequestContext) -> Job:
    job = await run_in_threadpool(context.jobs.get, job_id)
    if not job.ended:
        detail = f"the job is {job.state}; it has no results yet"
        raise ProblemError("conflict", detail, field="id", headers={"Retry-After": "1"})
    return job


@router.get(
    "",
    summary="Changes that ask for another program",
    response_model=JobChanges,
    responses=NOT_MODIFIED_RESPONSE | declare_problems("not-found", "conflict", "busy", "inspection-failed"),
)
@access("link", "jobs")
async def list_changes(
    id: JobId,  # noqa: A002 - the API's name
    context: RequestContext,
    caller: CurrentCaller,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Changes of the accelerator's document for which the model would be compiled anew, and of those that ran the gain.

    The report's `limits` time the same program again; a memory twice as large, or a larger tile, asks for another
    program. What ran are ordinary jobs of yours, with the same model and options on the changed document.
    """
    job = await _ended(id, context)
    found = await job_changes(job, context, caller.counted_for_job_of(job.owner))
    return await run_in_threadpool(respond_with_etag, found, if_none_match)


@router.post(
    "",
    status_code=202,
    summary="Compile with changes",
    response_model=JobChanges,
    responses=declare_document("all of them had run already", JobChanges)
    | declare_problems(
        "bad-request",
        "not-found",
        "conflict",
        "invalid-request",
        "unknown-model",
        "unknown-tensors",
        "busy",
        "inspection-failed",
        "disk-full",
        "queue-full",
        "queue-unavailable",
    ),
)
@access("key")
async def post_changes(
    id: JobId,  # noqa: A002 - the API's name
    request: ChangeRequest,
    context: RequestContext,
    owner: CurrentOwner,
    counter: CurrentCounter,
) -> Response:
    """Submit a job for each change that has none which waits, runs or has succeeded.

    Each changed document is kept as an accelerator of yours, and a job submitted with the model and the options of this
    one; an earlier job that was asked the same answers as ever. Follow them by `GET`, or each job by its own address.
    Each job counts as a submission where rates are limited. Where one is not accepted, by its rate or as the queue is
    full, those before it were.
    """
    found = await compile_changes(await _ended(id, context), request.changes, context, owner, counter)
    wanted = [each for each in found.changes if request.changes is None or each.name in request.changes]
    open_still = any(each.job is not None and each.job.state in {"queued", "running"} for each in wanted)
    headers = {"Location": f"/v1/jobs/{id}/changes"} | ({"Retry-After": "1"} if open_still else {})
    return Response(found.model_dump_json(), 202 if open_still else 200, headers, media_type="application/json")
