"""HEAD: what GET answers, without its body (RFC 9110, section 9.3.2)."""

import contextlib

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class _Enough(Exception):  # noqa: N818 - it is none
    """The client has all that it asked for."""


class HeadAsGet:
    """ASGI middleware: the app sees a GET, the client no body; of a long one only the beginning is made."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] != "http.response.body":
                await send(message)
                return
            await send({**message, "body": b"", "more_body": False})
            if message.get("more_body", False):
                raise _Enough

        inner = {**scope, "method": "GET"}
        try:
            with contextlib.suppress(_Enough):
                await self._app(inner, receive, send_head)
        finally:
            scope["route"] = inner.get("route")  # for who looks at it afterwards
