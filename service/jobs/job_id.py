"""The id of a job in a path: as given, or ``latest`` for the job that the caller submitted last."""

from typing import Annotated

from fastapi import Depends, Path
from starlette.concurrency import run_in_threadpool

from service.auth.caller import CurrentCaller
from service.context import RequestJobs
from service.http.problems import ProblemError
from worker.records.job_index import JobSelection
from worker.records.job_listing import page_of_jobs

LATEST = "latest"


async def _job_id(
    id: Annotated[str, Path(description=f"id of a job; `{LATEST}`: of the one that you have submitted last")],  # noqa: A002
    jobs: RequestJobs,
    caller: CurrentCaller,
) -> str:
    if id != LATEST:
        return id
    selection = JobSelection(caller.owner)
    page, _ = await run_in_threadpool(page_of_jobs, jobs.records, jobs.queue.index, selection, None, 1)
    if not page:
        raise ProblemError("not-found", "you have no job yet: submit one", field="id")
    return page[0].id


JobId = Annotated[str, Depends(_job_id)]
