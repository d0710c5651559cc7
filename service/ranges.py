"""Answering with a stored blob, or with one range of its bytes (RFC 9110, sections 13 and 14)."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Response
from fastapi.responses import StreamingResponse

from service.documents import NOT_MODIFIED, Responses, problems
from service.etags import matches
from service.problems import ProblemError

Range = Annotated[
    str | None, Header(description="one range of bytes: `bytes=0-1023`, `bytes=1024-`, or the last `bytes=-5`")
]
# no blob has more bytes than that many digits say, and int() takes no text of any length
_RANGE = re.compile(r"bytes=(?:([0-9]{1,20})-([0-9]{0,20})|-([0-9]{1,20}))", re.IGNORECASE)
RANGED: Responses = {
    206: {"description": "the range", "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}},
    **problems("range-not-satisfiable"),
}
CONDITIONAL = RANGED | NOT_MODIFIED  # the ``responses`` of a route that takes Conditions
# what a blob's digest names never changes; who may read it is not for a shared cache to say
_FOREVER = "private, max-age=31536000, immutable"


@dataclass(frozen=True)
class Conditional:
    """What a request says that the client has of a blob, and wants of it."""

    range: Range = None
    if_none_match: Annotated[str | None, Header(description="an ETag that the client has: 304 if it still holds")] = (
        None
    )
    if_range: Annotated[
        str | None, Header(description="an ETag: the range is of that, and if it does not hold the answer is whole")
    ] = None

    def applicable(self, etag: str | None) -> str | None:
        """The range, if it is of what is at hand; ``If-Range`` compares strongly."""
        return self.range if self.if_range is None or self.if_range == etag else None


Conditions = Annotated[Conditional, Depends()]


def send_blob(
    size: int,
    stream: Callable[[int, int | None], Iterator[bytes]],
    media_type: str,
    requested: str | None = None,
    *,
    filename: str | None = None,
    etag: str | None = None,
) -> StreamingResponse:
    """Stream a blob, or one range of it.

    Args:
        size: its bytes.
        stream: gives bytes ``[begin, end)`` of it; end None is its own.
        media_type: what it is.
        requested: the Range header; a form of range that we do not serve is ignored.
        filename: the name under which a browser saves it.
        etag: the ETag of a blob that never changes.

    Raises:
        ProblemError: the range lies outside it.
    """
    begin, end, status = 0, size, 200
    if requested and (match := _RANGE.fullmatch(requested)):
        begin, end, status = *_bounds(match, size), 206
        if begin >= end:
            raise ProblemError(
                "range-not-satisfiable", f"{requested} of {size}", headers={"Content-Range": f"bytes */{size}"}
            )
    headers = {"Content-Length": str(end - begin), "Accept-Ranges": "bytes"} | _lasting(etag)
    if status == 206:
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
    if filename:
        headers["Content-Disposition"] = f'attachment; filename="{filename}"'
    chunks = stream(begin, end) if status == 206 else stream(0, None)
    return StreamingResponse(chunks, status, headers, media_type=media_type)


def _bounds(match: re.Match[str], size: int) -> tuple[int, int]:
    """Where the range begins and ends; it has no bytes, or less, if it cannot be had."""
    first, last, suffix = match.groups()
    if suffix is not None:
        return max(0, size - int(suffix)), size
    return int(first), min(int(last or size) + 1, size)


def not_modified(conditions: Conditional, etag: str) -> Response | None:
    """304 for a client that has it, else None."""
    return Response(status_code=304, headers=_lasting(etag)) if matches(conditions.if_none_match, etag) else None


def _lasting(etag: str | None) -> dict[str, str]:
    return {} if etag is None else {"ETag": etag, "Cache-Control": _FOREVER}
