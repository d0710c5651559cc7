"""The job's side of the line between its process and the one that attends to it."""

import logging
import socket
import threading
from collections.abc import Mapping
from typing import Any

from worker.frames import Frame, Frames, frame
from worker.job_record import Stage
from worker.messages import Entry, Get, Line, Progress, Put

_CHUNK = 1 << 20
_MOST_TEXT = 4096  # characters of a logged line


class Link(logging.Handler):
    """Sends stages and logged lines, and is the compiler's cache (``accel.cache.Cache``) at the other end of the line.

    It blocks, and may be used from several threads. Raises ConnectionError where the other process is gone.
    """

    def __init__(self, connection: socket.socket, most_body: int) -> None:
        super().__init__()
        self._connection = connection
        self._most_body = most_body
        self._frames = Frames(most_body)
        self._waiting: list[Frame] = []
        self._turn = threading.RLock()

    def send(self, document: Mapping[str, Any], body: bytes = b"") -> None:
        """Send a frame."""
        with self._turn:
            self._connection.sendall(frame(document, body))

    def receive(self) -> Frame:
        """The next frame."""
        with self._turn:
            while not self._waiting:
                data = self._connection.recv(_CHUNK)
                if not data:
                    raise ConnectionResetError("the process that attends to the job is gone")
                self._waiting += self._frames.feed(data)
            return self._waiting.pop(0)

    def stage(self, stage: Stage) -> None:
        """Tell how far the job is."""
        self.send(Progress(stage=stage).model_dump())

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a line of the log on."""
        text = f"{record.name}: {record.getMessage()}"
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        self.send(Line(level=min(max(record.levelno, 0), 100), text=text[:_MOST_TEXT]).model_dump())

    def get(self, key: str) -> bytes | None:
        """The entry of the cache, or None."""
        with self._turn:
            self.send(Get(key=key).model_dump())
            document, body = self.receive()
        return body if Entry.model_validate(document).found else None

    def put(self, key: str, data: bytes) -> None:
        """Keep an entry in the cache, unless it is too large."""
        if len(data) <= self._most_body:
            self.send(Put(key=key).model_dump(), data)
