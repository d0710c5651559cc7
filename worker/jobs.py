"""The record of a job: what was asked, how far it is, how it ended.

A job is three documents in the store, each with one writer, so that nothing is ever read, changed and written
back: ``request.json`` (written once by the service), ``progress.json`` (replaced by the process that runs the job)
and ``end.json`` (created once, by whoever ends the job first). The state follows from which of them are there.
An object under ``open/`` marks the jobs that have not ended, so that finding them does not read all jobs.
"""

import contextlib
import re
import secrets
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal, TypeVar

import pydantic
from pydantic import ConfigDict, Field
from pydantic_core import PydanticCustomError

from accel.options import Options
from worker.problem import Problem
from worker.store import Store

State = Literal["queued", "running", "succeeded", "failed", "canceled"]
_ID = re.compile(r"[0-9a-f]{32}")
_DIGEST = "^[0-9a-f]{64}$"


class JobOptions(Options):
    """Options of a job: of its run, and the tensors to feed it."""

    engine: Literal["function", "timing", "both"] = Field(
        "both", description="what to simulate of a program; a model's job always does both"
    )
    inputs: str | None = Field(
        None,
        pattern=_DIGEST,
        description="id of uploaded tensors, one for each input; else the program's own data, else seeded random",
    )
    calibration: str | None = Field(
        None, pattern=_DIGEST, description="id of uploaded calibration tensors for a model; else seeded random"
    )


class JobRequest(pydantic.BaseModel):
    """What a job is asked to do: compile and simulate a model, or simulate a program."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"oneOf": [{"required": ["model", "accelerator"]}, {"required": ["program"]}]},
    )

    model: str | None = Field(None, pattern=_DIGEST, description="id of an uploaded model")
    program: str | None = Field(
        None, pattern=_DIGEST, validate_default=True, description="id of an uploaded program, in place of a model"
    )
    accelerator: str | None = Field(
        None,
        max_length=100,
        validate_default=True,
        description="id of an accelerator; a program brings its own, and runs on this one if it is given",
        examples=["vta"],
    )
    options: JobOptions = JobOptions()

    @pydantic.field_validator("program")
    @classmethod
    def _one_of_two(cls, program: str | None, info: pydantic.ValidationInfo) -> str | None:
        if "model" in info.data and (program is None) == (info.data["model"] is None):
            raise _contradiction("give either a model or a program", "model", "program")
        return program

    @pydantic.field_validator("accelerator")
    @classmethod
    def _target_of_a_model(cls, accelerator: str | None, info: pydantic.ValidationInfo) -> str | None:
        refused = "model" not in info.data  # it was given, and is no id
        if accelerator is None and info.data.get("program") is None and (refused or info.data["model"] is not None):
            raise _contradiction("a model needs an accelerator", "accelerator")
        return accelerator

    @pydantic.field_validator("options")
    @classmethod
    def _options_that_apply(cls, options: JobOptions, info: pydantic.ValidationInfo) -> JobOptions:
        if info.data.get("model") is not None and options.engine != "both":
            raise _contradiction("a model is verified and timed: leave it at both", "options.engine")
        if info.data.get("program") is not None and options.calibration is not None:
            raise _contradiction("a program is compiled already: nothing is calibrated", "options.calibration")
        return options


def _contradiction(message: str, *fields: str) -> PydanticCustomError:
    """An error of several fields together; ``ctx.fields`` has their paths."""
    return PydanticCustomError("contradiction", "{message}", {"message": message, "fields": list(fields)})


class Stage(pydantic.BaseModel):
    """How far a running job is."""

    name: str = Field(description="name of the stage", examples=["simulate"])
    step: int = Field(description="steps of the stage that are done")
    total: int = Field(description="steps of the stage")


class Summary(pydantic.BaseModel):
    """The result in short; the whole is the job's report."""

    verified: bool | None = Field(
        description="a model: outputs equal the reference, null if the accelerator had no work; a program: all that is "
        "expected came out, whatever the units' speed, null if nothing is expected or nothing was computed"
    )
    cycles: int | None = Field(description="clock cycles of the accelerator; null if they were not counted")
    macs_share: float | None = Field(
        description="share of the model's multiply-accumulates that the accelerator did; null for a program"
    )


class Job(pydantic.BaseModel):
    """A job's record."""

    id: str
    state: State
    model: str | None = Field(description="id of the model; null for the job of a program")
    program: str | None = Field(None, description="id of the program; null for the job of a model")
    accelerator: str | None = Field(description="id of the accelerator; null where it is the program's own")
    options: JobOptions
    created: datetime
    started: datetime | None = None
    finished: datetime | None = None
    stage: Stage | None = None
    result: Summary | None = Field(None, description="set once the job has succeeded")
    error: Problem | None = Field(None, description="set once the job has failed")

    @property
    def ended(self) -> bool:
        """Whether its state is final."""
        return self.finished is not None


class _Request(JobRequest):
    created: datetime


class _Progress(pydantic.BaseModel):
    started: datetime
    stage: Stage | None = None


class _End(pydantic.BaseModel):
    state: Literal["succeeded", "failed", "canceled"]
    finished: datetime
    result: Summary | None = None
    error: Problem | None = None


_Document = TypeVar("_Document", bound=pydantic.BaseModel)


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


class Jobs:
    """All job records of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, request: JobRequest) -> str:
        """Record an accepted job; its id sorts by time of creation."""
        job_id = f"{time.time_ns() // 1000:014x}{secrets.token_hex(9)}"
        record = _Request(**request.model_dump(), created=now())
        self._store.create(f"open/{job_id}", b"")
        self._store.create(f"jobs/{job_id}/request.json", record.model_dump_json().encode())
        return job_id

    def get(self, job_id: str) -> Job:
        """The job's record; KeyError if there is no such job."""
        if not _ID.fullmatch(job_id):
            raise KeyError(job_id)
        request = self._read(f"jobs/{job_id}/request.json", _Request)
        if request is None:
            raise KeyError(job_id)
        progress = self._read(f"jobs/{job_id}/progress.json", _Progress)
        end = self._read(f"jobs/{job_id}/end.json", _End)
        return _assemble(job_id, request, progress, end)

    def _read(self, key: str, document: type[_Document]) -> _Document | None:
        try:
            return document.model_validate_json(self._store.read(key))
        except FileNotFoundError:
            return None

    def ids(self) -> list[str]:
        """The ids of all jobs, newest first."""
        return self._store.folders("jobs")[::-1]

    def among(self, job_ids: Iterable[str]) -> list[Job]:
        """The records of these jobs, without those that are just being created, or were never created to the end."""
        found = []
        for job_id in job_ids:
            with contextlib.suppress(KeyError):
                found.append(self.get(job_id))
        return found

    def open_ids(self) -> list[str]:
        """The ids of the jobs that may not have ended, oldest first."""
        return [key.removeprefix("open/") for key in self._store.sizes("open")]

    def close(self, job_id: str) -> None:
        """Take an ended job out of :meth:`open_ids`."""
        self._store.delete(f"open/{job_id}")

    def progress(self, job_id: str, started: datetime, stage: Stage | None) -> None:
        """Record that the job runs, and how far it is."""
        record = _Progress(started=started, stage=stage)
        self._store.write(f"jobs/{job_id}/progress.json", record.model_dump_json().encode())

    def ended(self, job_id: str) -> bool:
        """Whether the job has ended."""
        return self._store.exists(f"jobs/{job_id}/end.json")

    def succeed(self, job_id: str, result: Summary) -> bool:
        """End the job with its result; False if it had ended before."""
        return self._end(job_id, _End(state="succeeded", finished=now(), result=result))

    def fail(self, job_id: str, error: Problem) -> bool:
        """End the job with the problem; False if it had ended before."""
        return self._end(job_id, _End(state="failed", finished=now(), error=error))

    def cancel(self, job_id: str) -> bool:
        """End the job as canceled; False if it had ended before."""
        return self._end(job_id, _End(state="canceled", finished=now()))

    def _end(self, job_id: str, end: _End) -> bool:
        created = self._store.create(f"jobs/{job_id}/end.json", end.model_dump_json().encode())
        self.close(job_id)
        return created


def _assemble(job_id: str, request: _Request, progress: _Progress | None, end: _End | None) -> Job:
    state: State = end.state if end else "running" if progress else "queued"
    return Job(
        id=job_id,
        state=state,
        model=request.model,
        program=request.program,
        accelerator=request.accelerator,
        options=request.options,
        created=request.created,
        started=progress.started if progress else None,
        finished=end.finished if end else None,
        stage=progress.stage if progress else None,
        result=end.result if end else None,
        error=end.error if end else None,
    )
