"""Bodies: a size limit for each request, counted as the bytes arrive; no content codings; none for HEAD."""

import contextlib

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.auth.route_policy import RoutePolicies
from service.http.problems import ProblemError, problem_response
from worker.config.settings import Settings

# a client that is still sending reads our answer only if we take what it sends, up to a point
_DRAIN = 64 << 20


class BodyLimit:
    """ASGI middleware: answers 413 to a body over the limit of its route, with or without a declared length."""

    def __init__(self, app: ASGIApp, settings: Settings, policies: RoutePolicies) -> None:
        self._app = app
        self._settings = settings
        self._policies = policies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on with its body counted."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._policies.match(scope).policy.max_body(self._settings)
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > limit:
            error = _too_large(f"{int(declared)} bytes", limit)
            if int(declared) <= limit + _DRAIN:
                await drain(receive)
            await problem_response(error.problem, error.headers)(scope, receive, send)
            return
        await self._app(scope, _counted(receive, limit), send)


def _counted(receive: Receive, limit: int) -> Receive:
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > limit:
                if message.get("more_body", False):
                    await drain(receive)
                raise _too_large("more", limit)
        return message

    return counted


async def drain(receive: Receive) -> None:
    """Reads and drops what the client still sends, up to 64 MiB."""
    left = _DRAIN
    while left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return


def _too_large(found: str, limit: int) -> ProblemError:
    return ProblemError(
        "too-large",
        f"the body has {found}; the limit is {limit} bytes",
        field="body",
        headers={"Connection": "close"},
    )


_WITHOUT_BODY = {"GET", "HEAD", "OPTIONS", "DELETE"}


class RefuseContentCodings:
    """ASGI middleware: answers 415 to a body in a content coding (RFC 9110, section 15.5.16)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on if its body is not coded."""
        if scope["type"] == "http" and scope["method"] not in _WITHOUT_BODY:
            coding = Headers(scope=scope).get("content-encoding", "identity").strip()
            if coding.lower() not in {"", "identity"}:
                await drain(receive)
                error = ProblemError(
                    "unsupported-media-type",
                    f"the body is in the coding {coding[:40]!r}: send it without one",
                    field="Content-Encoding",
                    headers={"Accept-Encoding": "identity"},
                )
                await problem_response(error.problem, error.headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class _HeadComplete(Exception):  # noqa: N818 - it is none
    """Ends the app's response, as the client has its head."""


class HeadAsGet:
    """ASGI middleware: answers HEAD by the app's GET without its body, of which only the beginning is made."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] != "http.response.body":
                await send(message)
                return
            await send({**message, "body": b"", "more_body": False})
            if message.get("more_body", False):
                raise _HeadComplete

        inner = {**scope, "method": "GET"}
        try:
            with contextlib.suppress(_HeadComplete):
                await self._app(inner, receive, send_head)
        finally:
            scope["route"] = inner.get("route")  # for who looks at it afterwards
