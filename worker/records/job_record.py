"""The record of a job, and the documents in the store that it is made of.

Each document has one writer, so that nothing is ever read, changed and written back: ``request.json`` (written once by
the service), ``progress.json`` (replaced by the attempt that runs, removed once that is dead), ``end.json`` (created
once, by whoever ends the job first; it names the attempt whose artifacts are the result), ``pin.json`` (there or not),
and ``label``, ``note`` and ``tags`` (texts, replaced by the owner). The state follows from which of them are there.
"""

from datetime import datetime
from typing import Literal, TypeVar

import pydantic
from pydantic import ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from worker.identity.ownership import Label
from worker.records.annotations import Note, Tags, annotation_keys, read_annotations
from worker.records.job_request import JobOptions, JobRequest
from worker.records.problem_details import Problem

FORMAT = 2  # of the record: 1 had no attempts
LOCAL = "local"  # the owner where there are no keys

State = Literal["queued", "running", "succeeded", "failed", "canceled"]


class Stage(pydantic.BaseModel):
    """How far a running job is."""

    name: str = Field(description="name of the stage", examples=["simulate"])
    step: int = Field(description="number of the stage that runs, from 1")
    total: int = Field(description="number of stages of the job")


class Summary(pydantic.BaseModel):
    """The result in short; the whole is the job's report."""

    verified: bool | None = Field(
        description="a model: outputs equal the reference, null if the accelerator had no work or they were not "
        "compared; a program: all that is expected came out, whatever the units' speed, null if nothing is expected or "
        "nothing was computed"
    )
    cycles: int | None = Field(description="clock cycles of the accelerator; null if they were not counted")
    macs_share: float | None = Field(
        description="share of the model's multiply-accumulates that the accelerator did; null for a program"
    )


class Origin(pydantic.BaseModel):
    """The request that made a job: its id, and its trace (the header ``traceparent``), where there is one."""

    request_id: str | None = None
    traceparent: str | None = None


class Document(pydantic.BaseModel):
    """The document of a job's accelerator as its owner had it when the job was submitted.

    ``sha256`` is of the file as uploaded, of a preset of the file in the package; ``label`` is what the owner calls it.
    ``checked`` is the digest of the sources whose checks it has passed; a job of the same sources does not repeat them.
    """

    sha256: str | None = None
    label: str | None = None
    checked: str | None = None


class Job(pydantic.BaseModel):
    """A job's record."""

    id: str
    owner: SkipJsonSchema[str] = Field(LOCAL, exclude=True)
    format: SkipJsonSchema[int] = Field(FORMAT, exclude=True)
    origin: SkipJsonSchema[Origin] = Field(Origin(), exclude=True)
    document: SkipJsonSchema[Document] = Field(Document(), exclude=True)
    state: State
    label: Label | None = Field(None, description="what its owner calls it", examples=["my first job"])
    note: Note | None = Field(None, description="what its owner notes of it, in lines")
    tags: Tags = Field([], description="words by which its owner finds it again", examples=[["sweep 1"]])
    model: str | None = Field(description="id of the model; null for the job of a program")
    program: str | None = Field(None, description="id of the program; null for the job of a model")
    accelerator: str | None = Field(description="id of the accelerator; null where it is the program's own")
    options: JobOptions
    created: datetime
    started: datetime | None = Field(None, description="when the attempt started that ends the job, or runs now")
    finished: datetime | None = None
    attempt: int | None = Field(
        None, description="the attempt that ended the job, or runs now: above 1 if processes died under it"
    )
    stage: Stage | None = None
    result: Summary | None = Field(None, description="set once the job has succeeded")
    error: Problem | None = Field(None, description="set once the job has failed")
    pinned: bool = Field(False, description="whether it is kept when its time is over")

    @property
    def ended(self) -> bool:
        """Whether its state is final."""
        return self.finished is not None


class Request(JobRequest):
    """``request.json``."""

    model_config = ConfigDict(extra="ignore")  # one of our own versions may have written more

    created: datetime
    owner: str = LOCAL
    origin: Origin = Origin()
    document: Document = Document()
    format: int = 1


class RequestFormat(pydantic.BaseModel):
    """What every version's request has."""

    format: int = 1


class Progress(pydantic.BaseModel):
    """``progress.json``."""

    attempt: int = 1
    started: datetime
    stage: Stage | None = None


class End(pydantic.BaseModel):
    """``end.json``; a withdrawn job was never reported as accepted."""

    state: Literal["succeeded", "failed", "canceled", "withdrawn"]
    finished: datetime
    attempt: int | None = None
    result: Summary | None = None
    error: Problem | None = None


_Document = TypeVar("_Document", bound=pydantic.BaseModel)


def pin_key(job_id: str) -> str:
    """Returns the store key of the job's pin."""
    return f"jobs/{job_id}/pin.json"


def documents(job_id: str) -> list[str]:
    """Returns the store keys of the arguments of :func:`assemble`, in order."""
    names = (f"jobs/{job_id}/{name}.json" for name in ("request", "progress", "end"))
    return [*names, pin_key(job_id), *annotation_keys(job_id)]


def _parsed(data: bytes | None, document: type[_Document]) -> _Document | None:
    return None if data is None else document.model_validate_json(data)


def assembled_or_none(job_id: str, *documents: bytes | None) -> Job | None:
    """Returns the record that the documents form; None if there is no request or it cannot be read."""
    try:
        return assemble(job_id, *documents)
    except (KeyError, pydantic.ValidationError):
        return None


def assemble(job_id: str, *documents: bytes | None) -> Job:
    """Returns the record that the documents form.

    Raises:
        KeyError: there is no request, or the job was withdrawn.
    """
    request = _parsed(documents[0], Request)
    progress, end = _parsed(documents[1], Progress), _parsed(documents[2], End)
    if request is None:
        raise KeyError(job_id)
    state: State
    if end is None:
        state = "running" if progress else "queued"
    elif end.state == "withdrawn":
        raise KeyError(job_id)
    else:
        state = end.state
    running = progress.attempt if progress else None
    return Job(
        id=job_id,
        owner=request.owner,
        format=request.format,
        origin=request.origin,
        document=request.document,
        state=state,
        model=request.model,
        program=request.program,
        accelerator=request.accelerator,
        options=request.options,
        created=request.created,
        started=progress.started if progress else None,
        finished=end.finished if end else None,
        attempt=end.attempt if end else running,
        stage=progress.stage if progress else None,
        result=end.result if end else None,
        error=end.error if end else None,
        pinned=documents[3] is not None,
        **read_annotations(*documents[4:7]),
    )
