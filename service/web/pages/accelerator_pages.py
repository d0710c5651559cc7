"""Accelerators: the list of presets and uploads, and each document, summarised and whole."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import accelerator_id
from service.auth.caller import CurrentCaller, CurrentOwner
from service.auth.route_policy import access
from service.context import RequestContext, RequestUploads, UploadContext
from service.http.problems import ProblemError
from service.http.resources import SearchText
from service.routes.accelerators import AcceleratorSort, document_yaml, find_accelerator, found_accelerators
from service.uploads.receive import receive_parts
from service.web.figures.document_lines import Choice, Form, source_lines
from service.web.figures.document_words import bus_words, contracted, host_words, waiting_words
from service.web.pages.form_files import FORM_BYTES, form_texts, sent_document
from service.web.templating.rendering import frame_of, render, see_other
from worker.records.accelerator_store import is_uploaded
from worker.records.problem_details import Problem
from worker.sandbox.confined_tasks import RefusedError

_Part = Annotated[str | None, Query(max_length=500)]


def _choice(instruction: _Part = None, memory: _Part = None, field: _Part = None) -> Choice:
    """What of the document the address selects."""
    return Choice(instruction, memory, field)


DocumentChoice = Annotated[Choice, Depends(_choice)]
router = APIRouter(prefix="/accelerators", include_in_schema=False)
_PARTS = 8  # of its form
_UNPROCESSABLE = 422


@router.get("")
@access("key")
def show_accelerators(
    request: Request, uploads: RequestUploads, q: SearchText = "", sort: AcceleratorSort = "id"
) -> Response:
    """The presets, then uploaded accelerators, or those that a search finds; and a form for one more."""
    return _listed(request, uploads, q=q, sort=sort)


def _listed(
    request: Request,
    uploads: UploadContext,
    problem: Problem | None = None,
    typed: str = "",
    q: str = "",
    sort: AcceleratorSort = "id",
) -> Response:
    items = found_accelerators(uploads.accelerators.ids(), uploads, q, sort)
    return render(
        request,
        "accelerators.html",
        200 if problem is None else _UNPROCESSABLE,
        presets=[item for item in items if not is_uploaded(item.id)],
        uploaded=[item for item in items if is_uploaded(item.id)],
        problem=None if problem is None else problem.model_dump(mode="json"),
        typed=typed,
        q=q,
        sort=sort,
    )


@router.post("")
@access("key", rate="uploads", max_body=lambda _settings: FORM_BYTES)
async def add_accelerator(request: Request, context: RequestContext, owner: CurrentOwner) -> Response:
    """Checks and keeps a document, and leads to its page; what cannot be used comes back with the reason."""
    async with receive_parts(request, context.settings.scratch_dir, limit=_PARTS) as parts:
        path = await run_in_threadpool(sent_document, parts)
        try:
            digest, _ = await context.uploads.keep_document(_given(path), owner)
        except (ProblemError, RefusedError) as error:
            typed = await run_in_threadpool(lambda: form_texts(parts).get("document", ""))
            return await run_in_threadpool(_listed, request, context.uploads, error.problem, typed)
    return see_other(f"/accelerators/{digest}")


def _given(path: Path | None) -> Path:
    if path is None:
        raise ProblemError("invalid-request", "choose a file, or type a document", field="document")
    return path


@router.get("/{id}")
@access("link", "accelerators")
def show_accelerator(
    id: str,  # noqa: A002 - the API's name
    request: Request,
    uploads: RequestUploads,
    caller: CurrentCaller,
    choice: DocumentChoice,
    format: Annotated[Form, Query()] = "yaml",  # noqa: A002 - the API's name
) -> Response:
    """One accelerator: memories, units, instructions, how they wait, and the document itself."""
    accelerator = find_accelerator(id, uploads)
    [label] = uploads.accelerators.labels([id])
    return render(
        request,
        "accelerator.html",
        id=id,
        label=label,
        mine=is_uploaded(id) and caller.shared is None,
        at=document_links(frame_of(request).link, f"/accelerators/{quote(id)}", format),
        download=frame_of(request).link(f"/v1/accelerators/{quote(id)}", format=format),
        uses=None,
        selected=None,
        **document_values(accelerator, id, format, choice),
    )


def document_links(link: Callable[..., str], path: str, form: Form) -> Callable[..., str]:
    """Returns what makes addresses of a page of a document: with a selection, in the form that is shown or another."""

    def at(fragment: str, **parts: str | None) -> str:
        query = {"format": form if form != "yaml" else None, **parts}
        return f"{link(path, **query)}#{fragment}"

    return at


def document_values(accelerator: Accelerator, name: str | None, form: Form, choice: Choice) -> dict[str, Any]:
    """Returns what pages show of a document, wherever it is from; under ``name`` a preset has a text of its own."""
    text = accelerator.model_dump_json(indent=2) if form == "json" else document_yaml(name or "", accelerator)
    tile = contracted(accelerator)
    return {
        "accelerator": accelerator,
        "digest": accelerator_id(accelerator),
        "waiting": waiting_words(accelerator),
        "bus": bus_words(accelerator),
        "host": host_words(accelerator),
        "contracts": None if isinstance(tile, str) else tile,
        "no_models": tile if isinstance(tile, str) else None,
        "format": form,
        "choice": choice,
        "lines": source_lines(accelerator, text, choice),
    }
