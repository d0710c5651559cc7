"""Conditional requests and byte ranges (RFC 9110, sections 13 and 14)."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import pydantic
from fastapi import Depends, Header, Response
from fastapi.responses import StreamingResponse

from service.http.declarations import NOT_MODIFIED_RESPONSE, Responses, declare_problems
from service.http.problems import ProblemError

IfNoneMatch = Annotated[str | None, Header(description="an ETag that the client has: 304 if it still holds")]


def etag_matches(if_none_match: str | None, etag: str) -> bool:
    """Returns whether ``If-None-Match`` names the tag, or is ``*``.

    The comparison is weak, as the header asks for.
    """
    if if_none_match is None:
        return False
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in tags or etag in tags


def weak_if_client_names_it_weak(etag: str, if_none_match: str | None) -> str:
    """Returns the tag, as a weak one if the client names it so: a cache finds its copy by exactly that tag."""
    weak = f"W/{etag}"
    tags = [tag.strip() for tag in (if_none_match or "").split(",")]
    return weak if weak in tags and etag not in tags else etag


def respond_with_etag(
    document: pydantic.BaseModel, if_none_match: str | None, headers: Mapping[str, str] | None = None
) -> Response:
    """Returns the document with an ETag of its content, or 304 if the client has it; caches revalidate it each time."""
    body = document.model_dump_json().encode()
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    given = {"ETag": etag, "Cache-Control": "no-cache", **(headers or {})}
    if etag_matches(if_none_match, etag):
        return Response(status_code=304, headers=given)
    return Response(body, headers=given, media_type="application/json")


Range = Annotated[
    str | None, Header(description="one range of bytes: `bytes=0-1023`, `bytes=1024-`, or the last `bytes=-5`")
]
# no blob has more bytes than that many digits say, and int() takes no text of any length
_RANGE = re.compile(r"bytes=(?:([0-9]{1,20})-([0-9]{0,20})|-([0-9]{1,20}))", re.IGNORECASE)
RANGE_RESPONSES: Responses = {
    206: {"description": "the range", "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}},
    **declare_problems("range-not-satisfiable"),
}
CONDITIONAL_RESPONSES = RANGE_RESPONSES | NOT_MODIFIED_RESPONSE  # the ``responses`` of a route that takes Conditions
# what a blob's digest names never changes; who may read it is not for a shared cache to say
_FOREVER = "private, max-age=31536000, immutable"


@dataclass(frozen=True)
class Conditional:
    """The conditions of a request for a blob: the copy that the client has, and the range that it wants."""

    range: Range = None
    if_none_match: Annotated[str | None, Header(description="an ETag that the client has: 304 if it still holds")] = (
        None
    )
    if_range: Annotated[
        str | None, Header(description="an ETag: the range is of that, and if it does not hold the answer is whole")
    ] = None

    def applicable(self, etag: str | None) -> str | None:
        """Returns the range unless ``If-Range`` names another version; the comparison is strong."""
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
    """Streams a blob, or one range of it.

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
    headers = {"Content-Length": str(end - begin), "Accept-Ranges": "bytes"} | _immutable_headers(etag)
    if status == 206:
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
    if filename:
        headers["Content-Disposition"] = f'attachment; filename="{filename}"'
    chunks = stream(begin, end) if status == 206 else stream(0, None)
    return StreamingResponse(chunks, status, headers, media_type=media_type)


def _bounds(match: re.Match[str], size: int) -> tuple[int, int]:
    """Returns the begin and the end of the range; the end is not after the begin if it lies outside the blob."""
    first, last, suffix = match.groups()
    if suffix is not None:
        return max(0, size - int(suffix)), size
    return int(first), min(int(last or size) + 1, size)


def not_modified(conditions: Conditional, etag: str) -> Response | None:
    """Returns a 304 for a client that has the blob, else None."""
    return (
        Response(status_code=304, headers=_immutable_headers(etag))
        if etag_matches(conditions.if_none_match, etag)
        else None
    )


def _immutable_headers(etag: str | None) -> dict[str, str]:
    return {} if etag is None else {"ETag": etag, "Cache-Control": _FOREVER}
