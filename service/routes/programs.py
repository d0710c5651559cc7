"""Programs: instruction streams to simulate, from other jobs or from other tools."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from service.auth.caller import CurrentOwner
from service.auth.route_policy import access
from service.context import RequestUploads
from service.http.conditional import RANGE_RESPONSES, IfNoneMatch, Range
from service.http.declarations import NOT_MODIFIED_RESPONSE, declare_content, declare_problems, declare_upload_problems
from service.http.problems import ProblemError
from service.http.resources import Page, PageLimit, ProgramResource, ProgramSummary, UploadCursor
from service.uploads.canonical import canonical_program
from service.uploads.receive import label_of, receive_parts
from service.uploads.stored import LabelOfUpload, respond_with_page, send_upload, store_upload, upload_resource

router = APIRouter(prefix="/v1/programs", tags=["programs"])

_BINARY = {"type": "string", "format": "binary"}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "a Program file; or its parts, as a zip or as a form: `program.json`, `instructions.bin`, "
        "and the files that `program.json` names. In a form the part's name or its filename is the file's name.",
        "content": {
            "application/zip": {"schema": _BINARY},
            "application/octet-stream": {"schema": _BINARY},
            "multipart/form-data": {
                "schema": {"type": "object", "properties": {"file": _BINARY}, "additionalProperties": _BINARY}
            },
        },
    }
}


@router.post(
    "",
    status_code=201,
    summary="Upload a program",
    responses=declare_upload_problems("inspection-failed", "busy"),
    openapi_extra=_BODY,
)
@access("key", rate="uploads", max_body=lambda settings: settings.max_program_bytes)
async def post_program(
    request: Request, response: Response, uploads: RequestUploads, owner: CurrentOwner, label: LabelOfUpload = None
) -> ProgramResource:
    """Check a program and keep it as one Program file.

    Its id is that file's SHA-256; the same program again answers the same, however it was packed.
    """
    settings = uploads.settings
    async with receive_parts(request, settings.scratch_dir, limit=settings.max_program_files) as parts:
        path, program = await uploads.inspections.run(
            lambda: canonical_program(parts, parts[0].path.parent, uploads.inspector), owner
        )
        called = label_of(request, label)
        kept = await uploads.storing.run(lambda: store_upload(uploads.programs, path, program, called), owner)
    response.headers["Location"] = f"/v1/programs/{program.id}"
    return upload_resource(kept, ProgramResource)


@router.get("", summary="List the programs", response_model=Page[ProgramSummary], responses=NOT_MODIFIED_RESPONSE)
@access("key")
def list_programs(
    uploads: RequestUploads,
    limit: PageLimit = 50,
    cursor: UploadCursor = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Your programs, newest first, then the example. A page does not move when some are added."""
    return respond_with_page(
        uploads.programs, cursor, limit, lambda kept: upload_resource(kept, ProgramSummary), if_none_match
    )


@router.get("/{id}", summary="Describe a program", responses=declare_problems("not-found"))
@access("link", "programs")
def get_program(id: str, uploads: RequestUploads) -> ProgramResource:  # noqa: A002 - the API's name
    """Accelerator, size, inputs and outputs of an uploaded program."""
    try:
        return upload_resource(uploads.programs.kept(id), ProgramResource)
    except KeyError:
        raise ProblemError("not-found", f"there is no program {id!r}", field="id") from None


@router.get(
    "/{id}/content",
    summary="Download a program",
    response_class=StreamingResponse,
    responses=declare_content("the Program file", "application/zip") | RANGE_RESPONSES | declare_problems("not-found"),
)
@access("link", "programs", example=True)
def get_program_content(
    id: str,  # noqa: A002 - the API's name
    uploads: RequestUploads,
    range: Range = None,  # noqa: A002 - the header's name
) -> StreamingResponse:
    """The Program file, or one range of its bytes."""
    return send_upload(uploads.programs, get_program(id, uploads), range, "application/zip", "zip")
