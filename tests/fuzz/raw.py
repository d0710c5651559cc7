"""Requests as bytes, also such as no HTTP client would send."""

import json
import socket
import time
from dataclasses import dataclass
from urllib.parse import urlparse

_SILENT = 20.0  # seconds


@dataclass(frozen=True)
class Answer:
    """``status`` is 0 where there was none."""

    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float

    @property
    def problem(self) -> dict | None:
        """The problem document, if it is one."""
        if self.headers.get("content-type") != "application/problem+json":
            return None
        found = json.loads(self.body)
        assert isinstance(found, dict)
        return found


def request(
    method: bytes = b"GET", path: bytes = b"/", headers: bytes = b"", body: bytes = b"", media_type: bytes | None = None
) -> bytes:
    """A request of one connection; ``headers`` are whole lines."""
    lines = b"%b %b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" % (method, path)
    if media_type is not None:
        lines += b"Content-Type: " + media_type + b"\r\n"
    if body:
        lines += b"Content-Length: %d\r\n" % len(body)
    return lines + headers + b"\r\n" + body


def send(url: str, data: bytes) -> Answer:
    """What is answered to these bytes, until the connection is closed."""
    address = urlparse(url)
    begin = time.monotonic()
    received = b""
    with socket.create_connection((address.hostname, address.port), timeout=_SILENT) as connection:
        try:
            connection.sendall(data)
            while chunk := connection.recv(1 << 16):
                received += chunk
        except ConnectionError:
            pass
    return _parsed(received, time.monotonic() - begin)


def _parsed(received: bytes, seconds: float) -> Answer:
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = _joined(body)
    elif "content-length" in headers and body:
        body = body[: int(headers["content-length"])]  # another answer may follow
    return Answer(int(first.split(" ")[1]) if " " in first else 0, headers, body, seconds)


def _joined(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            return whole
        whole, body = whole + rest[:length], rest[length + 2 :]
    raise AssertionError("the answer broke off")
