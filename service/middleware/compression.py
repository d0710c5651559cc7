"""Compression of text responses in the content coding that the client prefers (RFC 9110, 8.4 and 12.5.3).

The response to a request with a range is left as it is, so that ranges are those of the stored bytes. A compressed
response has a weak ETag: it is not those bytes, but it stands for them, and ``If-None-Match`` compares weakly.
"""

import asyncio
import re
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, Protocol

from backports import zstd
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.conditional import weak_if_client_names_it_weak
from service.http.negotiation import qualities

ContentCoding = Literal["zstd", "gzip"]
_CODINGS: tuple[ContentCoding, ...] = ("zstd", "gzip")  # of equals the first
_ALIASES = {"x-gzip": "gzip"}
# both as fast as they can; of zstd the window, and with it the memory, is bounded: gzip's is 32 KiB
_ZSTD: dict[int, int] = {zstd.CompressionParameter.compression_level: 1, zstd.CompressionParameter.window_log: 18}
_GZIP_LEVEL, _GZIP_FORM = 1, 16 + zlib.MAX_WBITS
_TEXT = re.compile(r"text/(?!event-stream$).+|application/(json|jsonl|javascript|xml|yaml)|.+/.+\+(json|xml|yaml)")


class StreamEncoder(Protocol):
    """Encodes a body piece by piece."""

    def code(self, data: bytes, *, last: bool) -> bytes:
        """Returns the next coded bytes; the rest of them with the ``last`` piece."""


class _Gzip:
    def __init__(self) -> None:
        self._inner = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_FORM)

    def code(self, data: bytes, *, last: bool) -> bytes:
        coded = self._inner.compress(data)
        return coded + self._inner.flush() if last else coded


class _Zstd:
    def __init__(self) -> None:
        self._inner = zstd.ZstdCompressor(options=_ZSTD)

    def code(self, data: bytes, *, last: bool) -> bytes:
        return self._inner.compress(data, self._inner.FLUSH_FRAME if last else self._inner.CONTINUE)


def new_encoder(coding: ContentCoding) -> StreamEncoder:
    """Returns a new encoder of the coding."""
    return _Zstd() if coding == "zstd" else _Gzip()


def preferred_coding(accept_encoding: str) -> ContentCoding | None:
    """Returns the coding with the highest quality; None if the client prefers none, or none of these."""
    found = {_ALIASES.get(name, name): quality for name, quality in qualities(accept_encoding)}
    others = found.get("*", 0.0)
    best = max(_CODINGS, key=lambda coding: found.get(coding, others))
    quality = found.get(best, others)
    return best if quality > 0 and quality >= found.get("identity", 0.0) else None


def is_text(content_type: str) -> bool:
    """Returns whether a body of this type is worth coding: text, but not a stream of events."""
    return _TEXT.fullmatch(content_type.partition(";")[0].strip().lower()) is not None


_LEAST_BYTES = 1400  # bytes: less than that goes in one packet, coded or not
_INLINE = 32 << 10  # bytes that are coded faster than a thread is asked
_THREADS = 2
# streams that are coded at one time, each of them with up to a megabyte of memory; more go as they are
_AT_ONCE = 24
_WITHOUT_BODY = {204, 205, 304}
_PARTIAL = 206


class Compression:
    """ASGI middleware: encodes text responses in the client's preferred coding."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="compression")
        self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(Headers(scope=scope), send, self)
        try:
            await self._app(scope, receive, answer.take)
        finally:
            answer.close()

    def enter(self) -> bool:
        """Counts one more coded stream; returns False if there are as many as may be."""
        if self._streams >= _AT_ONCE:
            return False
        self._streams += 1
        return True

    def leave(self) -> None:
        """Counts one coded stream less."""
        self._streams -= 1

    async def code(self, by: StreamEncoder, data: bytes, *, last: bool) -> bytes:
        """Encodes a piece, in a thread if it is large."""
        if len(data) <= _INLINE:
            return by.code(data, last=last)
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: by.code(data, last=last))


class _Answer:
    """One response on its way to the client."""

    def __init__(self, request: Headers, send: Send, room: Compression) -> None:
        self._request = request
        self._send = send
        self._room = room
        self._held: Message | None = None
        self._coding: ContentCoding | None = None
        self._coder: StreamEncoder | None = None

    def close(self) -> None:
        """Releases the stream's slot, if it holds one."""
        if self._coder is not None:
            self._coder = None
            self._room.leave()

    async def take(self, message: Message) -> None:
        """Takes a message of the app, and sends it on, coded or not."""
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
        """Sends the head, or holds it back if it depends on the body."""
        headers = MutableHeaders(scope=start)
        ranged = "range" in self._request
        if start["status"] in _WITHOUT_BODY:
            if "etag" in headers:
                headers.add_vary_header("Accept-Encoding")
                if not ranged:
                    headers["ETag"] = weak_if_client_names_it_weak(headers["etag"], self._request.get("if-none-match"))
        elif start["status"] != _PARTIAL and "content-encoding" not in headers and _is_text(headers):
            headers.add_vary_header("Accept-Encoding")
            self._coding = None if ranged else preferred_coding(self._request.get("accept-encoding", ""))
            if self._coding is not None and int(headers.get("content-length", _LEAST_BYTES)) >= _LEAST_BYTES:
                self._held = start
                return
        await self._send(start)

    async def _first(self, start: Message, message: Message) -> None:
        """Sends the head that was held back and the first piece of the body, coded if that is worth it."""
        assert self._coding is not None
        data, more = message.get("body", b""), message.get("more_body", False)
        headers = MutableHeaders(scope=start)
        if (not more and len(data) < _LEAST_BYTES) or (more and not self._room.enter()):
            await self._send(start)
            await self._send(message)
            return
        headers["Content-Encoding"] = self._coding
        if "etag" in headers and not headers["etag"].startswith("W/"):
            headers["ETag"] = f"W/{headers['etag']}"
        if more:
            self._coder = new_encoder(self._coding)
            del headers["Content-Length"]
            await self._send(start)
            await self._next(message)
            return
        coded = await self._room.code(new_encoder(self._coding), data, last=True)
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
