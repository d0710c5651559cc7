"""HEAD: what GET answers, without its body (RFC 9110, section 9.3.2)."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

ASKED = "cyclops.head"  # of the scope: whether the client wants no body, for who would have much to say


class HeadAsGet:
    """ASGI middleware: the app sees a GET, the client no body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        inner = {**scope, "method": "GET", ASKED: True}
        try:
            await self._app(inner, receive, send_head)
        finally:
            scope["route"] = inner.get("route")  # for who looks at it afterwards
