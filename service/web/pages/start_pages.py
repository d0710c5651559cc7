"""The start page: a model, an accelerator, and what becomes of them: a plan at once, or a job."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import pydantic
from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from accel.catalog.load_accelerator import preset_names
from accel.errors import CyclopsError
from service.auth.caller import CurrentOwner
from service.auth.route_policy import access
from service.context import Context, RequestContext
from service.http.problems import ProblemError
from service.http.resources import JobSubmission
from service.jobs.submission import check_submission, plan, submit
from service.uploads.canonical import canonical_model
from service.uploads.receive import ReceivedPart, receive_parts
from service.uploads.stored import store_upload
from service.web.pages.form_files import FORM_BYTES, form_texts, sent_document, typed_tags
from service.web.pages.list_pages import accelerator_names, source_names
from service.web.templating.rendering import render, see_other
from worker.config.settings import Settings
from worker.examples import examples, find_example
from worker.identity.ownership import MOST_LABEL
from worker.records.annotations import MOST_NOTE
from worker.records.job_request import DIGEST
from worker.records.listing.job_index import JobSelection
from worker.records.listing.job_listing import page_of_jobs
from worker.records.problem_details import FieldError, Problem, problem_of
from worker.sandbox.confined_tasks import RefusedError

router = APIRouter(include_in_schema=False)
_LATEST_JOBS = 5
_MODELS_OFFERED = 100
_UPLOADED = "uploaded"
_UNPROCESSABLE = 422
_MOST_TAGS = 2000  # characters of all of a job
_FORM_PARTS = 16  # fields and empty files of the form


@dataclass(frozen=True)
class Chosen:
    """What stands in the form.

    Attributes:
        model: the id of an example, or ``uploaded``.
        uploaded: the id of a model that was sent.
        accelerator: the id of one, unless there is a document.
        document: the text of an accelerator's document.
        schedule, seed, label, note, fresh: as the API has them, as texts.
        tags: with commas between them.
    """

    model: str = examples("models")[0].id
    uploaded: str = ""
    accelerator: str = "vta"
    document: str = ""
    schedule: str = "auto"
    seed: str = "0"
    label: str = ""
    note: str = ""
    tags: str = ""
    fresh: str = ""

    @property
    def model_id(self) -> str:
        """The id of the model."""
        return self.uploaded if self.model == _UPLOADED else self.model

    def with_model(self, digest: str) -> "Chosen":
        """Returns the same with this model."""
        if find_example("models", digest) is not None:
            return replace(self, model=digest)
        return replace(self, model=_UPLOADED, uploaded=digest)


_FIELDS = tuple(Chosen.__dataclass_fields__)
_SENT_AS = {name: name for name in _FIELDS} | {"label": "job_label"}  # a field `label` is an upload's, and never empty


@dataclass(frozen=True)
class _Typed:
    """What an address may say of the form, beside model and accelerator, named as in :class:`Chosen`."""

    schedule: Annotated[str, Query(max_length=20)] = "auto"
    seed: Annotated[str, Query(max_length=20)] = "0"
    label: Annotated[str, Query(max_length=MOST_LABEL)] = ""
    note: Annotated[str, Query(max_length=MOST_NOTE)] = ""
    tags: Annotated[str, Query(max_length=_MOST_TAGS)] = ""
    fresh: Annotated[str, Query(max_length=10)] = ""


@router.get("/")
@access("key")
async def show_start(
    request: Request,
    context: RequestContext,
    owner: CurrentOwner,
    typed: Annotated[_Typed, Depends()],
    model: Annotated[str | None, Query(pattern=DIGEST)] = None,
    accelerator: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    """The form for a job, and the latest jobs."""
    chosen = Chosen(accelerator=accelerator or "vta", **asdict(typed))
    if model is not None:
        chosen = chosen.with_model(model)
    return await _form(request, context, owner, chosen)


async def _form(
    request: Request, context: Context, owner: str, chosen: Chosen, problem: Problem | None = None
) -> Response:
    values = await run_in_threadpool(_offers, context, owner)
    status = 200 if problem is None else _UNPROCESSABLE
    shown = None if problem is None else problem.model_dump(mode="json")
    return await run_in_threadpool(
        render, request, "start.html", status, chosen=chosen, problem=shown, examples=examples("models"), **values
    )


def _offers(context: Context, owner: str) -> dict[str, Any]:
    """Returns the models and accelerators to choose from, and the latest jobs."""
    models, _ = context.uploads.models.page(None, _MODELS_OFFERED)
    jobs, _ = page_of_jobs(context.jobs.records, context.jobs.queue.index, JobSelection(owner), None, _LATEST_JOBS)
    return {
        "models": [each for each in models if each.created is not None],
        "accelerators": accelerator_names(context.uploads),
        "presets": preset_names(),
        "jobs": jobs,
        "names": source_names(jobs, context.uploads),
    }


def _most_bytes(settings: Settings) -> int:
    return settings.max_model_bytes + FORM_BYTES


@router.post("/")
@access("key", rate="submissions", max_body=_most_bytes)
async def start(request: Request, context: RequestContext, owner: CurrentOwner) -> Response:
    """Keeps what was sent, and leads to the plan or to the job; where that cannot be, to the form with the reason."""
    settings = context.settings
    async with receive_parts(request, settings.scratch_dir, limit=settings.max_model_files + len(_FIELDS)) as parts:
        sent = await run_in_threadpool(_Sent.of, parts)
        try:
            chosen = sent.chosen
            known = chosen.with_model("0" * 64) if sent.model else chosen
            _submission(replace(known, accelerator="vta"))  # before anything is stored
            chosen = await _with_model(sent, context, owner)
            if sent.document is not None:
                accelerator, _ = await context.uploads.keep_document(sent.document, owner)
                chosen = replace(chosen, accelerator=accelerator, document="")
            submission = _submission(chosen)
            if sent.do == "plan":
                await run_in_threadpool(check_submission, submission, context)
                return see_other(_plan_address(submission))
            done, _ = await run_in_threadpool(submit, submission, owner, None, context)
        except (ProblemError, RefusedError) as error:
            return await _form(request, context, owner, chosen, error.problem)
        except CyclopsError as error:
            return await _form(request, context, owner, chosen, problem_of(error))
    return see_other(f"/jobs/{done.job}{'?answered=earlier' if done.cached else ''}")


@dataclass(frozen=True)
class _Sent:
    """What the form sent.

    Attributes:
        chosen: its fields.
        do: ``plan``, or ``run``.
        model: the files of a model.
        document: the file of an accelerator's document, if there is one.
    """

    chosen: Chosen
    do: str
    model: list[ReceivedPart] = field(default_factory=list)
    document: Path | None = None

    @classmethod
    def of(cls, parts: Sequence[ReceivedPart]) -> "_Sent":
        """Returns what the parts of a form say.

        Raises:
            ProblemError: a field is too long, or is not in UTF-8.
        """
        texts = form_texts(parts)
        return cls(
            chosen=Chosen(**{name: texts[sent] for name, sent in _SENT_AS.items() if sent in texts}),
            do=texts.get("do", "run"),
            model=[part for part in parts if part.name == "file" and part.filename],
            document=sent_document(parts),
        )


def _submission(chosen: Chosen) -> JobSubmission:
    """Returns the submission that the form asks for.

    Raises:
        ProblemError: a field of it has no such value.
    """
    seed = (
        int(chosen.seed) if chosen.seed.isascii() and chosen.seed.isdigit() and len(chosen.seed) < 20 else chosen.seed
    )
    try:
        return JobSubmission.model_validate(
            {
                "model": chosen.model_id,
                **({"document": chosen.document} if chosen.document else {"accelerator": chosen.accelerator}),
                "options": {"seed": seed, "schedule": chosen.schedule},
                "label": chosen.label or None,
                "note": chosen.note or None,
                "tags": typed_tags([chosen.tags]),
                "fresh": bool(chosen.fresh),
            }
        )
    except pydantic.ValidationError as error:
        faults = [
            FieldError(field=".".join(map(str, each["loc"])) or "body", message=each["msg"]) for each in error.errors()
        ]
        detail = "; ".join(f"{each.field}: {each.message}" for each in faults)
        raise ProblemError("invalid-request", detail, field=faults[0].field) from error


async def _with_model(sent: _Sent, context: Context, owner: str) -> Chosen:
    """Returns what was chosen with the model that was sent, if one was, which is stored."""
    if not sent.model:
        return sent.chosen
    name = Path(sent.model[0].filename or "").stem
    return sent.chosen.with_model(await _store_model(sent.model, _as_label(name), context, owner))


async def _store_model(parts: list[ReceivedPart], name: str | None, context: Context, owner: str) -> str:
    """Keeps a model, called ``name`` unless its owner calls it something already; returns its id."""
    uploads = context.uploads
    path, model = await uploads.inspections.run(lambda: canonical_model(parts, uploads.inspector), owner)

    def store() -> None:
        known = uploads.models.as_stored(model).label
        store_upload(uploads.models, path, model, name if known is None else None)

    await uploads.storing.run(store, owner)
    return model.id


def _as_label(name: str) -> str | None:
    """Returns a file's name as a label, as far as it can be one."""
    text = "".join(letter for letter in name if letter.isprintable())[:MOST_LABEL].strip()
    return text or None


def _plan_address(submission: JobSubmission) -> str:
    options = submission.options
    query = {
        "model": submission.model,
        "accelerator": submission.accelerator,
        "seed": options.seed,
        "schedule": options.schedule,
        "label": submission.label,
        "note": submission.note,
        "tags": ", ".join(submission.tags) or None,
        "fresh": "on" if submission.fresh else None,
    }
    return "/plan?" + urlencode({name: value for name, value in query.items() if value is not None})


@router.get("/plan")
@access("key", rate="submissions")
async def show_plan(
    request: Request,
    context: RequestContext,
    owner: CurrentOwner,
    model: Annotated[str, Query(pattern=DIGEST)],
    accelerator: Annotated[str, Query(max_length=100)],
    typed: Annotated[_Typed, Depends()],
) -> Response:
    """The plan: for each operator whether the accelerator runs it, how, and why not; and a button that runs it."""
    chosen = Chosen(accelerator=accelerator, **asdict(typed)).with_model(model)
    try:
        values = await _planned(chosen, context, owner)
    except (ProblemError, RefusedError) as error:
        return await _form(request, context, owner, chosen, error.problem)
    except CyclopsError as error:
        return await _form(request, context, owner, chosen, problem_of(error))
    return await run_in_threadpool(render, request, "plan.html", **values)


async def _planned(chosen: Chosen, context: Context, owner: str) -> dict[str, Any]:
    """Returns what a page with the plan of a choice says."""
    found = json.loads(await plan(_submission(chosen), context, owner))
    name = await run_in_threadpool(lambda: context.uploads.models.stored(chosen.model_id).label)
    return {"plan": found, "chosen": chosen, "name": name}


@router.post("/plan")
@access("key", rate="submissions", max_body=lambda _settings: FORM_BYTES)
async def show_plan_of_form(request: Request, context: RequestContext, owner: CurrentOwner) -> Response:
    """The plan of what stands in the form of the start page, as a part of that page. Nothing is kept."""
    async with receive_parts(request, context.settings.scratch_dir, limit=_FORM_PARTS) as parts:
        sent = await run_in_threadpool(_Sent.of, parts)
    values = await _planned(sent.chosen, context, owner)
    return await run_in_threadpool(render, request, "plan_of_form.html", **values)
