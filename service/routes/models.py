"""Models: ONNX files."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from service.caller import Owner
from service.context import Here
from service.documents import NOT_MODIFIED, content, problems, upload_body, upload_problems
from service.etags import IfNoneMatch
from service.pages import Limit, UploadCursor
from service.problems import ProblemError
from service.ranges import RANGED, Range
from service.schemas import ModelResource, ModelSummary, Page
from service.upload import receive
from service.uploaded import LabelOfUpload, keep, resource, respond_page, send_upload
from worker.uploads import Model

router = APIRouter(prefix="/v1/models", tags=["models"])


@router.post(
    "",
    status_code=201,
    summary="Upload a model",
    responses=upload_problems("inspection-failed", "busy"),
    openapi_extra=upload_body("an ONNX file: float32, or already quantised in QDQ form"),
)
async def post_model(
    request: Request, response: Response, here: Here, owner: Owner, label: LabelOfUpload = None
) -> ModelResource:
    """Check and keep an ONNX file. Its id is its SHA-256; the same file again answers the same."""
    async with receive(request, here.settings.scratch_dir) as upload:
        found = await here.inspections.run(lambda: here.inspector.model(upload.path), owner)
        model = Model(id=upload.sha256, bytes=upload.bytes, **found.model_dump())
        kept = await here.keeping.run(lambda: keep(here.models, upload.path, model, label), owner)
    response.headers["Location"] = f"/v1/models/{model.id}"
    return resource(kept, ModelResource)


@router.get("", summary="List the models", response_model=Page[ModelSummary], responses=NOT_MODIFIED)
def list_models(
    here: Here,
    limit: Limit = 50,
    cursor: UploadCursor = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Your models, newest first, then the example. A page does not move when some are added."""
    return respond_page(here.models, cursor, limit, lambda kept: resource(kept, ModelSummary), if_none_match)


@router.get("/{id}", summary="Describe a model", responses=problems("not-found"))
def get_model(id: str, here: Here) -> ModelResource:  # noqa: A002 - the API's name
    """Inputs, outputs, operators and multiply-accumulates of an uploaded model."""
    try:
        return resource(here.models.kept(id), ModelResource)
    except KeyError:
        raise ProblemError("not-found", f"there is no model {id!r}", field="id") from None


@router.get(
    "/{id}/content",
    summary="Download a model",
    response_class=StreamingResponse,
    responses=content("the ONNX file", "application/octet-stream") | RANGED | problems("not-found"),
)
def get_model_content(
    id: str,  # noqa: A002 - the API's name
    here: Here,
    range: Range = None,  # noqa: A002 - the header's name
) -> StreamingResponse:
    """The file as it was sent, or one range of its bytes."""
    return send_upload(here.models, get_model(id, here), range, "application/octet-stream", "onnx")
