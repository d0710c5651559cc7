"""Jobs: submit, list, describe, cancel, look after their webhooks."""

import contextlib
from collections.abc import Mapping
from typing import Annotated

import redis
from fastapi import APIRouter, Depends, Header, Query, Response
from starlette.concurrency import run_in_threadpool

from accel.accelerator.text.document_text import MAX_BYTES
from accel.report.documents.plan_documents import Plan
from service.auth.caller import CurrentCaller, CurrentOwner
from service.auth.route_policy import access
from service.context import JobContext, RequestContext, RequestJobs
from service.http import conditional
from service.http.conditional import IfNoneMatch
from service.http.declarations import NOT_MODIFIED_RESPONSE, declare_document, declare_problems
from service.http.json_bodies import JsonRoute
from service.http.problems import ProblemError
from service.http.resources import Deliveries, JobCursor, JobResource, JobSubmission, Page, PageLimit, job_resource
from service.jobs.job_id import JobId
from service.jobs.job_list import JobQuery, job_page
from service.jobs.submission import plan, submit, with_kept_document
from service.jobs.wait_preference import PreferWait
from worker.config.settings import Settings
from worker.records.idempotency import SubmissionOutcome
from worker.records.job_record import Job
from worker.telemetry.counters import ENDED, Counters

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=JsonRoute)
DryRun = Annotated[bool, Query(description="answer 200 with the plan, and make no job")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern="^[!-~]{1,255}$",
        description="any text of yours, new for each job: the same again, with the same request, has the same job",
    ),
]
_RETRY_SECONDS = "1"


def _most_bytes(settings: Settings) -> int:
    return settings.max_body_bytes + 2 * MAX_BYTES  # JSON writes a quote or the end of a line as two characters


@router.post(
    "",
    status_code=202,
    summary="Submit a job, or try it",
    response_model=JobResource,
    responses=declare_document(
        "the record of a job that did the same before, `cached`; with `Prefer: wait=N` the job, if it ended meanwhile; "
        "or with `dry_run` the plan",
        JobResource | Plan,
    )
    | declare_problems(
        "bad-request",
        "conflict",
        "too-large",
        "unknown-model",
        "unknown-program",
        "unknown-accelerator",
        "unknown-tensors",
        "idempotency-key-reused",
        "invalid-request",
        "inspection-failed",
        "plan-failed",
        "busy",
        "disk-full",
        "queue-full",
        "queue-unavailable",
    ),
)
@access("key", rate="submissions", max_body=_most_bytes)
async def post_job(
    request: JobSubmission,
    context: RequestContext,
    owner: CurrentOwner,
    wait: PreferWait,
    key: IdempotencyKey = None,
    dry_run: DryRun = False,
) -> Response:
    """Compile the model for the accelerator, simulate and verify it; or simulate a program that is compiled already.

    The answer is at once; follow `Location` until the state is `succeeded`, `failed` or `canceled`. With
    `Prefer: wait=N` it comes once the job has ended, as 200, or after N seconds, as 202.

    If a job of yours has succeeded that was asked the same (model or program, what the accelerator's document says,
    options, by the same version of Cyclops), the answer is 200 with its record, `cached`; `"fresh": true` runs it anew.

    Of several submissions with the same `Idempotency-Key` and request one makes a job, and all are answered with it:
    send one with a key again if its answer got lost.

    With `dry_run` there is no job. The answer is the plan: for every node of the model whether the accelerator runs it,
    how, and why not, with the instructions and the tiling of each launch, which is that of a job whose `schedule` is
    `quick`. Of the options it reads `seed`, `calibration`, `dims`, `shapes`, `host_nodes`, `placement` and how a
    float model is quantised. With `document` in place of
    `accelerator` it tries a document that nobody keeps; what is wrong with one is told as by `POST /v1/accelerators`.
    """
    if dry_run:
        return Response(await plan(request, context, owner), media_type="application/json")
    request = await with_kept_document(request, context, owner)
    done, job = await run_in_threadpool(submit, request, owner, key, context)
    applied: Mapping[str, str] = {}
    if job is None:
        applied = await wait.wait_for_end(done.job, owner)
        job = await run_in_threadpool(context.jobs.get, done.job)
    return _answer(await _described(job, context.jobs, cached=done.cached), done, applied)


def _answer(job: JobResource, done: SubmissionOutcome, applied: Mapping[str, str]) -> Response:
    """Returns a job's record as a whole response: FastAPI's validation of it would take the longest."""
    headers = {"Location": f"/v1/jobs/{job.id}", **applied}
    if done.replayed:
        headers["Idempotent-Replayed"] = "true"
    if not job.ended:
        headers["Retry-After"] = _RETRY_SECONDS
    status = 200 if done.cached or (applied and job.ended) else 202
    return Response(job.model_dump_json(), status, headers, media_type="application/json")


async def _described(job: Job, jobs: JobContext, *, cached: bool = False) -> JobResource:
    positions = await jobs.positions([job])
    return job_resource(job, positions.get(job.id), cached=cached)


@router.get(
    "",
    summary="List the jobs",
    response_model=Page[JobResource],
    responses=NOT_MODIFIED_RESPONSE | declare_problems("invalid-request", "not-ready"),
)
@access("key")
async def list_jobs(
    context: RequestContext,
    owner: CurrentOwner,
    query: Annotated[JobQuery, Depends()],
    limit: PageLimit = 50,
    cursor: JobCursor = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Your jobs, or those that a filter and a search select, newest first, or sorted otherwise.

    A search looks through label, note and tags of a job, and labels, titles and ids of its model and accelerator. Of
    jobs that are equal in what they are sorted by the newest come first.

    A page does not move when jobs are added. While the index is made anew a page may have fewer jobs than there are to
    come, even none: the last one has no `next_cursor`; and more than a thousand jobs are sorted by `submitted` alone.
    """
    page, following = await run_in_threadpool(job_page, query, owner, cursor, limit, context.jobs, context.uploads)
    positions = await context.jobs.positions(page)
    items = [job_resource(job, positions.get(job.id)) for job in page]
    return conditional.respond_with_etag(Page(items=items, next_cursor=following), if_none_match)


@router.get(
    "/{id}",
    summary="Describe a job",
    response_model=JobResource,
    responses=NOT_MODIFIED_RESPONSE | declare_problems("not-found"),
)
@access("link", "jobs")
async def get_job(
    id: JobId,  # noqa: A002 - the API's name
    jobs: RequestJobs,
    caller: CurrentCaller,
    wait: PreferWait,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """State, stage with step and total, and the result in short.

    With `Prefer: wait=N` the answer comes once the job has ended, or after N seconds.
    """
    job = await run_in_threadpool(jobs.get, id)
    headers = await wait.wait_for_end(job.id, caller.counted_for_job_of(job.owner))
    if headers and not job.ended:
        job = await run_in_threadpool(jobs.get, id)
    if not job.ended:
        headers["Retry-After"] = _RETRY_SECONDS
    return conditional.respond_with_etag(await _described(job, jobs), if_none_match, headers)


@router.post("/{id}/cancel", summary="Cancel a job", responses=declare_problems("not-found", "conflict"))
@access("key")
def cancel_job(id: JobId, jobs: RequestJobs) -> JobResource:  # noqa: A002 - the API's name
    """End a queued or running job. A job that is canceled already stays so; one that ended otherwise is a conflict."""
    job = jobs.get(id)
    if jobs.records.cancel(job.id):
        with contextlib.suppress(redis.RedisError):  # whoever runs it looks at the record every second
            jobs.queue.cancel(job.id)
            Counters.one(ENDED, "canceled", jobs.queue.name, jobs.queue.connection)
    job = jobs.get(id)
    if job.state != "canceled":
        raise ProblemError("conflict", f"the job has {job.state} already", field="id")
    return job_resource(job)


@router.get("/{id}/webhooks", summary="Look after a job's webhooks", responses=declare_problems("not-found"))
@access("key")  # a link does not show where webhooks go: an address may be half a secret
def list_webhooks(id: JobId, jobs: RequestJobs) -> Deliveries:  # noqa: A002 - the API's name
    """How far each webhook is that was named for this job, oldest first; secrets are not shown.

    Several submissions may have been answered with the same job; each may have named one.
    """
    return Deliveries(items=jobs.webhooks.of_job(jobs.get(id).id))
