"""Lists: jobs with a filter, and models; what can be done to one of them stands in its row."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

from fastapi import APIRouter, Form, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from service.auth.caller import CurrentOwner
from service.auth.route_policy import access
from service.context import Context, RequestContext, RequestUploads, UploadContext
from service.http.problems import ProblemError
from service.http.resources import JobCursor, LabelChange, UploadCursor
from service.routes import labels, retention
from service.web.rendering import render, see_other
from worker.identity.ownership import Label
from worker.records.job_index import JobSelection
from worker.records.job_listing import page_of_jobs
from worker.records.job_record import Job, State
from worker.records.job_request import DIGEST

router = APIRouter(include_in_schema=False)
_JOBS_A_PAGE = 30
_UPLOADS_A_PAGE = 50
_MODELS_OFFERED = 100  # of those by which jobs can be filtered
_ACCELERATORS_OFFERED = 200
_Text = Annotated[str, Query(max_length=100)]


@router.get("/jobs")
@access("key")
async def show_jobs(
    request: Request,
    context: RequestContext,
    owner: CurrentOwner,
    state: Annotated[State | Literal[""], Query()] = "",
    model: Annotated[str | None, Query(pattern=f"{DIGEST}|^$")] = None,
    accelerator: _Text = "",
    cursor: JobCursor = None,
) -> Response:
    """The caller's jobs, newest first, or those that a filter selects."""
    chosen = JobSelection(owner, (state,) if state else (), model or None, accelerator or None)
    jobs, following = await run_in_threadpool(
        page_of_jobs, context.jobs.records, context.jobs.queue.index, chosen, cursor, _JOBS_A_PAGE
    )
    positions = await context.jobs.positions(jobs)
    names = await run_in_threadpool(source_names, jobs, context.uploads)
    choices = await run_in_threadpool(_choices, context)
    return await run_in_threadpool(
        render,
        request,
        "jobs.html",
        jobs=jobs,
        positions=positions,
        names=names,
        chosen=chosen,
        states=get_args(State),
        cursor=cursor,
        following=following,
        live=any(not job.ended for job in jobs),
        **choices,
    )


def source_names(jobs: Sequence[Job], uploads: UploadContext) -> dict[str, str | None]:
    """Returns the labels of the jobs' models and programs, by their ids."""
    models = list({job.model for job in jobs if job.model is not None})
    programs = list({job.program for job in jobs if job.program is not None})
    return {
        **dict(zip(models, uploads.models.labels(models), strict=True)),
        **dict(zip(programs, uploads.programs.labels(programs), strict=True)),
    }


def _choices(context: Context) -> dict[str, Any]:
    """Returns what jobs can be filtered by."""
    models, _ = context.uploads.models.page(None, _MODELS_OFFERED)
    return {"models": models, "accelerators": accelerator_names(context.uploads)}


def accelerator_names(uploads: UploadContext) -> dict[str, str]:
    """Returns the caller's accelerators, not all where there are many: label or title by id, presets first."""
    ids = uploads.accelerators.ids()[:_ACCELERATORS_OFFERED]
    known = zip(ids, uploads.accelerators.labels(ids), strict=True)
    return {name: label or uploads.accelerators.summary(name).title for name, label in known}


@router.get("/models")
@access("key")
def show_models(
    request: Request,
    uploads: RequestUploads,
    cursor: UploadCursor = None,
    id: Annotated[str | None, Query(pattern=DIGEST)] = None,  # noqa: A002 - the API's name
) -> Response:
    """The caller's models, newest first, or the one that is asked for."""
    if id is None:
        models, following = uploads.models.page(cursor, _UPLOADS_A_PAGE)
    else:
        try:
            models, following = [uploads.models.stored(id)], None
        except KeyError:
            raise ProblemError("not-found", f"there is no model {id!r}", field="id") from None
    return render(request, "models.html", models=models, cursor=cursor, following=following, one=id is not None)


@router.post("/models/{id}/label")
@access("key")
def label_model(
    id: str,  # noqa: A002 - the API's name
    uploads: RequestUploads,
    label: Annotated[Label | None, Form()] = None,
) -> Response:
    """Gives the model a label, or takes it away where the field is empty."""
    labels.label_model(id, LabelChange(label=label), uploads)
    return see_other("/models")


@router.post("/models/{id}/delete")
@access("key")
def delete_model(id: str, context: RequestContext, owner: CurrentOwner) -> Response:  # noqa: A002 - the API's name
    """Erases a model that no job needs."""
    retention.delete_model(id, context, owner)
    return see_other("/models")
