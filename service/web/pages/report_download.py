"""The report of a job as one HTML file, which the API offers and the pages render."""

import json
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from accel.errors import CyclopsError
from service.auth.route_policy import access
from service.context import RequestJobs
from service.http.declarations import declare_content, declare_problems
from service.jobs.job_id import JobId
from service.routes.results.artifacts import artifacts_of, open_report
from service.routes.results.graph import read_graph
from service.web.pages.report_file import report_html
from worker.records.job_artifacts import Artifacts, read_memory_plan

_DOCUMENT = "accelerator.json"
_MOST_DOCUMENT = 4 << 20  # bytes
router = APIRouter(prefix="/v1/jobs/{id}", tags=["results"])


@router.get(
    "/report.html",
    summary="The report as one HTML file",
    response_class=Response,
    responses=declare_content("a page with its styles and pictures inside, and no script", "text/html")
    | declare_problems("not-found", "conflict"),
)
@access("link", "jobs")
def get_report_file(id: JobId, jobs: RequestJobs) -> Response:  # noqa: A002 - the API's name
    """The report to attach or to mail: it opens from a disk, and asks for nothing from anywhere."""
    artifacts = artifacts_of(jobs, id)
    report = open_report(artifacts)
    try:
        timeline = jobs.traces.get(id, artifacts).timeline()
    except (KeyError, CyclopsError):
        timeline = None
    name = jobs.get(id).label or f"Job {id[:12]}"
    plan, graph = read_memory_plan(artifacts), read_graph(artifacts)
    page = report_html(report, name, _document(artifacts), timeline, plan, graph)
    disposition = f'attachment; filename="cyclops-{id[:12]}.html"'
    return HTMLResponse(page, headers={"Content-Disposition": disposition})


def _document(artifacts: Artifacts) -> Any | None:
    """The accelerator's document; None where it was not kept, or is too large to be shown."""
    try:
        size = artifacts.get(_DOCUMENT).bytes
    except KeyError:
        return None
    return json.loads(artifacts.read(_DOCUMENT, 0, size)) if size <= _MOST_DOCUMENT else None
