"""Models: ONNX files."""

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from accel.frontend.inspect import inspect_model
from service.context import Here
from service.documents import problems, upload_body
from service.problems import ProblemError
from service.upload import Upload, receive
from worker.uploads import Model

router = APIRouter(prefix="/v1/models", tags=["models"])


def _inspect(upload: Upload) -> Model:
    info = inspect_model(upload.path.read_bytes())
    return Model(id=upload.sha256, bytes=upload.bytes, **info.model_dump())


@router.post(
    "",
    status_code=201,
    summary="Upload a model",
    responses=problems("bad-request", "too-large", "unsupported-media-type", "invalid-request"),
    openapi_extra=upload_body("an ONNX file: float32, or already quantised in QDQ form"),
)
async def post_model(request: Request, response: Response, here: Here) -> Model:
    """Check and keep an ONNX file. Its id is its SHA-256; the same file again answers the same."""
    async with receive(request, here.settings.scratch_dir) as upload:
        model = await run_in_threadpool(_inspect, upload)
        await run_in_threadpool(here.models.add, upload.path, model)
    response.headers["Location"] = f"/v1/models/{model.id}"
    return model


@router.get("/{id}", summary="Describe a model", responses=problems("not-found"))
def get_model(id: str, here: Here) -> Model:  # noqa: A002 - the API's name
    """Inputs, outputs, operators and multiply-accumulates of an uploaded model."""
    try:
        return here.models.get(id)
    except KeyError:
        raise ProblemError("not-found", f"there is no model {id!r}", field="id") from None
