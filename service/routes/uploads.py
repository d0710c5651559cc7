"""Models, programs and tensors: uploaded, listed, described and downloaded, by the same routes for each kind."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import pydantic
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from service.auth.caller import CurrentOwner
from service.auth.route_policy import access
from service.context import RequestUploads, UploadContext
from service.http.conditional import RANGE_RESPONSES, IfNoneMatch, Range
from service.http.declarations import (
    NOT_MODIFIED_RESPONSE,
    declare_content,
    declare_problems,
    declare_upload_body,
    declare_upload_problems,
)
from service.http.problems import ProblemError
from service.http.resources import (
    SORT,
    ModelResource,
    ModelSummary,
    Page,
    PageLimit,
    ProgramResource,
    ProgramSummary,
    SearchText,
    TensorsResource,
    TensorsSummary,
    UploadCursor,
)
from service.uploads.canonical import canonical_model, canonical_program, examined_tensors
from service.uploads.receive import ReceivedFile, ReceivedPart, label_of, receive_file, receive_parts
from service.uploads.stored import LabelOfUpload, respond_with_page, send_upload, store_upload, upload_resource
from worker.config.settings import Settings
from worker.examples import FileKind
from worker.inspection.inspector import Inspector
from worker.records.uploads import (
    LATEST_UPLOAD,
    Document,
    Model,
    ModelSort,
    ProgramInfo,
    ProgramSort,
    StoredUpload,
    Tensors,
    Uploads,
    UploadSort,
)

Received = TypeVar("Received", ReceivedFile, list[ReceivedPart])
_BINARY = {"type": "string", "format": "binary"}


@dataclass(frozen=True)
class _Kind(Generic[Document, Received]):
    """One kind of upload.

    Attributes:
        name: of the collection in the API.
        item: of one in the names of operations.
        one: of one in sentences, with its article.
        missing: says that there is none of an id, which follows.
        body: the ``openapi_extra`` of the upload.
        upload_text: describes the upload in the OpenAPI document.
        item_text: describes what the resource of one has.
        content_text: describes the download.
        content: what the download is, in few words.
        media_type: of the download.
        suffix: of the name under which a browser saves it.
        resource: the schema of one.
        summary: the schema of one in a listing.
        summarize: gives one in a listing.
        max_bytes: gives the largest body.
        receive: opens a request's files, which go away with the context.
        examine: finds out what was received; gives the file to store.
        stored: the stored ones.
        sorts: the names of the sorts of a listing.
    """

    name: FileKind
    item: str
    one: str
    missing: str
    body: dict[str, Any]
    upload_text: str
    item_text: str
    content_text: str
    content: str
    media_type: str
    suffix: str
    resource: type[pydantic.BaseModel]
    summary: type[pydantic.BaseModel]
    summarize: Callable[[StoredUpload[Document]], pydantic.BaseModel]
    max_bytes: Callable[[Settings], int]
    receive: Callable[[Request, Settings], AbstractAsyncContextManager[Received]]
    examine: Callable[[Received, Inspector], tuple[Path, Document]]
    stored: Callable[[UploadContext], Uploads[Document]]
    sorts: Any = UploadSort


def _upload_router(kind: _Kind[Document, Received]) -> APIRouter:
    """Returns the routes of a kind."""
    router = APIRouter(prefix=f"/v1/{kind.name}", tags=[kind.name])

    def find(uploads: UploadContext, digest: str) -> StoredUpload[Document]:
        try:
            return kind.stored(uploads).stored(digest)
        except KeyError:
            raise ProblemError("not-found", f"{kind.missing} {digest!r}", field="id") from None

    @router.post(
        "",
        name=f"post_{kind.item}",
        status_code=201,
        summary=f"Upload {kind.one}",
        description=kind.upload_text,
        response_model=kind.resource,
        responses=declare_upload_problems("inspection-failed", "busy"),
        openapi_extra=kind.body,
    )
    @access("key", rate="uploads", max_body=kind.max_bytes)
    async def post(
        request: Request, response: Response, uploads: RequestUploads, owner: CurrentOwner, label: LabelOfUpload = None
    ) -> pydantic.BaseModel:
        async with kind.receive(request, uploads.settings) as received:
            path, document = await uploads.inspections.run(lambda: kind.examine(received, uploads.inspector), owner)
            chosen = label_of(request, label)
            stored = await uploads.storing.run(
                lambda: store_upload(kind.stored(uploads), path, document, chosen), owner
            )
        response.headers["Location"] = f"/v1/{kind.name}/{document.id}"
        return upload_resource(stored, kind.resource)

    @router.get(
        "",
        name=f"list_{kind.name}",
        summary=f"List the {kind.name}",
        description=f"Your {kind.name}, newest first, then the examples; or those that a search finds, or sorted "
        "otherwise. A page does not move when some are added.",
        response_model=Page[kind.summary],  # type: ignore[name-defined] # a schema made of another
        responses=NOT_MODIFIED_RESPONSE | declare_problems("invalid-request"),
    )
    @access("key")
    def list_stored(
        uploads: RequestUploads,
        q: SearchText = "",
        sort: Annotated[kind.sorts, Query(description=SORT)] = LATEST_UPLOAD,  # type: ignore[name-defined]
        limit: PageLimit = 50,
        cursor: UploadCursor = None,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        return respond_with_page(kind.stored(uploads), cursor, limit, kind.summarize, if_none_match, sort, q)

    @router.get(
        "/{id}",
        name=f"get_{kind.item}",
        summary=f"Describe {kind.one}",
        description=kind.item_text,
        response_model=kind.resource,
        responses=declare_problems("not-found"),
    )
    @access("link", kind.name)
    def get(id: str, uploads: RequestUploads) -> pydantic.BaseModel:  # noqa: A002 - the API's name
        return upload_resource(find(uploads, id), kind.resource)

    @router.get(
        "/{id}/content",
        name=f"get_{kind.item}_content",
        summary=f"Download {kind.one}",
        description=kind.content_text,
        response_class=StreamingResponse,
        responses=declare_content(kind.content, kind.media_type) | RANGE_RESPONSES | declare_problems("not-found"),
    )
    @access("link", kind.name, example=True)
    def get_content(
        id: str,  # noqa: A002 - the API's name
        uploads: RequestUploads,
        range: Range = None,  # noqa: A002 - the header's name
    ) -> StreamingResponse:
        document = find(uploads, id).document
        return send_upload(kind.stored(uploads), document, range, kind.media_type, kind.suffix)

    return router


def _form(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"schema": {"type": "object", "properties": properties, **more}}


_MODEL_FILES = {"type": "array", "items": _BINARY, "description": "the ONNX file, and those that it keeps data in"}
MODELS = _Kind[Model, list[ReceivedPart]](
    name="models",
    item="model",
    one="a model",
    missing="there is no model",
    body={
        "requestBody": {
            "required": True,
            "description": "an ONNX file: float32, or already quantised in QDQ form. If it keeps data in other files, "
            "all of them together, as a zip or as the files of one form, of which one is called `*.onnx`. The others "
            "are called what the model says, a path from the model's folder; in a form by filename, or by the part's "
            "name.",
            "content": {
                "application/octet-stream": {"schema": _BINARY},
                "application/zip": {"schema": _BINARY},
                "multipart/form-data": _form({"file": _MODEL_FILES}, required=["file"]),
            },
        }
    },
    upload_text="""Check a model and keep it as one ONNX file.

Its id is that file's SHA-256; the same file again answers the same. A model whose weights lie in other files, as
`torch.onnx.export(m, x, "f.onnx")` leaves them in `f.onnx.data`, is sent with them, and kept with all of them
inside: its id is the same however it was cut and packed.""",
    item_text="Inputs, outputs, operators and multiply-accumulates of an uploaded model.",
    content_text="The file, or one range of its bytes; of a model that came in several files, the one made of them.",
    content="the ONNX file",
    media_type="application/octet-stream",
    suffix="onnx",
    resource=ModelResource,
    summary=ModelSummary,
    summarize=lambda stored: upload_resource(stored, ModelSummary),
    max_bytes=lambda settings: settings.max_model_bytes,
    receive=lambda request, settings: receive_parts(request, settings.scratch_dir, limit=settings.max_model_files),
    examine=canonical_model,
    stored=lambda uploads: uploads.models,
    sorts=ModelSort,
)
PROGRAMS = _Kind[ProgramInfo, list[ReceivedPart]](
    name="programs",
    item="program",
    one="a program",
    missing="there is no program",
    body={
        "requestBody": {
            "required": True,
            "description": "a Program file; or its parts, as a zip or as a form: `program.json`, `instructions.bin`, "
            "and the files that `program.json` names. In a form the part's name or its filename is the file's name.",
            "content": {
                "application/zip": {"schema": _BINARY},
                "application/octet-stream": {"schema": _BINARY},
                "multipart/form-data": _form({"file": _BINARY}, additionalProperties=_BINARY),
            },
        }
    },
    upload_text="""Check a program and keep it as one Program file.

Its id is that file's SHA-256; the same program again answers the same, however it was packed.""",
    item_text="Accelerator, size, inputs and outputs of an uploaded program.",
    content_text="The Program file, or one range of its bytes.",
    content="the Program file",
    media_type="application/zip",
    suffix="zip",
    resource=ProgramResource,
    summary=ProgramSummary,
    summarize=lambda stored: upload_resource(stored, ProgramSummary),
    max_bytes=lambda settings: settings.max_program_bytes,
    receive=lambda request, settings: receive_parts(request, settings.scratch_dir, limit=settings.max_program_files),
    examine=canonical_program,
    stored=lambda uploads: uploads.programs,
    sorts=ProgramSort,
)


def _summarize_tensors(stored: StoredUpload[Tensors]) -> TensorsSummary:
    found = stored.document
    return TensorsSummary(
        id=found.id, bytes=found.bytes, arrays=len(found.tensors), label=stored.label, created=stored.created
    )


TENSORS = _Kind[Tensors, ReceivedFile](
    name="tensors",
    item="tensors",
    one="tensors",
    missing="there are no tensors",
    body=declare_upload_body("an npz file with one array for each input of a model, by its name"),
    upload_text="Check and keep an npz file. Its id is its SHA-256; the same file again answers the same.",
    item_text="Names, element types and shapes of the arrays in an uploaded npz file.",
    content_text="The file as it was sent, or one range of its bytes.",
    content="the npz file",
    media_type="application/zip",
    suffix="npz",
    resource=TensorsResource,
    summary=TensorsSummary,
    summarize=_summarize_tensors,
    max_bytes=lambda settings: settings.max_tensors_bytes,
    receive=lambda request, settings: receive_file(request, settings.scratch_dir),
    examine=examined_tensors,
    stored=lambda uploads: uploads.tensors,
)

router = APIRouter()
for _routes in (_upload_router(MODELS), _upload_router(PROGRAMS), _upload_router(TENSORS)):
    router.routes.extend(_routes.routes)
