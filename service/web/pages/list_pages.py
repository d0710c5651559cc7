"""Lists: jobs and models, searched, filtered and sorted; what can be done to one of them stands in its row."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, get_args

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from service.auth.caller import CurrentOwner
from service.auth.route_policy import access
from service.context import Context, RequestContext, RequestJobs, RequestUploads, UploadContext
from service.http.problems import ProblemError, refused_cursors
from service.http.resources import JobCursor, LabelChange, SearchText, UploadCursor
from service.jobs.job_list import JobQuery, job_page
from service.routes import labels, retention
from service.web.templating.rendering import BackField, BackQuery, local_path, render, see_other
from worker.identity.ownership import Label
from worker.records.annotations import MOST_TAG
from worker.records.job_record import Job, State
from worker.records.job_request import DIGEST
from worker.records.listing.job_row import NEWEST, JobSort, Verified
from worker.records.listing.list_order import search_words
from worker.records.uploads import LATEST_UPLOAD, ModelSort

router = APIRouter(include_in_schema=False)
_JOBS_A_PAGE = 30
_UPLOADS_A_PAGE = 50
_MOST_CHOSEN = 100
_COMPARED = 2
_MODELS_OFFERED = 100  # of those by which jobs can be filtered
_ACCELERATORS_OFFERED = 200
_Text = Annotated[str, Query(max_length=100)]


@dataclass(frozen=True)
class _Asked:
    """What the list of jobs is asked for, as the API is (:class:`JobQuery`); a field of the form may be empty."""

    q: SearchText = ""
    state: State | Literal[""] = ""
    model: Annotated[str, Query(pattern=f"{DIGEST}|^$")] = ""
    accelerator: _Text = ""
    tag: Annotated[str, Query(max_length=MOST_TAG)] = ""
    verified: Verified | Literal[""] = ""
    pinned: Literal["", "true", "false"] = ""
    sort: JobSort = NEWEST

    @property
    def query(self) -> JobQuery:
        """The same for the API."""
        return JobQuery(
            q=self.q,
            state=(self.state,) if self.state else (),
            model=self.model or None,
            accelerator=self.accelerator or None,
            tag=(self.tag.strip(),) if self.tag.strip() else (),
            pinned=None if self.pinned == "" else self.pinned == "true",
            verified=self.verified or None,
            sort=self.sort,
        )

    @property
    def filter(self) -> dict[str, str]:
        """The fields of the form that say something, but for the sort."""
        return {name: value for name, value in asdict(self).items() if value and name != "sort"}

    @property
    def chart(self) -> dict[str, str]:
        """The same for the page of many runs, which are of no other state than succeeded."""
        return {name: value for name, value in self.filter.items() if name != "state"}


@router.get("/jobs")
@access("key")
async def show_jobs(
    request: Request,
    context: RequestContext,
    owner: CurrentOwner,
    asked: Annotated[_Asked, Depends()],
    cursor: JobCursor = None,
) -> Response:
    """The caller's jobs, newest first or sorted otherwise, or those that a filter and a search select."""
    jobs, following = await run_in_threadpool(
        job_page, asked.query, owner, cursor, _JOBS_A_PAGE, context.jobs, context.uploads
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
        asked=asked,
        states=get_args(State),
        cursor=cursor,
        following=following,
        **choices,
    )


_ChosenJob = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


@router.get("/jobs/chosen")
@access("key")
def show_chosen(
    request: Request,
    jobs: RequestJobs,
    do: Literal["compare", "delete"] = "delete",
    job: Annotated[tuple[_ChosenJob, ...], Query(max_length=_MOST_CHOSEN)] = (),
    back: BackQuery = None,
) -> Response:
    """What is done with several jobs: two lead to their comparison, the earlier one first; deletion is asked for."""
    ids = sorted(set(job))
    if do == "compare":
        if len(ids) != _COMPARED:
            detail = f"two jobs are compared: go back and choose exactly two, not {len(ids)}"
            raise ProblemError("invalid-request", detail, field="job")
        return see_other(f"/compare?a={ids[0]}&b={ids[1]}")
    found = jobs.records.existing(ids)
    ended = [each for each in found if each.ended]
    others = [each for each in found if not each.ended]
    return render(request, "delete_jobs.html", ended=ended, others=others, back=local_path(back, "/jobs"))


@router.post("/jobs/chosen/delete")
@access("key")
def delete_chosen(
    context: RequestContext,
    job: Annotated[list[_ChosenJob], Form(max_length=_MOST_CHOSEN)],
    back: BackField = None,
) -> Response:
    """Erases those of the jobs that have ended, and leads back to the list."""
    for each in context.jobs.records.existing(sorted(set(job))):
        if each.ended:
            context.deleter.delete_job(each)
    return see_other(local_path(back, "/jobs"))


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
    q: SearchText = "",
    sort: ModelSort = LATEST_UPLOAD,
    cursor: UploadCursor = None,
    id: Annotated[str | None, Query(pattern=DIGEST)] = None,  # noqa: A002 - the API's name
) -> Response:
    """The caller's models, newest first or sorted otherwise, those that a search finds, or the one asked for."""
    if id is None:
        with refused_cursors():
            models, following = uploads.models.page(cursor, _UPLOADS_A_PAGE, sort, search_words(q))
    else:
        try:
            models, following = [uploads.models.stored(id)], None
        except KeyError:
            raise ProblemError("not-found", f"there is no model {id!r}", field="id") from None
    return render(
        request,
        "models.html",
        models=models,
        q=q,
        sorted_by=sort,
        cursor=cursor,
        following=following,
        one=id is not None,
    )


def _kind_of(request: Request) -> Literal["models", "accelerators"]:
    """Returns what the address is of."""
    return "models" if request.url.path.startswith("/models/") else "accelerators"


_Kind = Annotated[Literal["models", "accelerators"], Depends(_kind_of)]


@router.post("/models/{id}/label")
@router.post("/accelerators/{id}/label")
@access("key")
def label_upload(
    id: str,  # noqa: A002 - the API's name
    kind: _Kind,
    uploads: RequestUploads,
    label: Annotated[Label | None, Form()] = None,
    back: BackField = None,
) -> Response:
    """Gives a model or an uploaded accelerator a label, or takes it away where the field is empty."""
    change = LabelChange(label=label)
    if kind == "models":
        labels.label_model(id, change, uploads)
        return see_other(local_path(back, "/models"))
    labels.label_accelerator(id, change, uploads)
    return see_other(local_path(back, f"/accelerators/{id}"))


@router.post("/models/{id}/delete")
@router.post("/accelerators/{id}/delete")
@access("key")
def delete_upload(
    id: str,  # noqa: A002 - the API's name
    kind: _Kind,
    context: RequestContext,
    owner: CurrentOwner,
    back: BackField = None,
) -> Response:
    """Erases a model or an uploaded accelerator that no job needs."""
    delete = {"models": retention.delete_model, "accelerators": retention.delete_accelerator}[kind]
    delete(id, context, owner)
    return see_other(local_path(back, f"/{kind}"))
