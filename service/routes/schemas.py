"""The JSON Schemas of the documents that users write."""

from typing import Annotated

from fastapi import APIRouter, Header, Response

from accel.catalog.document_schema import MEDIA_TYPE, schema_digest, schema_text
from service.http.conditional import etag_matches
from service.http.declarations import Responses

router = APIRouter(prefix="/v1/schemas", tags=["schemas"])

_ANSWERS: Responses = {
    200: {
        "description": "a JSON Schema, dialect 2020-12",
        "content": {MEDIA_TYPE: {"schema": {"type": "object"}}},
        "headers": {"ETag": {"description": "for If-None-Match", "schema": {"type": "string"}}},
    },
    304: {"description": "it is the one that If-None-Match names"},
}


@router.get(
    "/accelerator", summary="The schema of an accelerator document", response_class=Response, responses=_ANSWERS
)
def get_accelerator_schema(
    if_none_match: Annotated[str | None, Header(description="ETags of the copies that the client has")] = None,
) -> Response:
    """What a document may say, field by field, and what each installed family asks of `parameters`.

    It holds for this service: another one may have other families. Editors complete and check documents by it.
    """
    text = schema_text()
    etag = f'"{schema_digest(text)[:32]}"'
    headers = {"ETag": etag, "Cache-Control": "public, max-age=3600"}
    if etag_matches(if_none_match, etag):
        return Response(status_code=304, headers=headers)
    return Response(text, headers=headers, media_type=MEDIA_TYPE)
