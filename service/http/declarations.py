"""Declarations of responses and request bodies, with which routes describe themselves in the OpenAPI document."""

from typing import Any

from service.http.problems import MEDIA_TYPE, SERVICE_TYPES

Responses = dict[int | str, dict[str, Any]]
NOT_MODIFIED_RESPONSE: Responses = {304: {"description": "the client has it"}}


def declare_problems(*slugs: str) -> Responses:
    """Returns the ``responses`` of a route that can answer these problems.

    FastAPI's own ``model`` would file the schema under application/json.
    """
    responses: Responses = {}
    for slug in slugs:
        status, title = SERVICE_TYPES[slug]
        body = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        known = responses.setdefault(status, {"description": "", "content": body})
        known["description"] = f"{known['description']} {title}".strip()
    return responses


def declare_content(description: str, *media_types: str) -> Responses:
    """Returns the ``responses`` of a route that answers 200 with bytes or text of these media types."""
    return {200: {"description": description, "content": {media: _schema(media) for media in media_types}}}


def declare_document(description: str, model: Any) -> Responses:
    """Returns the ``responses`` of a route that streams a JSON document of this model."""
    return {200: {"description": description, "model": model}}


def declare_upload_problems(*slugs: str) -> Responses:
    """Returns the ``responses`` of an upload: these problems, and those that every upload can answer."""
    before = ("bad-request", "conflict", "too-large", "unsupported-media-type", "invalid-request")
    return declare_problems(*before, *slugs, "disk-full")


def declare_upload_body(description: str) -> dict[str, Any]:
    """Returns the ``openapi_extra`` of an upload that takes the raw file, or a form with it."""
    binary = {"type": "string", "format": "binary"}
    form = {"type": "object", "required": ["file"], "properties": {"file": binary}}
    return {
        "requestBody": {
            "required": True,
            "description": description,
            "content": {"application/octet-stream": {"schema": binary}, "multipart/form-data": {"schema": form}},
        }
    }


def _schema(media: str) -> dict[str, Any]:
    if media == "application/json":
        return {"schema": {"type": "object"}}
    if media.startswith("text/"):
        return {"schema": {"type": "string"}}
    return {"schema": {"type": "string", "format": "binary"}}
