"""The trace: every instruction, decoded, with its time and its origin."""

import tempfile
from collections.abc import Callable, Iterator
from typing import Annotated, Literal, TextIO, cast

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import JSONResponse, StreamingResponse

from service.context import Here
from service.documents import content, problems
from service.negotiate import negotiate
from service.pages import Limit
from service.problems import ProblemError
from service.routes.artifacts import artifacts_of, send

router = APIRouter(prefix="/v1/jobs/{id}/trace", tags=["results"])
_FORMATS = {
    "json": "application/json",
    "csv": "text/csv",
    "text": "text/plain",
    "binary": "application/octet-stream",
}
_CHUNK = 1 << 20
_IN_MEMORY = 8 << 20


def _spool(write: Callable[[TextIO], None]) -> Iterator[bytes]:
    """What ``write`` writes, through a temporary file, so that its size does not matter."""
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, mode="w+", encoding="utf-8", newline="") as file:
        write(cast(TextIO, file))
        file.seek(0)
        while text := file.read(_CHUNK):
            yield text.encode()


@router.get(
    "",
    summary="The trace",
    response_class=Response,
    responses=content("the trace; JSON comes in pages, the other formats whole", *_FORMATS.values())
    | problems("not-found", "not-acceptable", "conflict"),
)
def get_trace(
    id: str,  # noqa: A002 - the API's name
    here: Here,
    format: Annotated[  # noqa: A002 - the API's name
        Literal["json", "csv", "text", "binary"] | None, Query(description="wins over the Accept header")
    ] = None,
    accept: Annotated[str | None, Header(include_in_schema=False)] = None,
    limit: Limit = 100,
    cursor: Annotated[
        str | None, Query(pattern="^[0-9]{1,12}$", description="`next_cursor` of the page before")
    ] = None,
) -> Response:
    """Each instruction: unit, fields, start and end cycle, what it waited for, and its origin in the model.

    `binary` is the raw instruction stream, as the accelerator fetches it.
    """
    chosen = negotiate(_FORMATS, format, accept)
    artifacts = artifacts_of(here, id)
    if chosen == "binary":
        return send(artifacts, "instructions.bin", filename="instructions.bin")
    try:
        trace = here.traces.get(id, artifacts)
    except KeyError:
        raise ProblemError("not-found", "the job has left no trace", field="id") from None
    if chosen == "json":
        begin = int(cursor or 0)
        following = str(begin + limit) if begin + limit < len(trace) else None
        return JSONResponse({"items": trace.page(begin, limit), "next_cursor": following})
    write = trace.write_csv if chosen == "csv" else trace.write_text
    return StreamingResponse(_spool(write), media_type=_FORMATS[chosen])
