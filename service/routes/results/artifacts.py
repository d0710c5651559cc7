"""Results of a job: its report, outputs, TIR after every stage, and every other file that it left."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import PlainTextResponse, StreamingResponse

from accel.report.documents.memory_documents import MemoryPlan
from accel.report.documents.report_documents import Report, SimulationReport
from service.auth.route_policy import access
from service.context import JobContext, RequestJobs
from service.http.conditional import CONDITIONAL_RESPONSES, Conditional, Conditions, not_modified, send_blob
from service.http.declarations import declare_content, declare_document, declare_problems
from service.http.problems import ProblemError
from service.http.resources import ArtifactIndex, ArtifactResource, TirIndex, TirStage
from service.jobs.job_id import JobId
from service.jobs.job_report import PLAN_TABLES, REPORT, TableName, read_report, report_csv
from worker.records.job_artifacts import MEDIA_TYPES, MEMORY_PLAN, Artifacts, read_memory_plan
from worker.records.pass_index import functions_of, read_dump

_MEDIA_TYPES = sorted({found.partition(";")[0] for found in MEDIA_TYPES.values()})
router = APIRouter(prefix="/v1/jobs/{id}", tags=["results"])


def artifacts_of(jobs: JobContext, job_id: str, *, complete: bool = True) -> Artifacts:
    """Returns the artifacts of a job.

    Raises:
        ProblemError: no such job; or it has not ended, and they are to be complete.
    """
    job = jobs.get(job_id)
    if complete and not job.ended:
        detail = f"the job is {job.state}; it has no results yet"
        raise ProblemError("conflict", detail, field="id", headers={"Retry-After": "1"})
    return jobs.artifacts(job)


def send(artifacts: Artifacts, name: str, conditions: Conditional, *, filename: str | None = None) -> Response:
    """Streams an artifact, or one range of it, or answers 304.

    Raises:
        ProblemError: there is no such artifact, or the range lies outside it.
    """
    try:
        artifact = artifacts.get(name)
    except KeyError:
        raise ProblemError("not-found", artifacts.missing(repr(name)), field="name") from None
    etag = f'"{artifact.sha256}"'
    return not_modified(conditions, etag) or send_blob(
        artifact.bytes,
        lambda begin, end: artifacts.stream(name, begin, end),
        artifact.media_type,
        conditions.applicable(etag),
        filename=filename,
        etag=etag,
    )


@router.get(
    "/report",
    summary="The report",
    response_class=StreamingResponse,
    responses=declare_document("the report of a model's job, or of a program's", Report | SimulationReport)
    | CONDITIONAL_RESPONSES
    | declare_problems("not-found", "conflict"),
)
@access("link", "jobs")
def get_report(id: JobId, jobs: RequestJobs, conditions: Conditions) -> Response:  # noqa: A002 - the API's name
    """Of a model: cycles, verification, layers, host operators, quantisation and stage times.

    Of a program: cycles, verification, mismatches, races, warnings, and what each unit did and waited for.
    """
    return send(artifacts_of(jobs, id), REPORT, conditions)


def open_report(artifacts: Artifacts) -> dict[str, Any]:
    """The report, parsed.

    Raises:
        ProblemError: there is none, or it is too large, or of another version.
    """
    report = read_report(artifacts)
    if report is not None:
        return report
    try:
        artifacts.get(REPORT)
    except KeyError:
        raise ProblemError("not-found", artifacts.missing("report"), field="id") from None
    detail = "the report is too large for this form, or of another version; get it as JSON"
    raise ProblemError("not-found", detail, field="id")


@router.get(
    "/report/{table}.csv",
    summary="A table of the report",
    response_class=Response,
    responses=declare_content("the table, its units in the header", "text/csv")
    | declare_problems("not-found", "conflict"),
)
@access("link", "jobs")
def get_report_table(id: JobId, table: TableName, jobs: RequestJobs) -> Response:  # noqa: A002 - the API's name
    """The layers, where the cycles went, what was changed to find what limits the program, accuracy, host operators.

    `tensors` is the accuracy of each quantised tensor.
    `mismatches` are the first elements that differ from what was expected; `stages` are those of the job, timed.
    `memory` is the memory plan, a row a buffer of a layer; `memories` says how full each memory is at most.
    A table that the report has nothing for is a header alone. Text that a spreadsheet would take for a formula begins
    with an apostrophe.
    """
    artifacts = artifacts_of(jobs, id)
    report = open_report(artifacts)
    plan = read_memory_plan(artifacts) if table in PLAN_TABLES else None
    disposition = f'attachment; filename="{table}-{id[:12]}.csv"'
    return Response(
        report_csv(report, table, plan), media_type="text/csv", headers={"Content-Disposition": disposition}
    )


@router.get(
    "/memory",
    summary="The memory plan",
    response_class=StreamingResponse,
    responses=declare_document("the memory plan of a model's job", MemoryPlan)
    | CONDITIONAL_RESPONSES
    | declare_problems("not-found", "conflict"),
)
@access("link", "jobs")
def get_memory(id: JobId, jobs: RequestJobs, conditions: Conditions) -> Response:  # noqa: A002 - the API's name
    """Who lies where in each on-chip memory, and from when to when, layer by layer.

    Of a program's job there is none: nothing in a program says what its addresses hold.
    """
    return send(artifacts_of(jobs, id), MEMORY_PLAN, conditions)


@router.get(
    "/outputs",
    summary="The outputs",
    response_class=StreamingResponse,
    responses=declare_content("an npz file", "application/octet-stream") | declare_problems("not-found", "conflict"),
)
@access("link", "jobs")
def get_outputs(id: JobId, jobs: RequestJobs, conditions: Conditions) -> Response:  # noqa: A002 - the API's name
    """The model's outputs as the accelerator computed them, by name."""
    return send(artifacts_of(jobs, id), "outputs.npz", conditions, filename="outputs.npz")


@router.get("/artifacts", summary="List the artifacts", responses=declare_problems("not-found"))
@access("link", "jobs")
def list_artifacts(id: JobId, jobs: RequestJobs) -> ArtifactIndex:  # noqa: A002 - the API's name
    """Every file that the job left, also one that failed; none before it has ended."""
    artifacts = artifacts_of(jobs, id, complete=False).all()
    home = f"/v1/jobs/{id}/artifacts"
    return ArtifactIndex(
        artifacts=[ArtifactResource(**item.model_dump(), href=f"{home}/{item.name}") for item in artifacts]
    )


@router.get(
    "/artifacts/{name:path}",
    summary="Download an artifact",
    response_class=StreamingResponse,
    responses=declare_content("the file", *_MEDIA_TYPES) | CONDITIONAL_RESPONSES | declare_problems("not-found"),
)
@access("link", "jobs")
def get_artifact(
    id: JobId,  # noqa: A002 - the API's name
    name: str,
    jobs: RequestJobs,
    conditions: Conditions,
) -> Response:
    """One file, or one range of its bytes. Its ETag is its SHA-256, and it never changes."""
    return send(artifacts_of(jobs, id, complete=False), name, conditions)


def _dumps(artifacts: Artifacts) -> dict[str, tuple[str, int]]:
    """Returns file name and bytes of each dump by its stage, in their order; `05-flatten.txt` is of `flatten`."""
    names = [(item.name, item.bytes) for item in artifacts.all("tir") if item.name.endswith(".txt")]
    return {name.removeprefix("tir/").removesuffix(".txt").partition("-")[2]: (name, size) for name, size in names}


@router.get("/tir", summary="List the stages", responses=declare_problems("not-found"))
@access("link", "jobs")
def list_tir(id: JobId, jobs: RequestJobs) -> TirIndex:  # noqa: A002 - the API's name
    """The stages that were dumped, in the order in which they ran."""
    dumps = _dumps(artifacts_of(jobs, id, complete=False))
    home = f"/v1/jobs/{id}/tir"
    return TirIndex(
        stages=[TirStage(stage=stage, bytes=size, href=f"{home}/{stage}") for stage, (_, size) in dumps.items()]
    )


@router.get(
    "/tir/{stage:path}",
    summary="The module after a stage",
    response_class=StreamingResponse,
    responses=declare_content("TVMScript", "text/plain") | CONDITIONAL_RESPONSES | declare_problems("not-found"),
)
@access("link", "jobs")
def get_tir(
    id: JobId,  # noqa: A002 - the API's name
    stage: str,
    jobs: RequestJobs,
    conditions: Conditions,
    function: Annotated[str | None, Query(max_length=500, description="the only one that is wanted")] = None,
) -> Response:
    """TVMScript after a stage; `flatten/02-s_tir.CompactBufferAllocation` is after a pass within it."""
    artifacts = artifacts_of(jobs, id, complete=False)
    found = _dumps(artifacts).get(stage)
    if found is None:
        raise ProblemError("not-found", f"the job has dumped no stage {stage!r}", field="stage")
    if function is None:
        return send(artifacts, found[0], conditions)
    text = functions_of(read_dump(artifacts, found[0].removeprefix("tir/"))).get(function)
    if text is None:
        raise ProblemError("not-found", f"the text of {stage} has no function {function!r}", field="function")
    return PlainTextResponse(text + "\n")
