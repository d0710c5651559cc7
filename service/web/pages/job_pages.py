"""The page of a job: how far it is, then whether it is right, how many cycles it takes and where they went."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response
from pydantic import BeforeValidator
from starlette.concurrency import run_in_threadpool

from accel.accelerator.document import Accelerator
from accel.report.documents.graph_documents import GRAPH_FILE
from service.auth.caller import CurrentCaller, CurrentCounter, CurrentOwner
from service.auth.route_policy import access
from service.context import Context, RequestContext, RequestJobs, app_context
from service.http.problems import ProblemError
from service.http.resources import AnnotationChange
from service.jobs.job_changes import JobChanges, job_changes
from service.jobs.job_id import JobId
from service.jobs.job_report import read_report
from service.routes import jobs as job_routes
from service.routes import labels, retention
from service.routes.results.artifacts import list_tir
from service.routes.results.changes import ChangeName, ChangeRequest, post_changes
from service.web.figures.report_figures import CATEGORIES
from service.web.figures.report_values import report_values
from service.web.pages.form_files import typed_tags
from service.web.templating.environment import short
from service.web.templating.rendering import BackField, frame_of, local_path, render, see_other
from worker.identity.ownership import Label
from worker.identity.share_links import ShareTarget
from worker.records.accelerator_store import is_uploaded
from worker.records.annotations import Note, Tags
from worker.records.job_artifacts import read_memory_plan
from worker.records.job_record import Job

router = APIRouter(prefix="/jobs/{id}", include_in_schema=False)
_CHANGES_SECONDS = 3.0  # that a page waits for its turn behind uploads


@router.get("")
@access("link", "jobs")
async def show_job(
    id: JobId,  # noqa: A002 - the API's name
    request: Request,
    context: RequestContext,
    caller: CurrentCaller,
    answered: Annotated[str | None, Query(max_length=20)] = None,
) -> Response:
    """The page of a job, whatever state it is in."""
    job = await run_in_threadpool(context.jobs.get, id)
    position = (await context.jobs.positions([job])).get(job.id)
    values = await run_in_threadpool(_values, job, context, app_context(request))
    mine = caller.owner == job.owner
    changes = await _changes(job, context) if mine and values["report"] is not None else None
    if changes is not None and values["report"]["cycles"] is not None:
        values["limit"] = _sentence(values, changes)
    return await run_in_threadpool(
        render,
        request,
        "job.html",
        job=job,
        position=position,
        mine=mine,
        table_address=frame_of(request).tables_of(job.id),
        answered=answered == "earlier",
        changes=changes,
        **values,
    )


async def _changes(job: Job, context: Context) -> JobChanges | None:
    """Returns what the job's model can be compiled anew with; None where that cannot be found out at this moment."""
    try:
        async with asyncio.timeout(_CHANGES_SECONDS):
            return await job_changes(job, context, job.owner)
    except (ProblemError, TimeoutError):  # uploads are examined: the page is worth more than this part of it
        return None


def _sentence(values: Mapping[str, Any], changes: JobChanges) -> str:
    """Returns the sentence of what limits the program: of a compiled change where that saves more than any other."""
    timed = [each["gain"] for each in (values["limits"] or {}).get("changes", ())]
    if changes.sentence is None or changes.best is None or (changes.best.gain or 0.0) <= max(timed, default=0.0):
        return str(values["limit"])
    return f"{changes.sentence[:1].upper()}{changes.sentence[1:]}."


def _values(job: Job, context: Context, everything: Context) -> dict[str, Any]:
    """Returns what the page says of the job's results, and of what it was made of."""
    artifacts = context.jobs.artifacts(job)
    report = read_report(artifacts)
    # reports of today say what their machine was: the store is asked only for those that do not
    document = None if report is None or report.get("machine") else _document(report, job, everything)
    source = _source(job, context)
    names = {each.name for each in artifacts.all()}
    stages = list_tir(job.id, context.jobs).stages
    return {
        "views": {
            "graph": GRAPH_FILE in names,
            "passes": bool(stages),
            "timeline": "trace.npz" in names and report is not None and bool(report["cycles"]),
            "accelerator": "accelerator.json" in names,
        },
        "name": job.label or _name(job, source["label"]),
        "source": source,
        "artifacts": artifacts.all(),
        "stages": stages,
        "report": report,
        "categories": CATEGORIES,
        "memory": None,  # a page of its own has the picture, which is larger than all of this one
        **({} if report is None else report_values(report, document, read_memory_plan(artifacts))),
    }


def _document(report: Mapping[str, Any], job: Job, everything: Context) -> Accelerator | None:
    """Returns the accelerator's document, if it is still the one that the report is of.

    Who may read the report may know it: the job's program holds it whole.
    """
    known, digest = everything.uploads.accelerators, report["provenance"]["accelerator"]["id"]
    for name in (job.accelerator, digest, report["accelerator"]):
        try:
            if name is not None and known.digest(name) == digest:
                return known.get(name)
        except (KeyError, OSError):
            continue
    return None


def _name(job: Job, source: str | None) -> str:
    """Returns what to call a job without a label; ``source`` is that of its model or its program."""
    if source is None:
        return f"Job {short(job.id)}"
    if job.accelerator is None:
        return source
    uploaded = job.document.label or short(job.accelerator)
    document = uploaded if is_uploaded(job.accelerator) else job.accelerator
    return f"{source} on {document}"


def _source(job: Job, context: Context) -> dict[str, Any]:
    """Returns kind, id and label of the model or the program; no label where the reader does not see it."""
    kind, digest = ("model", job.model) if job.model is not None else ("program", job.program)
    uploads = context.uploads.models if kind == "model" else context.uploads.programs
    try:
        label = uploads.stored(str(digest)).label
    except KeyError:
        label = None
    return {"kind": kind, "id": digest, "label": label}


@router.post("/changes")
@access("key")
async def compile_with(
    id: JobId,  # noqa: A002 - the API's name
    context: RequestContext,
    owner: CurrentOwner,
    counter: CurrentCounter,
    change: Annotated[list[ChangeName], Form(max_length=100)],
) -> Response:
    """Submits a job for each of these changes, and leads back to where they are listed."""
    await post_changes(id, ChangeRequest(changes=change), context, owner, counter)
    return see_other(f"/jobs/{id}#changes")


def _back_to(path: str | None, job_id: str) -> Response:
    return see_other(local_path(path, f"/jobs/{job_id}"))


@router.post("/cancel")
@access("key")
def cancel(id: JobId, jobs: RequestJobs, back: BackField = None) -> Response:  # noqa: A002 - the API's name
    """Ends the job, and leads to its page."""
    job_routes.cancel_job(id, jobs)
    return _back_to(back, id)


@router.post("/label")
@access("key")
async def annotate(
    id: JobId,  # noqa: A002 - the API's name
    request: Request,
    jobs: RequestJobs,
    label: Annotated[Label | None, Form()] = None,
    note: Annotated[Note | None, Form()] = None,
    tags: Annotated[Tags, BeforeValidator(typed_tags), Form()] = [],  # noqa: B006 - it is copied
    back: BackField = None,
) -> Response:
    """Gives the job a label, a note and tags; takes away those whose field is empty, and leaves those without one."""
    sent = (await request.form()).keys()
    given = {name: value for name, value in (("label", label), ("note", note), ("tags", tags)) if name in sent}
    await run_in_threadpool(labels.annotate_job, id, AnnotationChange.model_validate(given), jobs)
    return _back_to(back, id)


@router.post("/pin")
@access("key")
def pin(id: JobId, context: RequestContext, back: BackField = None) -> Response:  # noqa: A002 - the API's name
    """Keeps the job when its time is over."""
    retention.pin_job(id, context)
    return _back_to(back, id)


@router.post("/unpin")
@access("key")
def unpin(id: JobId, jobs: RequestJobs, back: BackField = None) -> Response:  # noqa: A002 - the API's name
    """Keeps the job as long as others."""
    retention.unpin_job(id, jobs)
    return _back_to(back, id)


@router.post("/delete")
@access("key")
def delete(id: JobId, context: RequestContext, back: BackField = None) -> Response:  # noqa: A002 - the API's name
    """Erases the job, and leads to the list."""
    retention.delete_job(id, context)
    return see_other(local_path(back, "/jobs"))


@router.post("/share")
@access("key")
def share(
    id: JobId,  # noqa: A002 - the API's name
    request: Request,
    context: RequestContext,
    owner: CurrentOwner,
    back: BackField = None,
) -> Response:
    """Makes a link to the job, and shows it this once."""
    if context.settings.auth == "off":
        raise ProblemError("conflict", "no keys are needed here: the address of the page is a link already", field="id")
    job = context.jobs.get(id)
    token = context.access.shares.add(ShareTarget("jobs", job.id), owner)
    address = f"{str(request.base_url).rstrip('/')}/jobs/{job.id}?share={token}"
    home = f"/jobs/{job.id}"
    return render(request, "shared.html", 201, job=job, address=address, back=local_path(back, home), home=home)


@router.post("/unshare")
@access("key")
def unshare(id: JobId, context: RequestContext, owner: CurrentOwner, back: BackField = None) -> Response:  # noqa: A002 - the API's name
    """Revokes every link to the job."""
    context.access.shares.revoke(ShareTarget("jobs", context.jobs.get(id).id), owner)
    return _back_to(back, id)
