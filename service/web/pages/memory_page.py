"""The page of a job's memory plan: who lies where in each on-chip memory, and when. The job's page shows it, too."""

from fastapi import APIRouter, Request, Response

from service.auth.route_policy import access
from service.context import RequestJobs
from service.http.problems import ProblemError
from service.jobs.job_id import JobId
from service.routes.results.artifacts import artifacts_of
from service.web.figures.memory_figure import memory_figure
from service.web.templating.rendering import frame_of, render
from worker.records.job_artifacts import TRACE, read_memory_plan

router = APIRouter(include_in_schema=False)


@router.get("/jobs/{id}/memory")
@access("link", "jobs")
def show_memory(id: JobId, request: Request, jobs: RequestJobs) -> Response:  # noqa: A002 - as in the API
    """The memory plan of a job that has ended."""
    artifacts = artifacts_of(jobs, id)
    plan = read_memory_plan(artifacts)
    figure = None if plan is None else memory_figure(plan)
    if figure is None:
        raise ProblemError("not-found", artifacts.missing("memory plan with buffers"), field="id")
    job = jobs.get(id)
    timed = any(each.name == TRACE for each in artifacts.all())
    frame = frame_of(request)
    home, tables = frame.link(f"/jobs/{job.id}"), frame.tables_of(job.id)
    return render(request, "memory.html", job=job, memory=figure, timed=timed, home=home, table_address=tables)
