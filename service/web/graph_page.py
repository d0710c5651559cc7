"""The page of a job's graph: the model's nodes as a picture by what they cost, and as a table."""

from fastapi import APIRouter, Request, Response

from service.auth.route_policy import access
from service.context import RequestJobs
from service.jobs.job_id import JobId
from service.routes.graph import get_graph
from service.web.rendering import render

router = APIRouter(include_in_schema=False)


@router.get("/jobs/{id}/graph")
@access("link", "jobs")
def show_graph(id: JobId, request: Request, jobs: RequestJobs) -> Response:  # noqa: A002 - as in the API
    """The graph of a job that has ended."""
    graph = get_graph(id, jobs)
    givers: dict[int, list[int]] = {}
    for edge in graph.edges:
        mine = givers.setdefault(edge.target, [])
        if edge.source not in mine:
            mine.append(edge.source)
    return render(request, "graph.html", job=jobs.get(id), graph=graph, givers=givers)
