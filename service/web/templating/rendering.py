"""Rendering of pages: what each says around its content, its links, and the response."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Form, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from service.auth.caller import LOCAL_CALLER, NO_OWNER, Caller
from service.context import app_context
from service.http.conditional import etag_matches
from service.web.templating.bundle import Bundle
from service.web.templating.environment import make_environment
from service.web.templating.perfetto_viewer import has_viewer
from service.web.templating.static_files import static_url

_MOST_PATH = 8000  # characters of an address on this service, with a search and a cursor
BackField = Annotated[str | None, Form(max_length=_MOST_PATH)]  # the page that a form leads back to
BackQuery = Annotated[str | None, Query(max_length=_MOST_PATH)]
_HEADERS = {"Cache-Control": "private, no-cache", "Vary": "Accept, Authorization, Cookie"}
_ENVIRONMENT = make_environment()
_ENVIRONMENT.globals.update({"static": static_url, "island": Bundle.read().island, "has_viewer": has_viewer})


class Frame:
    """What every page says around its content.

    Attributes:
        keys: whether keys are needed.
        member: whether the reader has a key, or needs none; else a link let him in, or nothing.
        share: the token of the share link by which the reader came; None where none was needed.
        path: the address of the page, without its query.
        here: the same with its query.
    """

    def __init__(self, request: Request) -> None:
        self.here = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
        self.keys = app_context(request).settings.auth != "off"
        self.path = request.url.path
        caller = getattr(request.state, "caller", None) or (None if self.keys else LOCAL_CALLER)
        self.member = isinstance(caller, Caller) and caller.owner != NO_OWNER
        by_link = isinstance(caller, Caller) and caller.shared is not None
        self.share = request.query_params.get("share") if by_link else None

    def link(self, path: str, **query: object) -> str:
        """Returns an address on this service, with the token of the share link by which the reader came."""
        given = {name: value for name, value in query.items() if value is not None}
        if self.share is not None:
            given["share"] = self.share
        return f"{path}?{urlencode(given, doseq=True)}" if given else path

    def tables_of(self, job_id: str) -> Callable[[str], str]:
        """Returns what gives the address of a job's table as CSV."""
        return lambda table: self.link(f"/v1/jobs/{job_id}/report/{table}.csv")


def frame_of(request: Request) -> Frame:
    """Returns what the page that answers ``request`` says around its content, and the links that it makes."""
    return Frame(request)


def render(
    request: Request, template: str, status: int = 200, headers: Mapping[str, str] | None = None, **values: Any
) -> Response:
    """Returns a page; 304 to a reader who has it.

    Args:
        request: the request that it answers.
        template: the name of its template.
        status: its HTTP status.
        headers: more of them.
        values: what the template names.
    """
    frame = frame_of(request)
    text = _ENVIRONMENT.get_template(template).render(frame=frame, link=frame.link, **values)
    if status != 200:
        return HTMLResponse(text, status, {**_HEADERS, **(headers or {})})
    etag = f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
    given = {**_HEADERS, "ETag": etag, **(headers or {})}
    if etag_matches(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=given)
    return HTMLResponse(text, status, given)


def see_other(path: str) -> RedirectResponse:
    """Returns the answer that leads from a form to the page at ``path``, which the browser asks for with GET."""
    return RedirectResponse(path, 303)


def local_path(text: str | None, default: str = "/") -> str:
    """Returns ``text`` if it is a path on this service, with a query or without; else ``default``.

    Browsers take a backslash for a slash, two slashes for the begin of a host's name, and leave control characters out.
    """
    if text is None or not text.startswith("/") or text.startswith("//") or "\\" in text:
        return default
    return text if text.isascii() and text.isprintable() and " " not in text else default
