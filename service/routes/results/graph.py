"""The graph of a job's model, with the cost of each part."""

from fastapi import APIRouter

from accel.report.documents.graph_documents import GRAPH_FILE, ModelGraph
from service.auth.route_policy import access
from service.context import RequestJobs
from service.http.declarations import declare_problems
from service.http.problems import ProblemError
from service.jobs.job_graph import JobGraph, job_graph
from service.jobs.job_id import JobId
from service.routes.results.artifacts import artifacts_of, open_report
from worker.records.job_artifacts import Artifacts

router = APIRouter(prefix="/v1/jobs/{id}", tags=["results"])
_MOST_GRAPH = 32 << 20  # bytes


@router.get("/graph", summary="The model's graph", responses=declare_problems("not-found", "conflict"))
@access("link", "jobs")
def get_graph(id: JobId, jobs: RequestJobs) -> JobGraph:  # noqa: A002 - the API's name
    """Nodes of the model as uploaded, those that run as one in a box, with cycles and bytes; and what the host runs."""
    artifacts = artifacts_of(jobs, id)
    report = open_report(artifacts)
    graph = read_graph(artifacts)
    if graph is None:
        detail = "the job has left no graph: it is of a program, failed early, or is of an earlier version"
        raise ProblemError("not-found", detail, field="id")
    return job_graph(graph, report)


def read_graph(artifacts: Artifacts) -> ModelGraph | None:
    """Returns the graph that a job left; None if there is none, or if it is too large to be shown."""
    try:
        size = artifacts.get(GRAPH_FILE).bytes
    except KeyError:
        return None
    return ModelGraph.model_validate_json(artifacts.read(GRAPH_FILE, 0, size)) if size <= _MOST_GRAPH else None
