"""Reference: the catalogue of problem types, and the JSON Schemas of the documents that users write."""

from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.responses import PlainTextResponse

from accel.catalog.document_schema import MEDIA_TYPE, schema_digest, schema_text
from service.auth.route_policy import access
from service.http.conditional import etag_matches
from service.http.declarations import Responses
from service.http.problems import JOB_TYPES, RETIRED_TYPES, SERVICE_TYPES, ProblemError, accel_types

router = APIRouter()
# the ``type`` of a problem document leads to its entry in the catalogue
problem_types = APIRouter(prefix="/problems", tags=["problems"], default_response_class=PlainTextResponse)
schemas = APIRouter(prefix="/v1/schemas", tags=["schemas"])
_SCHEMA_ANSWERS: Responses = {
    200: {
        "description": "a JSON Schema, dialect 2020-12",
        "content": {MEDIA_TYPE: {"schema": {"type": "object"}}},
        "headers": {"ETag": {"description": "for If-None-Match", "schema": {"type": "string"}}},
    },
    304: {"description": "it is the one that If-None-Match names"},
}


def problem_catalogue() -> dict[str, str]:
    """Returns a sentence for every type of problem, by slug."""
    of_service = {slug: f"{title} (HTTP {status})" for slug, (status, title) in SERVICE_TYPES.items()}
    of_accel = {slug: f"{error.title} {(error.__doc__ or '').splitlines()[0]}" for slug, error in accel_types().items()}
    return dict(sorted((RETIRED_TYPES | of_service | JOB_TYPES | of_accel).items()))


@problem_types.get("", include_in_schema=False)
@access("open")
def list_problems() -> str:
    """Every type."""
    return "".join(f"/problems/{slug}\n    {meaning}\n" for slug, meaning in problem_catalogue().items())


@problem_types.get("/{slug}", include_in_schema=False)
@access("open")
def get_problem(slug: str) -> str:
    """One type."""
    meanings = problem_catalogue()
    if slug not in meanings:
        raise ProblemError("not-found", f"there is no type of problem {slug!r}")
    return f"{meanings[slug]}\n"


@schemas.get(
    "/accelerator",
    summary="The schema of an accelerator document",
    response_class=Response,
    responses=_SCHEMA_ANSWERS,
)
@access("open")
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


router.routes.extend([*problem_types.routes, *schemas.routes])
