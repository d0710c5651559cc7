"""Bodies of requests are taken as they are: none is unpacked here."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from service.limits import drain
from service.problems import ProblemError, respond

_WITHOUT_BODY = {"GET", "HEAD", "OPTIONS", "DELETE"}


class PlainBodies:
    """ASGI middleware: 415 for a body in a content coding, as RFC 9110 has it (section 15.5.16)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on if its body is plain."""
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
                await respond(error.problem, error.headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)
