"""The page of a job's graph: the model's nodes as a picture by what they cost, and as a table."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from service.auth.route_policy import access
from service.context import RequestJobs
from service.http.problems import ProblemError
from service.jobs.job_graph import GraphBox, JobGraph
from service.jobs.job_id import JobId
from service.routes.results.graph import get_graph
from service.web.templating.rendering import frame_of, render, see_other

router = APIRouter(include_in_schema=False)


@router.get("/jobs/{id}/graph")
@access("link", "jobs")
def show_graph(
    id: JobId,  # noqa: A002 - as in the API
    request: Request,
    jobs: RequestJobs,
    box: Annotated[str | None, Query(max_length=20)] = None,
    layer: Annotated[int | None, Query(ge=1, le=1 << 31)] = None,
    node: Annotated[str | None, Query(max_length=1000)] = None,
) -> Response:
    """The graph of a job that has ended; where a layer's number or a node's name is given, with its box selected."""
    graph = get_graph(id, jobs)
    if layer is not None:
        return _with_box(request, id, graph, lambda each: layer in each.launches, f"layer {layer}")
    if node is not None:
        return _with_box(request, id, graph, lambda each: node in {one.name for one in each.nodes}, f"node {node!r}")
    givers: dict[int, list[int]] = {}
    for edge in graph.edges:
        mine = givers.setdefault(edge.target, [])
        if edge.source not in mine:
            mine.append(edge.source)
    job = jobs.get(id)
    document = any(each.name == "accelerator.json" for each in jobs.artifacts(job).all())
    return render(request, "graph.html", job=job, graph=graph, givers=givers, chosen=box, document=document)


def _with_box(
    request: Request, job_id: str, graph: JobGraph, wanted: Callable[[GraphBox], bool], what: str
) -> Response:
    """Leads to the page with the first such box selected."""
    for number, each in enumerate(graph.boxes):
        if wanted(each):
            return see_other(frame_of(request).link(f"/jobs/{job_id}/graph", box=number))
    raise ProblemError("not-found", f"no box of the graph has the {what}", field="id")
