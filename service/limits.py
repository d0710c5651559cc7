"""A limit on the body of every request, counted as the bytes arrive."""

from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.problems import ProblemError, respond

# a client that is still sending reads our answer only if we take what it sends, up to a point
_DRAIN = 64 << 20


class BodyLimit:
    """ASGI middleware: 413 for a body over the limit of its path, whether its length was declared or not."""

    def __init__(self, app: ASGIApp, limits: Mapping[str, int], default: int) -> None:
        self._app = app
        self._limits = limits
        self._default = default

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its body counted."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limits.get(scope["path"], self._default)
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > limit:
            error = _too_large(f"{int(declared)} bytes", limit)
            if int(declared) <= limit + _DRAIN:
                await drain(receive)
            await respond(error.problem, error.headers)(scope, receive, send)
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
    """Take what the client still sends, up to a point."""
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
