"""What a job left: its report, its outputs, and every file."""

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from accel.report_documents import Report, SimulationReport
from service.context import Context, Here
from service.documents import content, document, problems
from service.problems import ProblemError
from service.ranges import Range, send_blob
from service.schemas import ArtifactIndex, ArtifactResource
from worker.artifacts import Artifacts, media_type

router = APIRouter(prefix="/v1/jobs/{id}", tags=["results"])


def artifacts_of(here: Context, job_id: str, *, complete: bool = True) -> Artifacts:
    """The artifacts of a job.

    Raises:
        ProblemError: no such job; or it has not ended, and they are to be complete.
    """
    job = here.job(job_id)
    if complete and not job.ended:
        detail = f"the job is {job.state}; it has no results yet"
        raise ProblemError("conflict", detail, field="id", headers={"Retry-After": "1"})
    return Artifacts(here.store, job.id)


def send(
    artifacts: Artifacts, name: str, requested: str | None = None, *, filename: str | None = None
) -> StreamingResponse:
    """Stream an artifact, or one range of it.

    Raises:
        ProblemError: there is no such artifact, or the range lies outside it.
    """
    try:
        size = artifacts.size(name)
    except KeyError:
        raise ProblemError("not-found", f"the job has left no {name!r}", field="name") from None
    return send_blob(
        size,
        lambda begin, end: artifacts.stream(name, begin, end),
        media_type(name),
        requested,
        filename=filename,
    )


@router.get(
    "/report",
    summary="The report",
    response_class=StreamingResponse,
    responses=document("the report of a model's job, or of a program's", Report | SimulationReport)
    | problems("not-found", "conflict"),
)
def get_report(id: str, here: Here) -> StreamingResponse:  # noqa: A002 - the API's name
    """Of a model: cycles, verification, layers, host operators, quantisation and stage times.

    Of a program: cycles, verification, mismatches, races, warnings, and what each unit did and waited for.
    """
    return send(artifacts_of(here, id), "report.json")


@router.get(
    "/outputs",
    summary="The outputs",
    response_class=StreamingResponse,
    responses=content("an npz file", "application/octet-stream") | problems("not-found", "conflict"),
)
def get_outputs(id: str, here: Here) -> StreamingResponse:  # noqa: A002 - the API's name
    """The model's outputs as the accelerator computed them, by name."""
    return send(artifacts_of(here, id), "outputs.npz", filename="outputs.npz")


@router.get("/artifacts", summary="List the artifacts", responses=problems("not-found"))
def list_artifacts(id: str, here: Here) -> ArtifactIndex:  # noqa: A002 - the API's name
    """Every file that the job left, also those of a job that failed."""
    artifacts = artifacts_of(here, id, complete=False).all()
    home = f"/v1/jobs/{id}/artifacts"
    return ArtifactIndex(
        artifacts=[ArtifactResource(**item.model_dump(), href=f"{home}/{item.name}") for item in artifacts]
    )


@router.get(
    "/artifacts/{name:path}",
    summary="Download an artifact",
    response_class=StreamingResponse,
    responses=content("the file", "application/octet-stream") | problems("not-found", "range-not-satisfiable"),
)
def get_artifact(
    id: str,  # noqa: A002 - the API's name
    name: str,
    here: Here,
    range: Range = None,  # noqa: A002 - the header's name
) -> StreamingResponse:
    """One file, or one range of its bytes."""
    return send(artifacts_of(here, id, complete=False), name, range)
