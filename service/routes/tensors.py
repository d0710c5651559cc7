"""Tensors: npz files with inputs or calibration data."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from service.caller import Owner
from service.context import Here
from service.documents import NOT_MODIFIED, content, problems, upload_body, upload_problems
from service.etags import IfNoneMatch
from service.pages import Limit, UploadCursor
from service.problems import ProblemError
from service.ranges import RANGED, Range
from service.schemas import Page, TensorsResource, TensorsSummary
from service.upload import label_of, receive
from service.uploaded import LabelOfUpload, keep, resource, respond_page, send_upload
from worker.records.uploads import StoredUpload, Tensors

router = APIRouter(prefix="/v1/tensors", tags=["tensors"])


@router.post(
    "",
    status_code=201,
    summary="Upload tensors",
    responses=upload_problems("inspection-failed", "busy"),
    openapi_extra=upload_body("an npz file with one array for each input of a model, by its name"),
)
async def post_tensors(
    request: Request, response: Response, here: Here, owner: Owner, label: LabelOfUpload = None
) -> TensorsResource:
    """Check and keep an npz file. Its id is its SHA-256; the same file again answers the same."""
    async with receive(request, here.settings.scratch_dir) as upload:
        found = await here.inspections.run(lambda: here.inspector.tensors(upload.path), owner)
        tensors = Tensors(id=upload.sha256, bytes=upload.bytes, **found.model_dump())
        called = label_of(request, label)
        kept = await here.keeping.run(lambda: keep(here.tensors, upload.path, tensors, called), owner)
    response.headers["Location"] = f"/v1/tensors/{tensors.id}"
    return resource(kept, TensorsResource)


@router.get("", summary="List the tensors", response_model=Page[TensorsSummary], responses=NOT_MODIFIED)
def list_tensors(
    here: Here,
    limit: Limit = 50,
    cursor: UploadCursor = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Your tensors, newest first, then the example. A page does not move when some are added."""
    return respond_page(here.tensors, cursor, limit, _summary, if_none_match)


def _summary(kept: StoredUpload[Tensors]) -> TensorsSummary:
    found = kept.document
    return TensorsSummary(
        id=found.id, bytes=found.bytes, arrays=len(found.tensors), label=kept.label, created=kept.created
    )


@router.get("/{id}", summary="Describe tensors", responses=problems("not-found"))
def get_tensors(id: str, here: Here) -> TensorsResource:  # noqa: A002 - the API's name
    """Names, element types and shapes of the arrays in an uploaded npz file."""
    try:
        return resource(here.tensors.kept(id), TensorsResource)
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
