"""Models: ONNX files."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from service.caller import Owner
from service.context import Here
from service.documents import content, problems, upload_body, upload_problems
from service.problems import ProblemError
from service.ranges import RANGED, Range
from service.upload import receive
from service.uploaded import send_upload
from worker.uploads import Model

router = APIRouter(prefix="/v1/models", tags=["models"])


@router.post(
    "",
    status_code=201,
    summary="Upload a model",
    responses=upload_problems("inspection-failed", "busy"),
    openapi_extra=upload_body("an ONNX file: float32, or already quantised in QDQ form"),
)
async def post_model(request: Request, response: Response, here: Here, owner: Owner) -> Model:
    """Check and keep an ONNX file. Its id is its SHA-256; the same file again answers the same."""
    async with receive(request, here.settings.scratch_dir) as upload:
        found = await here.inspections.run(lambda: here.inspector.model(upload.path), owner)
        model = Model(id=upload.sha256, bytes=upload.bytes, **found.model_dump())
        await here.keeping.run(lambda: here.models.add(upload.path, model), owner)
    response.headers["Location"] = f"/v1/models/{model.id}"
    return model


@router.get("/{id}", summary="Describe a model", responses=problems("not-found"))
def get_model(id: str, here: Here) -> Model:  # noqa: A002 - the API's name
    """Inputs, outputs, operators and multiply-accumulates of an uploaded model."""
    try:
        return here.models.get(id)
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
