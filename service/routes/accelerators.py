"""Accelerators: the presets, and documents that were uploaded."""

from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from accel.accelerator.document import Accelerator
from accel.accelerator.text.document_text import MAX_BYTES
from accel.accelerator.text.document_yaml import accelerator_yaml
from accel.catalog.load_accelerator import accelerator_id, preset_yaml
from service.auth.caller import CurrentOwner
from service.auth.route_policy import access
from service.context import RequestUploads, UploadContext
from service.http import conditional
from service.http.conditional import IfNoneMatch
from service.http.declarations import (
    NOT_MODIFIED_RESPONSE,
    Responses,
    declare_document,
    declare_problems,
    declare_upload_problems,
)
from service.http.negotiation import negotiate
from service.http.problems import ProblemError, refused_cursors
from service.http.resources import SORT, AcceleratorCursor, AcceleratorSummary, Page, PageLimit, SearchText
from service.uploads.receive import label_of, receive_file
from service.uploads.stored import LabelOfUpload
from worker.records.accelerator_store import is_uploaded
from worker.records.listing.list_order import Position, Sort, has_words, search_words

router = APIRouter(prefix="/v1/accelerators", tags=["accelerators"])
LABEL = "Cyclops-Label"
YAML = "application/yaml"  # RFC 9512
_FORMATS = {"json": "application/json", "yaml": YAML}
_RAW = ("application/json", YAML, "text/yaml", "application/x-yaml", "application/octet-stream", "")
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "a whole document, of the form of `GET /v1/schemas/accelerator`; or the ten keys of VTA's "
        "`vta_config.json`; or `vta_config` with a `variant`. In JSON or YAML, as the body or as the file of a form.",
        "content": {
            "application/json": {
                "schema": {"type": "object"},
            },
            YAML: {"schema": {"type": "object"}},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}},
                }
            },
        },
    }
}
_DOCUMENT: Responses = {
    200: {
        "description": "the document; in YAML a preset that is written so as it is, with its comments, and any other "
        "without what is as it would be by default",
        "content": {YAML: {"schema": {"type": "object"}}},
        "headers": {LABEL: {"description": "the label, in percent-encoded UTF-8", "schema": {"type": "string"}}},
    }
}


@router.post(
    "",
    status_code=201,
    summary="Upload an accelerator",
    responses=declare_document("with `dry_run`: it can be used, and would have this id", AcceleratorSummary)
    | declare_upload_problems("inspection-failed", "busy"),
    openapi_extra=_BODY,
)
@access("key", rate="uploads", max_body=lambda _settings: MAX_BYTES)
async def post_accelerator(
    request: Request,
    response: Response,
    uploads: RequestUploads,
    owner: CurrentOwner,
    label: LabelOfUpload = None,
    dry_run: Annotated[bool, Query(description="answer 200 if it can be used, and keep nothing")] = False,
) -> AcceleratorSummary:
    """Check and keep an accelerator. Its id is the SHA-256 of its document; jobs name it by that.

    What cannot work is refused as `invalid-accelerator`; `field` is what to mend: a key such as `LOG_ACC_BUFF_SIZE`, or
    a path such as `accelerator.memories.0.depth`. `errors` has all that was found, each with its line and column in the
    text; mend them, and there may be more, as parts that do not have their form are not compared with each other.

    With `dry_run` nothing is kept: the answer says whether the document can be used, as an editor asks while one types.
    """
    async with receive_file(request, uploads.settings.scratch_dir, _RAW) as upload:
        chosen_label = label_of(request, label)
        if dry_run:
            accelerator = await uploads.examine_document(upload.path, owner)
            response.status_code = 200
            checked, title = accelerator_id(accelerator), accelerator.title
            return AcceleratorSummary(id=checked, title=title, family=accelerator.family, label=chosen_label)
        digest, accelerator = await uploads.keep_document(upload.path, owner)
    response.headers["Location"] = f"/v1/accelerators/{digest}"
    if chosen_label is not None:
        await run_in_threadpool(uploads.accelerators.set_label, digest, chosen_label)
    [known] = await run_in_threadpool(uploads.accelerators.labels, [digest])
    return AcceleratorSummary(id=digest, title=accelerator.title, family=accelerator.family, label=known)


AcceleratorSort = Literal["id", "-id", "label", "-label", "title", "-title", "family", "-family"]


@router.get(
    "",
    summary="List the accelerators",
    response_model=Page[AcceleratorSummary],
    responses=NOT_MODIFIED_RESPONSE | declare_problems("invalid-request"),
)
@access("key")
def list_accelerators(
    uploads: RequestUploads,
    q: SearchText = "",
    sort: Annotated[AcceleratorSort, Query(description=SORT)] = "id",
    limit: PageLimit = 100,
    cursor: AcceleratorCursor = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """The presets by name, then uploaded accelerators by id; or those that a search finds, or sorted otherwise.

    A search looks through label, title, family and id.
    """
    order = _accelerator_sort(sort)
    with refused_cursors():
        after = None if cursor is None else order.decode(cursor)
    ids = uploads.accelerators.ids()
    if sort == "id" and not q:  # no others are read than those of the page
        ids = [name for name in ids if after is None or (int(is_uploaded(name)), name) > after][: limit + 1]
    found = found_accelerators(ids, uploads, q, sort, after)
    following = order.encode(order.position(found[limit - 1])) if len(found) > limit else None
    return conditional.respond_with_etag(Page(items=found[:limit], next_cursor=following), if_none_match)


def found_accelerators(
    ids: list[str], uploads: UploadContext, text: str, sort: AcceleratorSort, after: Position | None = None
) -> list[AcceleratorSummary]:
    """Returns the accelerators among ``ids`` that a search finds, sorted, after a position."""
    words = search_words(text)
    every = (
        AcceleratorSummary(id=name, label=label, **uploads.accelerators.summary(name)._asdict())
        for name, label in zip(ids, uploads.accelerators.labels(ids), strict=True)
    )
    return _accelerator_sort(sort).following((each for each in every if _has_words(words, each)), after)


def _has_words(words: tuple[str, ...], each: AcceleratorSummary) -> bool:
    name = None if is_uploaded(each.id) else each.id
    return has_words(words, (name, each.label, each.title, each.family), (each.id,))


def _accelerator_sort(name: AcceleratorSort) -> Sort[AcceleratorSummary]:
    """Returns the sort of a name; accelerators that are equal in it are in the order of their ids."""
    field = name.removeprefix("-")
    if field == "id":
        plain = (lambda cursor: Position(int(is_uploaded(cursor)), cursor)) if name == "id" else None
        return Sort(name, lambda each: int(is_uploaded(each.id)), _id, True, name != "id", plain)
    return Sort(name, lambda each: (getattr(each, field) or "").casefold() or None, _id, ids_descend=False)


def _id(each: AcceleratorSummary) -> str:
    return each.id


@router.get(
    "/{id}",
    summary="Describe an accelerator",
    response_model=Accelerator,
    responses=_DOCUMENT | declare_problems("not-found", "not-acceptable"),
)
@access("link", "accelerators")
def get_accelerator(
    id: str,  # noqa: A002 - the API's name
    response: Response,
    uploads: RequestUploads,
    format: Annotated[Literal["json", "yaml"] | None, Query(description="else what Accept asks for")] = None,  # noqa: A002
    accept: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Accelerator | Response:
    """The accelerator's document: memories, units, instructions, synchronisation. Its label is no part of it."""
    chosen = negotiate(_FORMATS, format, accept)
    accelerator = find_accelerator(id, uploads)
    headers = {"Vary": "Accept"}
    [label] = uploads.accelerators.labels([id])
    if label is not None:
        headers[LABEL] = quote(label)
    if chosen == "json":
        response.headers.update(headers)
        return accelerator
    return Response(document_yaml(id, accelerator), headers=headers, media_type=YAML)


def document_yaml(name: str, accelerator: Accelerator) -> str:
    """Returns an accelerator's document in YAML: a preset that is written so as it is, with its comments."""
    return preset_yaml(name) or accelerator_yaml(accelerator)


def find_accelerator(name: str, uploads: UploadContext) -> Accelerator:
    """Returns the accelerator of this name or id.

    Raises:
        ProblemError: the caller has none.
    """
    try:
        return uploads.accelerators.get(name)
    except KeyError:
        raise ProblemError("not-found", f"there is no accelerator {name!r}", field="id") from None
