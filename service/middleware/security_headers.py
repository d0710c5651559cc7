"""Security headers, which keep other pages and injected content from doing harm in a browser."""

import base64
import hashlib
import re
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from worker.config.http_settings import HttpSettings

_DOCUMENTATION_PATHS = {"/docs", "/docs/oauth2-redirect"}
_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
_DENY_ALL = "default-src 'none'; base-uri 'none'; form-action 'none'"
# the documentation: its own scripts and this api; it sets styles one by one, and draws images from data
_DOCUMENTATION_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'self'; connect-src 'self'; font-src 'self' data:; "
    "img-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self'"
)
# our pages: nothing inline, and nothing of anybody else
_PAGE_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'self'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'"
)


class SecurityHeaders:
    """ASGI middleware: adds security headers. On documentation pages they name inline scripts by digest.

    A response that has a policy keeps it, whatever the settings say: it is that of a program of others.
    Our pages tell themselves where a request is from, also where others are told nothing: without a referrer a form
    says that its origin is ``null``, and is refused where the browser does not say ``Sec-Fetch-Site``.
    """

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app = app
        self._policy = settings.content_security_policy
        self._ancestors = f"; frame-ancestors {settings.frame_ancestors}"
        self._always = {"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin"}
        if settings.referrer_policy:
            self._always["Referrer-Policy"] = settings.referrer_policy
        if settings.hsts_seconds:
            self._always["Strict-Transport-Security"] = f"max-age={settings.hsts_seconds}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        held: list[Message] = []

        async def send_told(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self._always)
                if message["status"] == HTTPStatus.NOT_MODIFIED:
                    # what it says of a page takes the place of what the browser keeps of it
                    del headers["Referrer-Policy"]
                    await send(message)
                    return
                if scope["path"] in _DOCUMENTATION_PATHS and self._policy is None:
                    held.append(message)  # until its scripts are known
                    return
                page = headers.get("content-type", "").startswith("text/html")
                if page and headers.get("referrer-policy") == "no-referrer":
                    headers["Referrer-Policy"] = "same-origin"
                self._add_policy(headers, _PAGE_POLICY if page else _DENY_ALL)
            elif held:
                start = held.pop()
                self._add_policy(
                    MutableHeaders(scope=start),
                    " ".join([_DOCUMENTATION_POLICY, *_script_digests(message.get("body", b""))]),
                )
                await send(start)
            await send(message)

        await self._app(scope, receive, send_told)

    def _add_policy(self, headers: MutableHeaders, ours: str) -> None:
        policy = ours + self._ancestors if self._policy is None else self._policy
        if (own := headers.get("content-security-policy")) is not None:
            policy = own + self._ancestors
        if policy:
            headers["Content-Security-Policy"] = policy


def _script_digests(page: bytes) -> list[str]:
    """Returns the digests of the page's inline scripts, as a policy names them."""
    found = [base64.b64encode(hashlib.sha256(script).digest()).decode() for script in _SCRIPT.findall(page)]
    return [f"'sha256-{digest}'" for digest in found]
