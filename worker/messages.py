"""What the process of a job and the one that attends to it say to each other, as frames."""

from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from worker.frames import BrokenFrameError, Frame
from worker.job_record import Stage, Summary
from worker.problem import Problem
from worker.work import ProgramWork, Work

_Key = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Progress(pydantic.BaseModel):
    """The job is so far."""

    kind: Literal["progress"] = "progress"
    stage: Stage


class Line(pydantic.BaseModel):
    """Something was logged."""

    kind: Literal["line"] = "line"
    level: Annotated[int, Field(ge=0, le=100)]
    text: str


class Get(pydantic.BaseModel):
    """The job wants an entry of the cache. The answer is :class:`Entry`."""

    kind: Literal["get"] = "get"
    key: _Key


class Put(pydantic.BaseModel):
    """The job has made an entry of the cache, the frame's body."""

    kind: Literal["put"] = "put"
    key: _Key


class Succeeded(pydantic.BaseModel):
    """The job is done."""

    kind: Literal["succeeded"] = "succeeded"
    result: Summary


class Failed(pydantic.BaseModel):
    """The job cannot be done."""

    kind: Literal["failed"] = "failed"
    problem: Problem


class Entry(pydantic.BaseModel):
    """The answer to :class:`Get`: the entry is the frame's body, if there is one."""

    found: bool


Said = Progress | Line | Get | Put | Succeeded | Failed
_SAID: pydantic.TypeAdapter[Said] = pydantic.TypeAdapter(Annotated[Said, Field(discriminator="kind")])
_MODEL_WORK = pydantic.TypeAdapter(Work)
_PROGRAM_WORK = pydantic.TypeAdapter(ProgramWork)


def said(frame: Frame) -> Said:
    """What a frame of the job's process says.

    Raises:
        BrokenFrameError: nothing that it may say.
    """
    try:
        return _SAID.validate_python(frame[0])
    except pydantic.ValidationError as error:
        raise BrokenFrameError(str(error)) from error


def work_document(work: Work | ProgramWork) -> dict[str, Any]:
    """The first frame to the job's process: what to do."""
    if isinstance(work, ProgramWork):
        return {"kind": "program", "work": _PROGRAM_WORK.dump_python(work, mode="json")}
    return {"kind": "model", "work": _MODEL_WORK.dump_python(work, mode="json")}


def work_of(document: dict[str, Any]) -> Work | ProgramWork:
    """What :func:`work_document` was given."""
    form = _PROGRAM_WORK if document["kind"] == "program" else _MODEL_WORK
    return form.validate_python(document["work"])
