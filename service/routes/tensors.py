"""Tensors: npz files with inputs or calibration data."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from service.auth.caller import CurrentOwner
from service.auth.route_policy import access
from service.context import RequestUploads
from service.http.conditional import RANGE_RESPONSES, IfNoneMatch, Range
from service.http.declarations import (
    NOT_MODIFIED_RESPONSE,
    declare_content,
    declare_problems,
    declare_upload_body,
    declare_upload_problems,
)
from service.http.problems import ProblemError
from service.http.resources import Page, PageLimit, TensorsResource, TensorsSummary, UploadCursor
from service.uploads.receive import label_of, receive_file
from service.uploads.stored import LabelOfUpload, respond_with_page, send_upload, store_upload, upload_resource
from worker.records.uploads import StoredUpload, Tensors

router = APIRouter(prefix="/v1/tensors", tags=["tensors"])


@router.post(
    "",
    status_code=201,
    summary="Upload tensors",
    responses=declare_upload_problems("inspection-failed", "busy"),
    openapi_extra=declare_upload_body("an npz file with one array for each input of a model, by its name"),
)
@access("key", rate="uploads", max_body=lambda settings: settings.max_tensors_bytes)
async def post_tensors(
    request: Request, response: Response, uploads: RequestUploads, owner: CurrentOwner, label: LabelOfUpload = None
) -> TensorsResource:
    """Check and keep an npz file. Its id is its SHA-256; the same file again answers the same."""
    async with receive_file(request, uploads.settings.scratch_dir) as upload:
        found = await uploads.inspections.run(lambda: uploads.inspector.tensors(upload.path), owner)
        tensors = Tensors(id=upload.sha256, bytes=upload.bytes, **found.model_dump())
        called = label_of(request, label)
        kept = await uploads.storing.run(lambda: store_upload(uploads.tensors, upload.path, tensors, called), owner)
    response.headers["Location"] = f"/v1/tensors/{tensors.id}"
    return upload_resource(kept, TensorsResource)


@router.get("", summary="List the tensors", response_model=Page[TensorsSummary], responses=NOT_MODIFIED_RESPONSE)
@access("key")
def list_tensors(
    uploads: RequestUploads,
    limit: PageLimit = 50,
    cursor: UploadCursor = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Your tensors, newest first, then the example. A page does not move when some are added."""
    return respond_with_page(uploads.tensors, cursor, limit, _summary, if_none_match)


def _summary(kept: StoredUpload[Tensors]) -> TensorsSummary:
    found = kept.document
    return TensorsSummary(
        id=found.id, bytes=found.bytes, arrays=len(found.tensors), label=kept.label, created=kept.created
    )


@router.get("/{id}", summary="Describe tensors", responses=declare_problems("not-found"))
@access("link", "tensors")
def get_tensors(id: str, uploads: RequestUploads) -> TensorsResource:  # noqa: A002 - the API's name
    """Names, element types and shapes of the arrays in an uploaded npz file."""
    try:
        return upload_resource(uploads.tensors.kept(id), TensorsResource)
    except KeyError:
        raise ProblemError("not-found", f"there are no tensors {id!r}", field="id") from None


@router.get(
    "/{id}/content",
    summary="Download tensors",
    response_class=StreamingResponse,
    responses=declare_content("the npz file", "application/zip") | RANGE_RESPONSES | declare_problems("not-found"),
)
@access("link", "tensors", example=True)
def get_tensors_content(
    id: str,  # noqa: A002 - the API's name
    uploads: RequestUploads,
    range: Range = None,  # noqa: A002 - the header's name
) -> StreamingResponse:
    """The file as it was sent, or one range of its bytes."""
    return send_upload(uploads.tensors, get_tensors(id, uploads), range, "application/zip", "npz")
