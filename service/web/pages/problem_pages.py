"""Problems as pages: where a browser asks for a page and is answered with a problem, it is shown one."""

import json
from urllib.parse import urlencode

from fastapi import Request
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.auth.session_cookie import LOGIN_PATH, forget_key, key_in_cookie
from service.http.negotiation import negotiate
from service.http.problems import MEDIA_TYPE, ProblemError, unexpected_error_response
from service.web.templating.rendering import render, see_other

# addresses of programs, whose answers do not depend on who asks
_PROGRAMS = ("/v1/", "/problems", "/docs", "/openapi.json", "/healthz", "/readyz", "/metrics", "/static")
_FORMATS = {"problem": MEDIA_TYPE, "page": "text/html"}
_UNAUTHORIZED = 401
# of the problem's own; the rest is of the page
_KEPT = ("retry-after", "allow", "x-request-id", "connection", "ratelimit")


class ProblemPages:
    """ASGI middleware: shows problems as pages to browsers, and leads who needs a key to the log-in.

    The cookie of a key that is not known any more is taken away.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on."""
        if scope["type"] != "http" or not _wants_page(scope):
            await self._app(scope, receive, send)
            return
        held: list[Message] = []

        async def take(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_problem(message):
                held.append(message)
            elif not held:
                await send(message)
            else:
                held.append(message)
                if not message.get("more_body", False):
                    await _page(scope, held)(scope, receive, send)

        await self._app(scope, receive, take)


async def unexpected_error_page(request: Request, error: Exception) -> Response:
    """Returns the answer to a request that met a defect of ours, which is logged: a page if it asks for one."""
    answer = await unexpected_error_response(request, error)
    return _problem_page(request.scope, answer.body, answer.headers) if _wants_page(request.scope) else answer


def _is_problem(start: Message) -> bool:
    return Headers(raw=start["headers"]).get("content-type") == MEDIA_TYPE


def _wants_page(scope: Scope) -> bool:
    if scope["path"].startswith(_PROGRAMS):
        return False
    try:
        return negotiate(_FORMATS, None, Headers(scope=scope).get("accept")) == "page"
    except ProblemError:
        return False


def _page(scope: Scope, held: list[Message]) -> Response:
    """Returns the page in place of a problem's response: its start, and the parts of its body."""
    start, *parts = held
    if start["status"] == _UNAUTHORIZED and scope["path"] != LOGIN_PATH:
        return _to_login(scope)
    body = b"".join(part.get("body", b"") for part in parts)
    return _problem_page(scope, body, Headers(raw=start["headers"]))


def _problem_page(scope: Scope, body: bytes | memoryview, headers: Headers) -> Response:
    problem = json.loads(bytes(body))
    kept = {name: headers[name] for name in _KEPT if name in headers}
    return render(Request(scope), "problem.html", problem["status"], kept, problem=problem)


def _to_login(scope: Scope) -> Response:
    target = LOGIN_PATH
    if scope["method"] == "GET":
        query = scope["query_string"].decode("latin-1")
        following = scope["path"] + (f"?{query}" if query else "")
        target += "?" + urlencode({"next": following})
    answer = see_other(target)
    if key_in_cookie(Headers(scope=scope)) is not None:
        forget_key(answer)
    return answer
