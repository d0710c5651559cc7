"""Programs: instruction streams to simulate, of other jobs or of other people's tools."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from service.caller import Owner
from service.context import Here
from service.documents import content, problems, upload_problems
from service.problems import ProblemError
from service.programs import canonical
from service.ranges import RANGED, Range
from service.upload import receive_parts
from service.uploaded import send_upload
from worker.uploads import ProgramInfo

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
            "multipart/form-data": {"schema": {"type": "object", "additionalProperties": _BINARY}},
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
async def post_program(request: Request, response: Response, here: Here, owner: Owner) -> ProgramInfo:
    """Check a program and keep it as one Program file.

    Its id is that file's SHA-256; the same program again answers the same, however it was packed.
    """
    settings = here.settings
    async with receive_parts(request, settings.scratch_dir, limit=settings.max_program_files) as parts:
        path, program = await here.inspections.run(
            lambda: canonical(parts, parts[0].path.parent, here.inspector), owner
        )
        await here.keeping.run(lambda: here.programs.add(path, program), owner)
    response.headers["Location"] = f"/v1/programs/{program.id}"
    return program


@router.get("/{id}", summary="Describe a program", responses=problems("not-found"))
def get_program(id: str, here: Here) -> ProgramInfo:  # noqa: A002 - the API's name
    """Accelerator, size, inputs and outputs of an uploaded program."""
    try:
        return here.programs.get(id)
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
