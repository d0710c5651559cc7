"""What a job left: its report, its outputs, and every file."""

import re
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.responses import StreamingResponse

from service.context import Context, Here
from service.documents import content, problems
from service.problems import ProblemError
from service.schemas import ArtifactIndex, ArtifactResource
from worker.artifacts import Artifacts, media_type

router = APIRouter(prefix="/v1/jobs/{id}", tags=["results"])
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
Range = Annotated[str | None, Header(description="one range of bytes, such as `bytes=0-1023`")]


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
    """Stream an artifact, or one range of it (RFC 9110, section 14).

    Raises:
        ProblemError: there is no such artifact, or the range lies outside it.
    """
    try:
        size = artifacts.size(name)
    except KeyError:
        raise ProblemError("not-found", f"the job has left no {name!r}", field="name") from None
    begin, end, status = 0, size, 200
    # a form of range that we do not serve may be ignored
    if requested and (match := _RANGE.fullmatch(requested)):
        begin, end, status = int(match[1]), min(int(match[2] or size) + 1, size), 206
        if begin >= end:
            raise ProblemError(
                "range-not-satisfiable", f"{requested} of {size}", headers={"Content-Range": f"bytes */{size}"}
            )
    headers = {"Content-Length": str(end - begin), "Accept-Ranges": "bytes"}
    if status == 206:
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
    if filename:
        headers["Content-Disposition"] = f'attachment; filename="{filename}"'
    chunks = artifacts.stream(name, begin, end) if status == 206 else artifacts.stream(name)
    return StreamingResponse(chunks, status, headers, media_type=media_type(name))


@router.get(
    "/report",
    summary="The report",
    response_class=StreamingResponse,
    responses=content("the report", "application/json") | problems("not-found", "conflict"),
)
def get_report(id: str, here: Here) -> StreamingResponse:  # noqa: A002 - the API's name
    """Cycles, verification, layers, host operators, quantisation and stage times."""
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
