"""Tensors: npz files with inputs or calibration data."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from service.caller import Owner
from service.context import Here
from service.documents import content, problems, upload_body, upload_problems
from service.problems import ProblemError
from service.ranges import RANGED, Range
from service.upload import receive
from service.uploaded import send_upload
from worker.uploads import Tensors

router = APIRouter(prefix="/v1/tensors", tags=["tensors"])


@router.post(
    "",
    status_code=201,
    summary="Upload tensors",
    responses=upload_problems("inspection-failed", "busy"),
    openapi_extra=upload_body("an npz file with one array for each input of a model, by its name"),
)
async def post_tensors(request: Request, response: Response, here: Here, owner: Owner) -> Tensors:
    """Check and keep an npz file. Its id is its SHA-256; the same file again answers the same."""
    async with receive(request, here.settings.scratch_dir) as upload:
        found = await here.inspections.run(lambda: here.inspector.tensors(upload.path), owner)
        tensors = Tensors(id=upload.sha256, bytes=upload.bytes, **found.model_dump())
        await here.keeping.run(lambda: here.tensors.add(upload.path, tensors), owner)
    response.headers["Location"] = f"/v1/tensors/{tensors.id}"
    return tensors


@router.get("/{id}", summary="Describe tensors", responses=problems("not-found"))
def get_tensors(id: str, here: Here) -> Tensors:  # noqa: A002 - the API's name
    """Names, element types and shapes of the arrays in an uploaded npz file."""
    try:
        return here.tensors.get(id)
    except KeyError:
        raise ProblemError("not-found", f"there are no tensors {id!r}", field="id") from None


@router.get(
    "/{id}/content",
    summary="Download tensors",
    response_class=StreamingResponse,
    responses=content("the npz file", "application/zip") | RANGED | problems("not-found"),
)
def get_tensors_content(
    id: str,  # noqa: A002 - the API's name
    here: Here,
    range: Range = None,  # noqa: A002 - the header's name
) -> StreamingResponse:
    """The file as it was sent, or one range of its bytes."""
    return send_upload(here.tensors, get_tensors(id, here), range, "application/zip", "npz")
