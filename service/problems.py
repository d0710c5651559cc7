"""Every error of the service as a problem document (RFC 9457), and the catalogue of their types."""

import http
import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from accel import errors
from accel.errors import CyclopsError
from worker.problem import FieldError, Problem, problem_of

_log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"

# problems that the service itself finds: slug -> (status, title)
SERVICE_TYPES = {
    "not-found": (404, "There is no such resource."),
    "method-not-allowed": (405, "The resource does not have this method."),
    "not-acceptable": (406, "The resource has none of the accepted media types."),
    "conflict": (409, "The resource is not in a state for this."),
    "too-large": (413, "The body is larger than the limit."),
    "unsupported-media-type": (415, "The body has a media type that is not read here."),
    "range-not-satisfiable": (416, "The range lies outside the resource."),
    "invalid-request": (422, "The request does not have the documented form."),
    "unknown-model": (422, "There is no model of this id."),
    "unknown-program": (422, "There is no program of this id."),
    "unknown-tensors": (422, "There are no tensors of this id."),
    "unknown-accelerator": (422, "There is no accelerator of this id."),
    "plan-failed": (422, "The model cannot be planned within the limits."),
    "internal-error": (500, "Something went wrong on our side."),
    "queue-unavailable": (503, "The queue cannot be reached."),
    "busy": (503, "As many requests of this kind are under way as may be."),
    "not-ready": (503, "The service is not ready."),
    "bad-request": (400, "The request cannot be understood."),
}
# problems that only a job's record shows: slug -> title
JOB_TYPES = {
    "worker-lost": "The worker died while it ran the job.",
    "job-died": "The process that ran the job died.",
    "time-limit": "The job took longer than the limit.",
    "memory-limit": "The job needed more memory than the limit.",
}
_BY_STATUS = {
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    413: "too-large",
    500: "internal-error",
}


class ProblemError(HTTPException):
    """Raised anywhere in a request: answered as a problem of one of our types.

    It is an HTTPException because FastAPI lets only those through while it reads a body.
    """

    def __init__(
        self, slug: str, detail: str, *, field: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        status, title = SERVICE_TYPES[slug]
        super().__init__(status, detail=detail, headers=headers)
        self.problem = Problem(type=f"/problems/{slug}", title=title, status=status, detail=detail, field=field)


def accel_types() -> dict[str, type[CyclopsError]]:
    """The errors of the library that are the input's fault, by slug."""
    found = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, CyclopsError)]
    return {error.type: error for error in found}


def respond(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """The response that carries a problem; its status must be set."""
    assert problem.status is not None
    body = problem.model_dump(mode="json")
    return JSONResponse(body, problem.status, headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Answer every exception of the app as a problem."""
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(CyclopsError, _on_input)
    app.add_exception_handler(Exception, _on_exception)


async def _on_http(request: Request, error: Exception) -> Response:
    error = cast(HTTPException, error)
    if isinstance(error, ProblemError):
        return respond(error.problem, error.headers)
    slug = _BY_STATUS.get(error.status_code, "bad-request")
    detail = f"{request.method} {request.url.path}: {error.detail}"
    title = SERVICE_TYPES[slug][1]
    # it is while it reads a body that FastAPI finds a request bad
    field = "body" if slug == "bad-request" else None
    problem = Problem(type=f"/problems/{slug}", title=title, status=error.status_code, detail=detail, field=field)
    headers = dict(error.headers or {})
    if error.status_code == http.HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = _methods(request)
    return respond(problem, headers)


def _methods(request: Request) -> str:
    """The methods of the request's path; the exception has only those of the first route that matched it."""
    known = ("GET", "POST", "PUT", "PATCH", "DELETE")
    scopes = {method: dict(request.scope, method=method) for method in known}
    routes = request.app.routes
    found = [m for m, scope in scopes.items() if any(r.matches(scope)[0] == Match.FULL for r in routes)]
    return ", ".join(["GET", "HEAD", *found[1:]] if found[:1] == ["GET"] else found)


async def _on_validation(_request: Request, error: Exception) -> Response:
    found = [found for item in cast(RequestValidationError, error).errors() for found in _field_errors(item)]
    status, title = SERVICE_TYPES["invalid-request"]
    detail = "; ".join(f"{item.field}: {item.message}" for item in found)
    problem = Problem(
        type="/problems/invalid-request", title=title, status=status, detail=detail, field=found[0].field, errors=found
    )
    return respond(problem)


def _field_errors(item: Mapping[str, Any]) -> list[FieldError]:
    location: Sequence[str | int] = item["loc"]
    if item["type"] == "json_invalid":
        message = f"{item['msg']}: {item['ctx']['error']} at character {location[-1]}"
        return [FieldError(field="body", message=message)]
    if item["type"] == "model_attributes_type" and len(location) == 1:
        return [FieldError(field="body", message="must be a JSON object, with the media type application/json")]
    if item["type"] == "contradiction":
        return [FieldError(field=field, message=item["msg"]) for field in item["ctx"]["fields"]]
    # the first part says where: body, query, path
    path = ".".join(str(part) for part in location[1:]) or str(location[0])
    return [FieldError(field=path, message=item["msg"])]


async def _on_input(_request: Request, error: Exception) -> Response:
    return respond(problem_of(cast(CyclopsError, error), status=http.HTTPStatus.UNPROCESSABLE_ENTITY))


async def _on_exception(request: Request, error: Exception) -> Response:
    _log.error("%s %s", request.method, request.url.path, exc_info=error)
    status, title = SERVICE_TYPES["internal-error"]
    detail = "the error has been logged; the service goes on"
    return respond(Problem(type="/problems/internal-error", title=title, status=status, detail=detail))
