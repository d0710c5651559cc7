"""Answering with a stored blob, or with one range of its bytes (RFC 9110, section 14)."""

import re
from collections.abc import Callable, Iterator
from typing import Annotated

from fastapi import Header
from fastapi.responses import StreamingResponse

from service.problems import ProblemError

Range = Annotated[str | None, Header(description="one range of bytes, such as `bytes=0-1023`")]
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


def send_blob(
    size: int,
    stream: Callable[[int, int | None], Iterator[bytes]],
    media_type: str,
    requested: str | None = None,
    *,
    filename: str | None = None,
) -> StreamingResponse:
    """Stream a blob, or one range of it.

    Args:
        size: its bytes.
        stream: gives bytes ``[begin, end)`` of it; end None is its own.
        media_type: what it is.
        requested: the Range header; a form of range that we do not serve is ignored.
        filename: the name under which a browser saves it.

    Raises:
        ProblemError: the range lies outside it.
    """
    begin, end, status = 0, size, 200
    if requested and (match := _RANGE.fullmatch(requested)):
        begin, end, status = int(match[1]), min(int(match[2] or size) + 1, size), 206
        if begin >= end:
            raise ProblemError(
                "range-not-satisfiable", f"{requested} of {size}", headers={"Content-Range": f"bytes */{size}"}
            )
    headers = {"Content-Length": str(end - begin), "Accept-Ranges": "bytes"}
    if status == 206:
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
    if filename:
        headers["Content-Disposition"] = f'attachment; filename="{filename}"'
    chunks = stream(begin, end) if status == 206 else stream(0, None)
    return StreamingResponse(chunks, status, headers, media_type=media_type)
