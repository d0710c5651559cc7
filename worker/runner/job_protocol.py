"""Messages between a job's process and its supervisor: frames of a JSON document and bytes, which are only data."""

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from worker.execution.job_inputs import ModelJobInputs, ProgramJobInputs
from worker.records.job_record import Stage, Summary
from worker.records.problem_details import Problem

_LENGTHS = struct.Struct("!II")  # bytes of the document, bytes of the body
_MOST_DOCUMENT = 1 << 20
_HEADROOM = 4096  # a body may be its limit and a little more: what limits it may count without its own header

Frame = tuple[dict[str, Any], bytes]


class BrokenFrameError(Exception):
    """The received bytes are no frame, or a frame above the limit."""


def encode_frame(document: Mapping[str, Any], body: bytes = b"") -> bytes:
    """Returns the bytes of a frame."""
    text = json.dumps(document).encode()
    return _LENGTHS.pack(len(text), len(body)) + text + body


class Frames:
    """Assembles frames from received bytes.

    Args:
        most_body: the most bytes of a frame's body.
    """

    def __init__(self, most_body: int) -> None:
        self._most_body = most_body + _HEADROOM
        self._arrived = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Adds received bytes and yields the frames that are complete.

        Raises:
            BrokenFrameError: the bytes are no frame.
        """
        self._arrived += data
        while len(self._arrived) >= _LENGTHS.size:
            document, body = _LENGTHS.unpack_from(self._arrived)
            if document > _MOST_DOCUMENT or body > self._most_body:
                raise BrokenFrameError(f"a frame of {document} and {body} bytes")
            begin, end = _LENGTHS.size + document, _LENGTHS.size + document + body
            if len(self._arrived) < end:
                return
            found = _parsed(bytes(self._arrived[_LENGTHS.size : begin])), bytes(self._arrived[begin:end])
            del self._arrived[:end]
            yield found


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenFrameError(f"a frame that is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise BrokenFrameError("a frame that is no object")
    return document


_Key = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class StageMessage(pydantic.BaseModel):
    """Reports the stage of the job."""

    kind: Literal["progress"] = "progress"
    stage: Stage


class LogMessage(pydantic.BaseModel):
    """Reports a log record."""

    kind: Literal["line"] = "line"
    level: Annotated[int, Field(ge=0, le=100)]
    text: str


class CacheGet(pydantic.BaseModel):
    """Requests an entry of the cache. The answer is :class:`CacheEntry`."""

    kind: Literal["get"] = "get"
    key: _Key


class CachePut(pydantic.BaseModel):
    """Stores an entry in the cache: the frame's body."""

    kind: Literal["put"] = "put"
    key: _Key


_Family = Annotated[str, Field(max_length=100)]


class FamilyRequest(pydantic.BaseModel):
    """Requests that a family's kernels are on the disk. The answer is :class:`CacheEntry`, not found."""

    kind: Literal["family"] = "family"
    family: _Family


class KernelRequest(pydantic.BaseModel):
    """Requests the object code of a kernel, whose text is the frame's body. The answer is :class:`CacheEntry`."""

    kind: Literal["kernel"] = "kernel"
    family: _Family


class Succeeded(pydantic.BaseModel):
    """Reports the result of the job."""

    kind: Literal["succeeded"] = "succeeded"
    result: Summary


class Failed(pydantic.BaseModel):
    """Reports the problem that the job fails with."""

    kind: Literal["failed"] = "failed"
    problem: Problem


class CacheEntry(pydantic.BaseModel):
    """The answer to :class:`CacheGet` and to requests for kernels: the frame's body, if there is one."""

    found: bool


Request = CacheGet | CachePut | FamilyRequest | KernelRequest
JobMessage = StageMessage | LogMessage | Request | Succeeded | Failed
_JOB_MESSAGE: pydantic.TypeAdapter[JobMessage] = pydantic.TypeAdapter(
    Annotated[JobMessage, Field(discriminator="kind")]
)
_MODEL_WORK = pydantic.TypeAdapter(ModelJobInputs)
_PROGRAM_WORK = pydantic.TypeAdapter(ProgramJobInputs)


def parse_message(frame: Frame) -> JobMessage:
    """Returns the message in a frame of the job's process.

    Raises:
        BrokenFrameError: the document is no message.
    """
    try:
        return _JOB_MESSAGE.validate_python(frame[0])
    except pydantic.ValidationError as error:
        raise BrokenFrameError(str(error)) from error


def encode_inputs(work: ModelJobInputs | ProgramJobInputs) -> dict[str, Any]:
    """Returns the document of the first frame to the job's process: its inputs."""
    if isinstance(work, ProgramJobInputs):
        return {"kind": "program", "work": _PROGRAM_WORK.dump_python(work, mode="json")}
    return {"kind": "model", "work": _MODEL_WORK.dump_python(work, mode="json")}


def decode_inputs(document: dict[str, Any]) -> ModelJobInputs | ProgramJobInputs:
    """Returns the inputs that :func:`encode_inputs` encoded."""
    form = _PROGRAM_WORK if document["kind"] == "program" else _MODEL_WORK
    return form.validate_python(document["work"])
