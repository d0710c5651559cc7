"""Answers that are text, compressed as the client accepts it.

An answer to a request with a range is left as it is, so that ranges are those of the bytes that are stored. What is
compressed has a weak ETag: it is not those bytes, but it stands for them, and ``If-None-Match`` compares weakly.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.encodings import Coder, Coding, chosen, coder, is_text
from service.etags import weakly_named

_LEAST = 1400  # bytes: less than that goes in one packet, coded or not
_INLINE = 32 << 10  # bytes that are coded faster than a thread is asked
_THREADS = 2
# streams that are coded at one time, each of them with up to a megabyte of memory; more go as they are
_AT_ONCE = 24
_WITHOUT_BODY = {204, 205, 304}
_PARTIAL = 206


class Compression:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="compression")
        self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(Headers(scope=scope), send, self)
        try:
            await self._app(scope, receive, answer.take)
        finally:
            answer.close()

    def enter(self) -> bool:
        """Whether there is room for one more stream; then it is in."""
        if self._streams >= _AT_ONCE:
            return False
        self._streams += 1
        return True

    def leave(self) -> None:
        """One stream less."""
        self._streams -= 1

    async def code(self, by: Coder, data: bytes, *, last: bool) -> bytes:
        """Code a piece, in a thread if it is a large one."""
        if len(data) <= _INLINE:
            return by.code(data, last=last)
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: by.code(data, last=last))


class _Answer:
    """One answer on its way."""

    def __init__(self, request: Headers, send: Send, room: Compression) -> None:
        self._request = request
        self._send = send
        self._room = room
        self._held: Message | None = None
        self._coding: Coding | None = None
        self._coder: Coder | None = None

    def close(self) -> None:
        """Nothing more comes."""
        if self._coder is not None:
            self._coder = None
            self._room.leave()

    async def take(self, message: Message) -> None:
        """What the app sends."""
        if message["type"] == "http.response.start":
            await self._begin(message)
        elif message["type"] == "http.response.body" and self._held is not None:
            start, self._held = self._held, None
            await self._first(start, message)
        elif message["type"] == "http.response.body" and self._coder is not None:
            await self._next(message)
        else:
            await self._send(message)

    async def _begin(self, start: Message) -> None:
        """Hold the head back if it depends on the body."""
        headers = MutableHeaders(scope=start)
        ranged = "range" in self._request
        if start["status"] in _WITHOUT_BODY:
            if "etag" in headers:
                headers.add_vary_header("Accept-Encoding")
                if not ranged:
                    headers["ETag"] = weakly_named(headers["etag"], self._request.get("if-none-match"))
        elif start["status"] != _PARTIAL and "content-encoding" not in headers and _is_text(headers):
            headers.add_vary_header("Accept-Encoding")
            self._coding = None if ranged else chosen(self._request.get("accept-encoding", ""))
            if self._coding is not None and int(headers.get("content-length", _LEAST)) >= _LEAST:
                self._held = start
                return
        await self._send(start)

    async def _first(self, start: Message, message: Message) -> None:
        """Now it is known whether the whole body is at hand."""
        assert self._coding is not None
        data, more = message.get("body", b""), message.get("more_body", False)
        headers = MutableHeaders(scope=start)
        if (not more and len(data) < _LEAST) or (more and not self._room.enter()):
            await self._send(start)
            await self._send(message)
            return
        headers["Content-Encoding"] = self._coding
        if "etag" in headers and not headers["etag"].startswith("W/"):
            headers["ETag"] = f"W/{headers['etag']}"
        if more:
            self._coder = coder(self._coding)
            del headers["Content-Length"]
            await self._send(start)
            await self._next(message)
            return
        coded = await self._room.code(coder(self._coding), data, last=True)
        headers["Content-Length"] = str(len(coded))
        await self._send(start)
        await self._send({**message, "body": coded})

    async def _next(self, message: Message) -> None:
        assert self._coder is not None
        data, more = message.get("body", b""), message.get("more_body", False)
        coded = await self._room.code(self._coder, data, last=not more)
        if coded or not more:
            await self._send({**message, "body": coded})
        if not more:
            self.close()


def _is_text(headers: Headers) -> bool:
    return is_text(headers.get("content-type", "")) and "no-transform" not in headers.get("cache-control", "")
