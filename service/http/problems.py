"""Problem documents (RFC 9457) for every error of the service, and the catalogue of their types."""

import contextlib
import errno
import http
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from accel import errors
from accel.errors import CyclopsError
from service.http.request_context import REQUEST_ID_FIELD, REQUEST_ID_HEADER, request_id
from worker.records.listing.list_order import CursorError
from worker.records.problem_details import INTERNAL, FieldError, Problem, problem_of
from worker.records.upload_locks import BeingDeletedError
from worker.sandbox.confined_tasks import RefusedError
from worker.sandbox.fork_client import NotStartedError
from worker.storage.identifiers import new_id
from worker.storage.object_store import StoreUnavailableError

_log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"

# problems that the service itself finds: slug -> (status, title)
SERVICE_TYPES = {
    "unauthorized": (401, "The request carries no key that may enter."),
    "forbidden-host": (403, "The service is not asked for by a name of its own."),
    "cross-origin": (403, "Pages of other sites may change nothing."),
    "not-found": (404, "There is no such resource."),
    "method-not-allowed": (405, "The resource does not have this method."),
    "not-acceptable": (406, "The resource has none of the accepted media types."),
    "request-timeout": (408, "The request did not come in time."),
    "conflict": (409, "The resource is not in a state for this."),
    "in-use": (409, "A job needs the resource."),
    "too-large": (413, "The body is larger than the limit."),
    "unsupported-media-type": (415, "The body has a media type or a coding that is not read here."),
    "range-not-satisfiable": (416, "The range lies outside the resource."),
    "idempotency-key-reused": (422, "The Idempotency-Key came with another request before."),
    "invalid-request": (422, "The request does not have the documented form."),
    "unknown-model": (422, "There is no model of this id."),
    "unknown-program": (422, "There is no program of this id."),
    "unknown-tensors": (422, "There are no tensors of this id."),
    "unknown-accelerator": (422, "There is no accelerator of this id."),
    "plan-failed": (422, "The model cannot be planned within the limits."),
    "inspection-failed": (422, "The file cannot be examined within the limits."),
    "rate-limited": (429, "There were too many requests of this kind in a short time."),
    "too-many-at-once": (429, "As many requests of this kind of yours are under way as may be."),
    "queue-full": (429, "As many jobs wait as may."),
    INTERNAL[0]: (500, INTERNAL[1]),
    "queue-unavailable": (503, "The queue cannot be reached."),
    "store-unavailable": (503, "The store cannot be reached."),
    "disk-full": (503, "The service has no room on its disk."),
    "busy": (503, "As many requests of this kind are under way as may be."),
    "not-ready": (503, "The service is not ready."),
    "bad-request": (400, "The request cannot be understood."),
}
# problems that only a job's record shows: slug -> title
JOB_TYPES = {
    "worker_lost": "The processes that ran the job died, each time.",
    "time-limit": "The job took longer than the limit.",
    "memory-limit": "The job needed more memory than the limit.",
    "output-limit": "The job wrote more than the limit.",
}
# problems of records that earlier versions wrote, which still lead somewhere: slug -> title
RETIRED_TYPES = {
    "verification-failed": "The outputs of a compiled program differed from the reference: today an `internal-error`.",
}
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
_MOST_ERRORS = 100  # of the fields of one request
_BY_STATUS = {
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    413: "too-large",
    500: "internal-error",
}


class ProblemError(HTTPException):
    """An error that is answered as a problem of one of the service's types; may be raised anywhere in a request.

    It is an HTTPException because FastAPI lets only those through while it reads a body.
    """

    def __init__(
        self, slug: str, detail: str, *, field: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        self.problem = _problem(slug, detail, field=field)
        super().__init__(SERVICE_TYPES[slug][0], detail=detail, headers=headers)


@contextlib.contextmanager
def refused_cursors() -> Iterator[None]:
    """Has a cursor that does not continue the list answered as a problem.

    Raises:
        ProblemError: the cursor is of another sort.
    """
    try:
        yield
    except CursorError as error:
        raise ProblemError("invalid-request", str(error), field="cursor") from None


def _problem(slug: str, detail: str, *, field: str | None = None, errors: list[FieldError] | None = None) -> Problem:
    status, title = SERVICE_TYPES[slug]
    return Problem(type=f"/problems/{slug}", title=title, status=status, detail=detail, field=field, errors=errors)


def accel_types() -> dict[str, type[CyclopsError]]:
    """Returns the library's errors that are the input's fault, by slug."""
    found = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, CyclopsError)]
    return {error.type: error for error in found}


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Returns the response that carries a problem, whose status must be set."""
    assert problem.status is not None
    named = request_id()
    body = problem.model_copy(update={REQUEST_ID_FIELD: named}).model_dump(mode="json")
    return JSONResponse(body, problem.status, {**(headers or {}), **_id_header(named)}, media_type=MEDIA_TYPE)


def _id_header(named: str | None) -> dict[str, str]:
    return {REQUEST_ID_HEADER: named} if named is not None else {}


def install_problem_handlers(app: FastAPI) -> None:
    """Has every exception of the app answered as a problem."""
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(CyclopsError, _on_input)
    app.add_exception_handler(RefusedError, _on_refused)
    app.add_exception_handler(StoreUnavailableError, _on_store)
    app.add_exception_handler(OSError, _on_system)
    app.add_exception_handler(NotStartedError, _on_not_started)
    app.add_exception_handler(BeingDeletedError, _on_erasing)
    app.add_exception_handler(Exception, unexpected_error_response)


async def _on_http(request: Request, error: Exception) -> Response:
    error = cast(HTTPException, error)
    if isinstance(error, ProblemError):
        return problem_response(error.problem, error.headers)
    slug = _BY_STATUS.get(error.status_code, "bad-request")
    detail = f"{request.method} {request.url.path}: {error.detail}"
    title = SERVICE_TYPES[slug][1]
    # it is while it reads a body that FastAPI finds a request bad
    field = "body" if slug == "bad-request" else None
    problem = Problem(type=f"/problems/{slug}", title=title, status=error.status_code, detail=detail, field=field)
    headers = dict(error.headers or {})
    if error.status_code == http.HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = _methods(request)
    return problem_response(problem, headers)


def _methods(request: Request) -> str:
    """Returns the methods of the request's path; the exception has those of the first matching route alone."""
    known = ("GET", "POST", "PUT", "PATCH", "DELETE")
    scopes = {method: dict(request.scope, method=method) for method in known}
    routes = request.app.routes
    found = [m for m, scope in scopes.items() if any(r.matches(scope)[0] == Match.FULL for r in routes)]
    return ", ".join(["GET", "HEAD", *found[1:]] if found[:1] == ["GET"] else found)


async def _on_validation(_request: Request, error: Exception) -> Response:
    found = [found for item in cast(RequestValidationError, error).errors() for found in _field_errors(item)]
    found = found[:_MOST_ERRORS]
    detail = "; ".join(f"{item.field}: {item.message}" for item in found)
    return problem_response(_problem("invalid-request", detail, field=found[0].field, errors=found))


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
    return problem_response(problem_of(cast(CyclopsError, error), status=http.HTTPStatus.UNPROCESSABLE_ENTITY))


async def _on_refused(_request: Request, error: Exception) -> Response:
    problem = cast(RefusedError, error).problem
    return problem_response(problem.model_copy(update={"status": http.HTTPStatus.UNPROCESSABLE_ENTITY}))


async def _on_store(request: Request, error: Exception) -> Response:
    return store_unavailable_response(request.method, request.url.path, error)


def store_unavailable_response(method: str, path: str, error: Exception) -> Response:
    """Logs that the store cannot be reached, and returns the 503."""
    _log.error("%s %s: %s", method, path, error)
    return problem_response(_problem("store-unavailable", "try again later"), {"Retry-After": "5"})


async def _on_system(request: Request, error: Exception) -> Response:
    if cast(OSError, error).errno not in _NO_ROOM:
        return await unexpected_error_response(request, error)
    _log.error("%s %s: %s", request.method, request.url.path, error)
    detail = "the request was refused and nothing of it was stored; try again later"
    return problem_response(_problem("disk-full", detail), {"Retry-After": "30"})


async def _on_not_started(request: Request, error: Exception) -> Response:
    _log.error("%s %s: %s", request.method, request.url.path, error)
    detail = "the service's host could not start a process for it; nothing is wrong with the request: try again later"
    return problem_response(_problem("busy", detail), {"Retry-After": "5"})


async def _on_erasing(_request: Request, _error: Exception) -> Response:
    detail = "another request uploads it, deletes it or submits a job with it at this moment; try again"
    return problem_response(_problem("conflict", detail), {"Retry-After": "1"})


async def unexpected_error_response(request: Request, error: Exception) -> Response:
    """Logs a defect of ours under a new incident, and returns the 500 that names it."""
    incident = new_id()
    _log.error("incident %s: %s %s", incident, request.method, request.url.path, exc_info=error)
    found = _problem("internal-error", "the error has been logged under this incident; the service continues")
    return problem_response(found.model_copy(update={"incident": incident}))
