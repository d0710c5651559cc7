"""The id of a job in an address: one that was given, or ``latest``."""

from typing import Annotated

from fastapi import Depends, Path
from starlette.concurrency import run_in_threadpool

from service.caller import Asker
from service.context import Here
from service.problems import ProblemError
from worker.records.job_index import JobSelection
from worker.records.job_listing import page_of_jobs

LATEST = "latest"


async def _job_id(
    id: Annotated[str, Path(description=f"id of a job; `{LATEST}`: of the one that you have submitted last")],  # noqa: A002
    here: Here,
    caller: Asker,
) -> str:
    if id != LATEST:
        return id
    selection = JobSelection(caller.owner)
    jobs, _ = await run_in_threadpool(page_of_jobs, here.jobs, here.queue.index, selection, None, 1)
    if not jobs:
        raise ProblemError("not-found", "you have no job yet: submit one", field="id")
    return jobs[0].id


JobId = Annotated[str, Depends(_job_id)]
