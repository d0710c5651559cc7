"""Tensors: npz files with inputs or calibration data."""

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from service.context import Here
from service.documents import problems, upload_body
from service.problems import ProblemError
from service.upload import Upload, receive
from worker.settings import Settings
from worker.tensors import Npz
from worker.uploads import Tensors

router = APIRouter(prefix="/v1/tensors", tags=["tensors"])


def _inspect(upload: Upload, settings: Settings) -> Tensors:
    with upload.path.open("rb") as file:
        npz = Npz(file, max_bytes=settings.max_tensors_bytes, max_arrays=settings.max_arrays)
        npz.check_data()
    return Tensors(id=upload.sha256, bytes=upload.bytes, tensors=npz.tensors)


@router.post(
    "",
    status_code=201,
    summary="Upload tensors",
    responses=problems("bad-request", "too-large", "unsupported-media-type", "invalid-request"),
    openapi_extra=upload_body("an npz file with one array for each input of a model, by its name"),
)
async def post_tensors(request: Request, response: Response, here: Here) -> Tensors:
    """Check and keep an npz file. Its id is its SHA-256; the same file again answers the same."""
    async with receive(request, here.settings.scratch_dir) as upload:
        tensors = await run_in_threadpool(_inspect, upload, here.settings)
        await run_in_threadpool(here.tensors.add, upload.path, tensors)
    response.headers["Location"] = f"/v1/tensors/{tensors.id}"
    return tensors


@router.get("/{id}", summary="Describe tensors", responses=problems("not-found"))
def get_tensors(id: str, here: Here) -> Tensors:  # noqa: A002 - the API's name
    """Names, element types and shapes of the arrays in an uploaded npz file."""
    try:
        return here.tensors.get(id)
    except KeyError:
        raise ProblemError("not-found", f"there are no tensors {id!r}", field="id") from None
