"""Receiving uploads into temporary files: a raw body, a form's first file or all its parts, or Base64 in JSON."""

import base64
import contextlib
import fnmatch
import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pydantic
from fastapi import Request
from pydantic import ConfigDict, Field
from python_multipart.multipart import parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from service.http.json_bodies import parsed
from service.http.problems import ProblemError
from service.uploads.multipart import BrokenMultipartError, MultipartReader, OpenPart, Write
from worker.identity.ownership import MOST_LABEL, Label
from worker.process.scratch import scratch_directory

_RAW = ("application/octet-stream", "application/x-*", "application/zip", "application/onnx", "")
_BUFFER = 1 << 20
_LABEL = "label"  # of the form's field
_LABELS: pydantic.TypeAdapter[str] = pydantic.TypeAdapter(Label)
_MOST_LABEL = 4 * MOST_LABEL  # bytes
MOST_IN_JSON = 1 << 20


class InJson(pydantic.BaseModel):
    """A small file in JSON."""

    model_config = ConfigDict(extra="forbid")

    base64: str = Field(description="the file's bytes in Base64 (RFC 4648, section 4)")


@dataclass(frozen=True)
class ReceivedFile:
    """A received file."""

    path: Path
    sha256: str
    bytes: int


@dataclass(frozen=True)
class ReceivedPart:
    """A received part of a form, or a raw body, which has no name. ``filename`` is None for a field that is no file."""

    path: Path
    name: str = ""
    filename: str | None = None


class _FileWriter:
    """Writes and hashes; the writes reach the disk a buffer at a time."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.hash = hashlib.sha256()
        self.bytes = 0
        self.found = False

    def open_first_file(self, _name: str, filename: str | None) -> Write | None:
        if filename is None or self.found:
            return None
        self.found = True
        return self.write

    def write(self, data: bytes) -> None:
        self.hash.update(data)
        self._file.write(data)
        self.bytes += len(data)


class _PartsWriter:
    """Writes each part into a file of its own, one at a time; the files are numbered."""

    def __init__(self, directory: Path, limit: int) -> None:
        self._directory = directory
        self._limit = limit
        self._files = contextlib.ExitStack()
        self.parts: list[ReceivedPart] = []

    def open_part(self, name: str, filename: str | None) -> Write:
        if len(self.parts) == self._limit:
            raise ProblemError("too-large", f"the form has more than {self._limit} parts", field="body")
        self.close()
        part = ReceivedPart(self._directory / f"{len(self.parts)}", name, filename)
        self.parts.append(part)
        file = self._files.enter_context(part.path.open("wb", buffering=_BUFFER))

        def write(data: bytes) -> None:
            file.write(data)

        return write

    def close(self) -> None:
        self._files.close()


@contextlib.asynccontextmanager
async def receive_file(request: Request, directory: Path, raw: Sequence[str] = _RAW) -> AsyncIterator[ReceivedFile]:
    """Receives the request's file into a temporary file that goes away with the context.

    ``raw`` are the media types of a body that is the file itself; one may end in ``*``, and "" is none given.

    Raises:
        ProblemError: no body, a form without a file or an end, another media type, or a body over the limit.
    """
    with scratch_directory(directory, "upload") as folder:
        path = folder / "body"
        with path.open("wb", buffering=_BUFFER) as file:
            sink = _FileWriter(file)
            is_form = await _read_body(request, sink.write, sink.open_first_file, raw)
        if is_form and not sink.found:
            raise ProblemError("invalid-request", "the form has no file", field="body")
        if sink.bytes == 0:
            raise ProblemError("invalid-request", "the file is empty", field="body")
        yield ReceivedFile(path, sink.hash.hexdigest(), sink.bytes)


@contextlib.asynccontextmanager
async def receive_parts(request: Request, directory: Path, *, limit: int) -> AsyncIterator[list[ReceivedPart]]:
    """Receives every part of the request's form, or its raw body as the only one, into a temporary folder.

    Args:
        request: what is received.
        directory: where the folder is made.
        limit: most parts of a form.

    Raises:
        ProblemError: no body, a form without an end, too many parts, another media type, or a body over the limit.
    """
    with scratch_directory(directory, "upload") as folder:
        received = _PartsWriter(folder, limit)
        with contextlib.closing(received):
            write: list[Write] = []

            def raw(data: bytes) -> None:
                if not write:
                    write.append(received.open_part("", None))
                write[0](data)

            await _read_body(request, raw, received.open_part, _RAW)
        if not any(part.path.stat().st_size for part in received.parts):
            raise ProblemError("invalid-request", "there is no file, or all are empty", field="body")
        yield received.parts


async def _read_body(request: Request, raw: Write, open_part: OpenPart, types: Sequence[str]) -> bool:
    """Passes the body on as it arrives: a form to ``open_part``, others to ``raw``; returns whether it was a form."""
    try:
        if _is_json(request) and "application/json" not in types:
            await run_in_threadpool(raw, _decode_base64_body(await _small_body(request)))
            return False
        form = _multipart_reader(request, open_part, types)
        async for chunk in request.stream():
            await run_in_threadpool(raw if form is None else form.write, chunk)
    except BrokenMultipartError as error:
        raise ProblemError("bad-request", f"not multipart/form-data: {error}", field="body") from error
    except ClientDisconnect as error:
        raise ProblemError("bad-request", "the body broke off", field="body") from error
    if form is not None and not form.complete:
        raise ProblemError("bad-request", "the form broke off: its last boundary is missing", field="body")
    return form is not None


def _with_label(request: Request, open_part: OpenPart) -> OpenPart:
    """Returns ``open_part``, but for a field ``label``, whose text goes to :func:`label_of`."""

    def opened(name: str, filename: str | None) -> Write | None:
        if name != _LABEL or filename is not None:
            return open_part(name, filename)
        request.state.label = text = bytearray()

        def write(data: bytes) -> None:
            if len(text) <= _MOST_LABEL:  # what is longer is refused, whatever follows
                text.extend(data)

        return write

    return opened


def label_of(request: Request, asked: str | None) -> str | None:
    """Returns the label of a received upload: the field of its form, or else ``asked``, the query's.

    Raises:
        ProblemError: that of the form is none, or they differ.
    """
    text = getattr(request.state, _LABEL, None)
    if text is None:
        return asked
    try:
        label = _LABELS.validate_python(bytes(text).decode())
    except (UnicodeDecodeError, pydantic.ValidationError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, pydantic.ValidationError) else "it is not UTF-8"
        raise ProblemError("invalid-request", f"label: {why}", field=_LABEL) from error
    if asked not in {None, label}:
        raise ProblemError("invalid-request", "the query and the form have different labels", field=_LABEL)
    return label


def _is_json(request: Request) -> bool:
    return parse_options_header(request.headers.get("content-type", ""))[0] == b"application/json"


async def _small_body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_IN_JSON:
            detail = f"a file in JSON may have {MOST_IN_JSON} bytes; send larger ones as they are, or in a form"
            raise ProblemError("too-large", detail, field="body", headers={"Connection": "close"})
    return body


def _decode_base64_body(body: bytes) -> bytes:
    """Returns the file in a JSON body."""
    try:
        text = InJson.model_validate(parsed(body)).base64
    except json.JSONDecodeError as error:
        detail = f'not JSON: {error}; send {{"base64": "..."}}, or the file itself'
        raise ProblemError("invalid-request", detail, field="body") from error
    except pydantic.ValidationError as error:
        found = error.errors()[0]
        where = ".".join(map(str, found["loc"])) or "body"
        detail = f'{where}: {found["msg"]}; send {{"base64": "..."}}, or the file itself'
        raise ProblemError("invalid-request", detail, field=where) from error
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:  # of characters or of the padding
        raise ProblemError("invalid-request", f"base64: {error}", field="base64") from error


def _multipart_reader(request: Request, open_part: OpenPart, types: Sequence[str]) -> MultipartReader | None:
    media_type, options = parse_options_header(request.headers.get("content-type", ""))
    if media_type == b"multipart/form-data":
        if not (boundary := options.get(b"boundary")):
            raise ProblemError("bad-request", "the form's media type names no boundary", field="body")
        return MultipartReader(boundary, _with_label(request, open_part))
    found = media_type.decode("latin-1").lower()
    if not any(fnmatch.fnmatchcase(found, known) for known in types):
        named = ", ".join(known for known in types if known and "*" not in known)
        detail = f"{found}; send the file itself as one of {named}, or as the file of a multipart/form-data"
        raise ProblemError("unsupported-media-type", detail, field="body")
    return None
