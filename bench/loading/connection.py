"""A small HTTP client: one connection that is kept, requests one after the other, as little work as there can be.

The client shares the machine with what it measures, so what it costs counts.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple, Self


class Answer(NamedTuple):
    """Status, headers by their names in lower case, body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def document(self) -> Any:
        return json.loads(self.body)


class Connection:
    """A connection to ``127.0.0.1``."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 20))

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """Send a request, and read the whole answer."""
        self.send(method, path, body, **headers)
        return await self.receive()

    async def post(self, path: str, document: Mapping[str, Any]) -> Answer:
        return await self.ask("POST", path, json.dumps(document).encode(), **{"content-type": "application/json"})

    async def get(self, path: str) -> Answer:
        return await self.ask("GET", path)

    def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        lines = [f"{method} {path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def upload(self, path: str, chunks: Sequence[bytes]) -> Answer:
        """Post a body as fast as it is taken."""
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {sum(map(len, chunks))}\r\n"
        self._writer.write(head.encode() + b"content-type: application/octet-stream\r\n\r\n")
        for chunk in chunks:
            self._writer.write(chunk)
            await self._writer.drain()
        return await self.receive()

    async def receive(self) -> Answer:
        status, headers = await self._head()
        return Answer(status, headers, await self._reader.readexactly(int(headers.get("content-length", "0"))))

    async def _head(self) -> tuple[int, dict[str, str]]:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        return int(first.split(" ", 2)[1]), {name.lower(): value for name, value in headers.items()}

    async def events(self, path: str) -> AsyncIterator[tuple[str, Any]]:
        """The server-sent events of an answer: their kinds and data."""
        self.send("GET", path)
        status, _ = await self._head()
        if status != 200:
            raise ConnectionError(f"{path}: {status}")
        kind = ""
        async for line in self._reader:
            text = line.decode().rstrip("\r\n")
            if text.startswith("event: "):
                kind = text.removeprefix("event: ")
            elif text.startswith("data: "):
                yield kind, json.loads(text.removeprefix("data: "))
                if kind == "end":
                    return

    def close(self) -> None:
        self._writer.close()
