"""Two jobs side by side: what differs between their accelerators, and what became of it."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from accel.report.compare.comparison import MOST_BYTES, AnyReport, Run, compare_runs, read_document, read_report
from accel.report.documents.comparison_documents import Comparison
from service.auth.caller import CurrentCaller
from service.auth.route_policy import access
from service.context import Context, RequestContext
from service.http.conditional import IfNoneMatch, respond_with_etag
from service.http.declarations import NOT_MODIFIED_RESPONSE, declare_problems
from service.http.problems import ProblemError
from service.jobs.job_id import LATEST, resolve_job_id
from worker.identity.share_links import ShareTarget
from worker.records.job_artifacts import Artifacts
from worker.records.job_record import Job

router = APIRouter(prefix="/v1/compare", tags=["results"])
MOST_LINKS = 2
JOB_ID = f"^([0-9a-f]{{32}}|{LATEST})$"
_WHICH = f"id of a job that has succeeded, or `{LATEST}`: the one"
_REPORT, _DOCUMENT = "report.json", "accelerator.json"


@router.get(
    "",
    summary="Compare two jobs",
    response_model=Comparison,
    responses=NOT_MODIFIED_RESPONSE | declare_problems("not-found", "conflict"),
)
@access("key")
def get_comparison(
    context: RequestContext,
    caller: CurrentCaller,
    a: Annotated[str, Query(pattern=JOB_ID, description=f"{_WHICH} before")],
    b: Annotated[str, Query(pattern=JOB_ID, description=f"{_WHICH} after")],
    share: Annotated[
        tuple[str, ...],
        Query(max_length=MOST_LINKS, description="token of a link to one of them that is not yours; may be repeated"),
    ] = (),
    if_none_match: IfNoneMatch = None,
) -> Response:
    """What differs between two jobs, `b` less `a`: documents, origins, cycles by layer, and where those cycles went.

    They may be for different accelerators, of different families, and of different versions of Cyclops. Layers are
    matched by the model nodes that they compute, without nodes by name.
    """
    before, after = (open_compared(context, caller.owner, field, job, share) for field, job in (("a", a), ("b", b)))
    return respond_with_etag(compare_runs(before.run, after.run), if_none_match)


@dataclass(frozen=True)
class ComparedJob:
    """A job that is compared, the files that it left, and what of them is read for that.

    ``link`` is the token by which it is the reader's; None where it needs none.
    """

    job: Job
    artifacts: Artifacts
    run: Run
    link: str | None = None


def open_compared(context: Context, owner: str, field: str, job_id: str, links: tuple[str, ...]) -> ComparedJob:
    """Returns a job that has succeeded; ``field`` says where it was asked for, ``links`` are tokens that open it.

    Raises:
        ProblemError: the caller has no such job, nor a link to it; or it has not succeeded.
    """
    job_id = resolve_job_id(job_id, context.jobs, owner, field)
    target = ShareTarget("jobs", job_id)
    link = next((link for link in links if context.access.shares.resolve(link, target)), None)
    records = context.jobs.records.seen_by(owner, None if link is None else job_id)
    try:
        job = records.get(job_id)
    except KeyError:
        raise ProblemError("not-found", f"there is no job {job_id!r}", field=field) from None
    if not job.ended:
        detail = f"the job {job_id} is {job.state}; wait until it has ended"
        raise ProblemError("conflict", detail, field=field, headers={"Retry-After": "1"})
    if job.state != "succeeded":
        raise ProblemError("conflict", f"the job {job_id} {_ENDS[job.state]}: there is nothing to compare", field=field)
    artifacts = context.jobs.artifacts(job)
    return ComparedJob(job, artifacts, Run(_report(artifacts, field), _document(artifacts, field)), link)


_ENDS = {"failed": "has failed", "canceled": "was canceled"}


def _report(artifacts: Artifacts, field: str) -> AnyReport:
    data = _read(artifacts, _REPORT)
    if data is None:
        raise ProblemError("not-found", artifacts.missing("report"), field=field)
    return read_report(data, field)


def _document(artifacts: Artifacts, field: str) -> Any | None:
    data = _read(artifacts, _DOCUMENT)
    return None if data is None else read_document(data, field)


def _read(artifacts: Artifacts, name: str) -> bytes | None:
    """Returns a file; of one that is too large a byte more than may be read. None if there is none."""
    try:
        size = artifacts.get(name).bytes
    except KeyError:
        return None
    return artifacts.read(name, 0, min(size, MOST_BYTES + 1))
