"""Documents of the API that are not records of the worker."""

from typing import Generic, Literal, TypeVar

import pydantic
from pydantic import Field

from worker.artifacts import Artifact
from worker.jobs import Job

Item = TypeVar("Item")


class Page(pydantic.BaseModel, Generic[Item]):
    """One page of a listing."""

    items: list[Item]
    next_cursor: str | None = Field(description="give it as `cursor` for the next page; null on the last one")


class AcceleratorSummary(pydantic.BaseModel):
    """An accelerator in a listing."""

    id: str = Field(examples=["vta"])
    title: str
    family: str


class JobResource(Job):
    """A job and where its results are."""

    links: dict[str, str] = Field(description="sub-resources: self, report, outputs, trace, tir, artifacts, cancel")


class TirStage(pydantic.BaseModel):
    """One dump of the intermediate representation."""

    stage: str = Field(description="name for `/tir/{stage}`", examples=["flatten"])
    bytes: int
    href: str


class TirIndex(pydantic.BaseModel):
    """The dumps in the order in which the stages ran; a stage's own TVM passes are `<stage>/<pass>`."""

    stages: list[TirStage]


class ArtifactResource(Artifact):
    """A file and where it is."""

    href: str


class ArtifactIndex(pydantic.BaseModel):
    """Every file that the job left."""

    artifacts: list[ArtifactResource]


class Health(pydantic.BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(pydantic.BaseModel):
    """What a job needs to be accepted and run."""

    redis: bool
    store: bool
    workers: int = Field(description="workers that listen to the queue")
