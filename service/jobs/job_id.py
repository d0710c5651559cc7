"""The id of a job in a path: as given, or ``latest`` for the job that the caller submitted last."""

from typing import Annotated

from fastapi import Depends, Path
from starlette.concurrency import run_in_threadpool

from service.auth.caller import CurrentCaller
from service.context import JobContext, RequestJobs
from service.http.problems import ProblemError
from worker.records.listing.job_index import JobSelection
from worker.records.listing.job_listing import page_of_jobs

LATEST = "latest"


async def _job_id(
    id: Annotated[str, Path(description=f"id of a job; `{LATEST}`: of the one that you have submitted last")],  # noqa: A002
    jobs: RequestJobs,
    caller: CurrentCaller,
) -> str:
    if id != LATEST:
        return id
    return await run_in_threadpool(resolve_job_id, id, jobs, caller.owner, "id")


def resolve_job_id(text: str, jobs: JobContext, owner: str, field: str) -> str:
    """Returns the id as given, or of ``latest`` that of the job which the owner has submitted last.

    Raises:
        ProblemError: there is none yet; ``field`` says where that was asked for.
    """
    if text != LATEST:
        return text
    page, _ = page_of_jobs(jobs.records, jobs.queue.index, JobSelection(owner), None, 1)
    if not page:
        raise ProblemError("not-found", "you have no job yet: submit one", field=field)
    return page[0].id


JobId = Annotated[str, Depends(_job_id)]
