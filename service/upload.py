"""Uploads: a raw body, or the first file of a form, streamed into a temporary file."""

import contextlib
import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fastapi import Request
from python_multipart import MultipartParser
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from service.problems import ProblemError

_RAW = ("application/octet-stream", "application/x-npz", "application/zip", "application/onnx", "")
_BUFFER = 1 << 20


@dataclass(frozen=True)
class Upload:
    """A received file."""

    path: Path
    sha256: str
    bytes: int


class _Sink:
    """Writes and hashes; the writes reach the disk a buffer at a time."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.hash = hashlib.sha256()
        self.bytes = 0

    def write(self, data: bytes) -> None:
        self.hash.update(data)
        self._file.write(data)
        self.bytes += len(data)


class _Form:
    """The first file part of multipart/form-data (RFC 7578); other parts are passed over."""

    def __init__(self, boundary: bytes, sink: _Sink) -> None:
        self._sink = sink
        self._header = b""
        self._name = b""
        self._in_file = False
        self.found = False
        self.complete = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._part_begin,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_part_data": self._part_data,
                "on_part_end": self._part_end,
                "on_end": self._end,
            },
        )

    def write(self, data: bytes) -> None:
        self._parser.write(data)

    def _part_begin(self) -> None:
        self._name = self._header = b""

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_end(self) -> None:
        if self._name.lower() == b"content-disposition" and not self.found:
            self._in_file = b"filename" in parse_options_header(self._header)[1]
            self.found = self._in_file
        self._name = self._header = b""

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self._sink.write(data[start:end])

    def _part_end(self) -> None:
        self._in_file = False

    def _end(self) -> None:
        self.complete = True


@contextlib.asynccontextmanager
async def receive(request: Request, directory: Path) -> AsyncIterator[Upload]:
    """The request's file, in a temporary file that goes away with the context.

    Raises:
        ProblemError: no body, a form without a file or an end, another media type, or a body over the limit.
    """
    with tempfile.NamedTemporaryFile(dir=directory, prefix="upload-", buffering=_BUFFER) as file:
        sink = _Sink(file)
        form = _form(request, sink)
        write: Callable[[bytes], None] = sink.write if form is None else form.write
        try:
            async for chunk in request.stream():
                await run_in_threadpool(write, chunk)
        except MultipartParseError as error:
            raise ProblemError("bad-request", f"not multipart/form-data: {error}", field="body") from error
        except ClientDisconnect as error:
            raise ProblemError("bad-request", "the body broke off", field="body") from error
        if form is not None and not form.complete:
            raise ProblemError("bad-request", "the form broke off: its last boundary is missing", field="body")
        if form is not None and not form.found:
            raise ProblemError("invalid-request", "the form has no file", field="body")
        if sink.bytes == 0:
            raise ProblemError("invalid-request", "the file is empty", field="body")
        file.flush()
        yield Upload(Path(file.name), sink.hash.hexdigest(), sink.bytes)


def _form(request: Request, sink: _Sink) -> _Form | None:
    media_type, options = parse_options_header(request.headers.get("content-type", ""))
    if media_type == b"multipart/form-data":
        if not (boundary := options.get(b"boundary")):
            raise ProblemError("bad-request", "the form's media type names no boundary", field="body")
        return _Form(boundary, sink)
    if media_type.decode("latin-1") not in _RAW and not media_type.startswith(b"application/x-"):
        detail = f"{media_type.decode('latin-1')}; send the file itself as application/octet-stream, or as a form"
        raise ProblemError("unsupported-media-type", detail, field="body")
    return None
