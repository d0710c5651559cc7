"""Conditional requests (RFC 9110, section 13.1.2)."""

import hashlib
from collections.abc import Mapping
from typing import Annotated

import pydantic
from fastapi import Header, Response

IfNoneMatch = Annotated[str | None, Header(description="an ETag that the client has: 304 if it still holds")]


def matches(if_none_match: str | None, etag: str) -> bool:
    """Whether the client has what is at hand: one of the tags of its If-None-Match is ``etag``, or it is ``*``.

    The comparison is weak, as the header asks for.
    """
    if if_none_match is None:
        return False
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in tags or etag in tags


def weakly_named(etag: str, if_none_match: str | None) -> str:
    """The tag, weak if that is how the client names it: a cache finds what it has by the very tag."""
    weak = f"W/{etag}"
    tags = [tag.strip() for tag in (if_none_match or "").split(",")]
    return weak if weak in tags and etag not in tags else etag


def respond(
    document: pydantic.BaseModel, if_none_match: str | None, headers: Mapping[str, str] | None = None
) -> Response:
    """The document with an ETag of its content, or 304 if the client has it: it is to ask each time."""
    body = document.model_dump_json().encode()
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    given = {"ETag": etag, "Cache-Control": "no-cache", **(headers or {})}
    if matches(if_none_match, etag):
        return Response(status_code=304, headers=given)
    return Response(body, headers=given, media_type="application/json")
