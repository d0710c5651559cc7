"""Models: ONNX files."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from service.auth.caller import CurrentOwner
from service.auth.route_policy import access
from service.context import RequestUploads
from service.http.conditional import RANGE_RESPONSES, IfNoneMatch, Range
from service.http.declarations import NOT_MODIFIED_RESPONSE, declare_content, declare_problems, declare_upload_problems
from service.http.problems import ProblemError
from service.http.resources import ModelResource, ModelSummary, Page, PageLimit, UploadCursor
from service.uploads.canonical import canonical_model
from service.uploads.receive import label_of, receive_parts
from service.uploads.stored import LabelOfUpload, respond_with_page, send_upload, store_upload, upload_resource

router = APIRouter(prefix="/v1/models", tags=["models"])

_BINARY = {"type": "string", "format": "binary"}
_FILES = {"type": "array", "items": _BINARY, "description": "the ONNX file, and those that it keeps data in"}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "an ONNX file: float32, or already quantised in QDQ form. If it keeps data in other files, all "
        "of them together, as a zip or as the files of one form, of which one is called `*.onnx`. The others are "
        "called what the model says, a path from the model's folder; in a form by filename, or by the part's name.",
        "content": {
            "application/octet-stream": {"schema": _BINARY},
            "application/zip": {"schema": _BINARY},
            "multipart/form-data": {"schema": {"type": "object", "required": ["file"], "properties": {"file": _FILES}}},
        },
    }
}


@router.post(
    "",
    status_code=201,
    summary="Upload a model",
    responses=declare_upload_problems("inspection-failed", "busy"),
    openapi_extra=_BODY,
)
@access("key", rate="uploads", max_body=lambda settings: settings.max_model_bytes)
async def post_model(
    request: Request, response: Response, uploads: RequestUploads, owner: CurrentOwner, label: LabelOfUpload = None
) -> ModelResource:
    """Check a model and keep it as one ONNX file.

    Its id is that file's SHA-256; the same file again answers the same. A model whose weights lie in other files, as
    `torch.onnx.export(m, x, "f.onnx")` leaves them in `f.onnx.data`, is sent with them, and kept with all of them
    inside: its id is the same however it was cut and packed.
    """
    settings = uploads.settings
    async with receive_parts(request, settings.scratch_dir, limit=settings.max_model_files) as parts:
        path, model = await uploads.inspections.run(
            lambda: canonical_model(parts, parts[0].path.parent, uploads.inspector), owner
        )
        called = label_of(request, label)
        kept = await uploads.storing.run(lambda: store_upload(uploads.models, path, model, called), owner)
    response.headers["Location"] = f"/v1/models/{model.id}"
    return upload_resource(kept, ModelResource)


@router.get("", summary="List the models", response_model=Page[ModelSummary], responses=NOT_MODIFIED_RESPONSE)
@access("key")
def list_models(
    uploads: RequestUploads,
    limit: PageLimit = 50,
    cursor: UploadCursor = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Your models, newest first, then the example. A page does not move when some are added."""
    return respond_with_page(
        uploads.models, cursor, limit, lambda kept: upload_resource(kept, ModelSummary), if_none_match
    )


@router.get("/{id}", summary="Describe a model", responses=declare_problems("not-found"))
@access("link", "models")
def get_model(id: str, uploads: RequestUploads) -> ModelResource:  # noqa: A002 - the API's name
    """Inputs, outputs, operators and multiply-accumulates of an uploaded model."""
    try:
        return upload_resource(uploads.models.kept(id), ModelResource)
    except KeyError:
        raise ProblemError("not-found", f"there is no model {id!r}", field="id") from None


@router.get(
    "/{id}/content",
    summary="Download a model",
    response_class=StreamingResponse,
    responses=declare_content("the ONNX file", "application/octet-stream")
    | RANGE_RESPONSES
    | declare_problems("not-found"),
)
@access("link", "models", example=True)
def get_model_content(
    id: str,  # noqa: A002 - the API's name
    uploads: RequestUploads,
    range: Range = None,  # noqa: A002 - the header's name
) -> StreamingResponse:
    """The file, or one range of its bytes; of a model that came in several files, the one made of them."""
    return send_upload(uploads.models, get_model(id, uploads), range, "application/octet-stream", "onnx")
