"""Programs: instruction streams to simulate, of other jobs or of other people's tools."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from service.caller import Owner
from service.context import Here
from service.documents import NOT_MODIFIED, content, problems, upload_problems
from service.etags import IfNoneMatch
from service.pages import Limit, UploadCursor
from service.problems import ProblemError
from service.programs import canonical
from service.ranges import RANGED, Range
from service.schemas import Page, ProgramResource, ProgramSummary
from service.upload import label_of, receive_parts
from service.uploaded import LabelOfUpload, keep, resource, respond_page, send_upload

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
    responses=upload_problems("inspection-failed", "busy"),
    openapi_extra=_BODY,
)
async def post_program(
    request: Request, response: Response, here: Here, owner: Owner, label: LabelOfUpload = None
) -> ProgramResource:
    """Check a program and keep it as one Program file.

    Its id is that file's SHA-256; the same program again answers the same, however it was packed.
    """
    settings = here.settings
    async with receive_parts(request, settings.scratch_dir, limit=settings.max_program_files) as parts:
        path, program = await here.inspections.run(
            lambda: canonical(parts, parts[0].path.parent, here.inspector), owner
        )
        called = label_of(request, label)
        kept = await here.keeping.run(lambda: keep(here.programs, path, program, called), owner)
    response.headers["Location"] = f"/v1/programs/{program.id}"
    return resource(kept, ProgramResource)


@router.get("", summary="List the programs", response_model=Page[ProgramSummary], responses=NOT_MODIFIED)
def list_programs(
    here: Here,
    limit: Limit = 50,
    cursor: UploadCursor = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Your programs, newest first, then the example. A page does not move when some are added."""
    return respond_page(here.programs, cursor, limit, lambda kept: resource(kept, ProgramSummary), if_none_match)


@router.get("/{id}", summary="Describe a program", responses=problems("not-found"))
def get_program(id: str, here: Here) -> ProgramResource:  # noqa: A002 - the API's name
    """Accelerator, size, inputs and outputs of an uploaded program."""
    try:
        return resource(here.programs.kept(id), ProgramResource)
    except KeyError:
        raise ProblemError("not-found", f"there is no program {id!r}", field="id") from None


@router.get(
    "/{id}/content",
    summary="Download a program",
    response_class=StreamingResponse,
    responses=content("the Program file", "application/zip") | RANGED | problems("not-found"),
)
def get_program_content(
    id: str,  # noqa: A002 - the API's name
    here: Here,
    range: Range = None,  # noqa: A002 - the header's name
) -> StreamingResponse:
    """The Program file, or one range of its bytes."""
    return send_upload(here.programs, get_program(id, here), range, "application/zip", "zip")
