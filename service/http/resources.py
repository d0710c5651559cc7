"""The API's resources that are not records of the worker: schemas, pages of listings, a job with its links."""

from datetime import datetime
from typing import Annotated, Generic, Literal, TypeVar

import pydantic
from fastapi import Query
from pydantic import ConfigDict, Field

from worker.identity.ownership import Label
from worker.records.annotations import Annotations, Note, Tags
from worker.records.job_artifacts import Artifact
from worker.records.job_record import Job
from worker.records.job_request import JobRequest, contradiction, require_target
from worker.records.listing.list_order import SORTED_CURSOR
from worker.records.uploads import Model, ProgramInfo, Tensors
from worker.webhooks.deliveries import Delivery
from worker.webhooks.targets import Webhook

Item = TypeVar("Item")


class Page(pydantic.BaseModel, Generic[Item]):
    """One page of a listing."""

    items: list[Item]
    next_cursor: str | None = Field(description="give it as `cursor` for the next page; null on the last one")


class Labelled(pydantic.BaseModel):
    """What an owner's things have besides their content."""

    label: Label | None = Field(
        None, description="what its owner calls it; another owner may call it otherwise", examples=["my first"]
    )


class LabelChange(pydantic.BaseModel):
    """A new label; what is not given stays as it is (RFC 7396)."""

    model_config = ConfigDict(extra="forbid")

    label: Label | None = Field(None, description="null: none any more", examples=["my first"])

    @property
    def given(self) -> bool:
        """Whether the request names a label, or null."""
        return "label" in self.model_fields_set


class AnnotationChange(LabelChange):
    """New annotations of a job; what is not given stays as it is (RFC 7396)."""

    note: Note | None = Field(None, description="null: none any more", examples=["the bus is twice as wide"])
    tags: Tags | None = Field(None, description="all of them; null: none any more", examples=[["sweep 3"]])

    @property
    def annotations(self) -> Annotations:
        """The annotations that the request names; those that are null as empty ones."""
        given = self.model_dump(exclude_unset=True)
        return Annotations(**given | ({"tags": []} if "tags" in given and self.tags is None else {}))


class Uploaded(Labelled):
    """What an upload has besides its content."""

    created: datetime | None = Field(
        None, description="when you sent it first; null for an example that you have not sent, and for another's"
    )


class ModelResource(Uploaded, Model):
    """An uploaded model, as its owner has it."""


class ProgramResource(Uploaded, ProgramInfo):
    """An uploaded program, as its owner has it."""


class TensorsResource(Uploaded, Tensors):
    """An uploaded npz file, as its owner has it."""


class ModelSummary(Uploaded):
    """A model in a listing."""

    id: str
    bytes: int
    format: str
    nodes: int
    macs: int
    parameters: int


class ProgramSummary(Uploaded):
    """A program in a listing."""

    id: str
    bytes: int
    accelerator: str
    instructions: int
    launches: int


class TensorsSummary(Uploaded):
    """An npz file in a listing."""

    id: str
    bytes: int
    arrays: int


class AcceleratorName(pydantic.BaseModel):
    """What an accelerator is called."""

    id: str = Field(examples=["vta"])
    title: str
    family: str


class AcceleratorSummary(Labelled, AcceleratorName):
    """An accelerator in a listing."""


class JobSubmission(JobRequest):
    """A job to be done."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["model", "accelerator"]},
                {"required": ["model", "document"]},
                {"required": ["program"]},
            ]
        }
    )

    document: str | None = Field(
        None,
        validate_default=True,
        description="text of an accelerator's document, JSON or YAML, in place of `accelerator`: a job keeps it as "
        "`POST /v1/accelerators` does, and has its id as `accelerator`; a dry run keeps nothing",
    )

    label: Label | None = Field(
        None,
        description="what to call the job; where an earlier job answers, that one keeps its own",
        examples=["my first job"],
    )
    note: Note | None = Field(None, description="what to note of it, in lines; as with the label")
    tags: Tags = Field([], description="words by which to find it again; as with the label", examples=[["sweep 3"]])
    fresh: bool = Field(
        False, strict=True, description="whether to run it in any case; else a job that was asked the same answers"
    )
    webhook: Webhook | None = Field(None, description="where to tell that the job has ended")

    @pydantic.field_validator("accelerator")
    @classmethod
    def _target_of_a_model(cls, accelerator: str | None, info: pydantic.ValidationInfo) -> str | None:  # noqa: ARG003
        return accelerator  # it is asked for with the document

    @pydantic.field_validator("document")
    @classmethod
    def _in_place_of_an_accelerator(cls, document: str | None, info: pydantic.ValidationInfo) -> str | None:
        if document is None and "accelerator" in info.data:
            require_target(info.data["accelerator"], info)
        elif document is not None and info.data.get("accelerator") is not None:
            raise contradiction("give either an accelerator or a document", "accelerator", "document")
        try:
            (document or "").encode()
        except UnicodeEncodeError:
            raise contradiction("half of a surrogate pair is no text", "document") from None
        return document


class JobResource(Job):
    """A job and where its results are."""

    cached: bool = Field(False, description="whether a submission was answered by this earlier job, and made none")
    position: int | None = Field(
        None, description="jobs before it in the queue: 0 is the next one; null if it does not wait there"
    )
    links: dict[str, str] = Field(
        description="sub-resources: self, report, outputs, trace, timeline, tir, artifacts, events, webhooks, cancel"
    )


class Deliveries(pydantic.BaseModel):
    """The webhooks of a job."""

    items: list[Delivery]


class Share(pydantic.BaseModel):
    """A link: whoever has it may read what it is to, and what lies under that address."""

    token: str = Field(description="the link's secret; it is shown this once")
    links: dict[str, str] = Field(
        description="addresses with the token: self; of a job its parts, of an upload's file its content"
    )


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
    warm: list[str] = Field(default=[], description="presets whose simulators all workers have loaded")
    warming: list[str] = Field(
        default=[],
        description="presets whose simulators some workers have yet to load; a job on one of them is run, and may wait "
        "for a compilation",
    )


PageLimit = Annotated[int, Query(ge=1, le=1000, description="most items on the page")]
_CURSOR = "`next_cursor` of the page before"
_SORTED = f"{_CURSOR}, which was in the same `sort`"
AcceleratorCursor = Annotated[
    str | None, Query(pattern=f"^([^~]{{1,100}}|{SORTED_CURSOR}[^~]{{1,100}})$", description=_SORTED)
]
UploadCursor = Annotated[
    str | None, Query(pattern=f"^([0-9a-f]{{78}}|{SORTED_CURSOR}[0-9a-f]{{64}})$", description=_SORTED)
]
JobCursor = Annotated[
    str | None, Query(pattern=f"^([0-9a-f]{{32}}|{SORTED_CURSOR}[0-9a-f]{{32}})$", description=_SORTED)
]
SORT = "by this; with `-` the largest, latest, last first. What has none of it comes last"
_MOST_SEARCH = 200
SearchText = Annotated[
    str,
    Query(
        max_length=_MOST_SEARCH,
        description="with each of these words as a part of what it is called, and of what is said of it; large and "
        "small letters are the same. The first eight digits of an id, and more, find it too",
    ),
]


_PARTS = ("report", "outputs", "trace", "timeline", "tir", "artifacts", "events", "webhooks", "cancel")


def job_resource(job: Job, position: int | None = None, *, cached: bool = False) -> JobResource:
    """Returns the job's record with links to its results, and its position in the queue, if that is known.

    ``cached``: it answers a submission that made no job.
    """
    home = f"/v1/jobs/{job.id}"
    links = {"self": home} | {part: f"{home}/{part}" for part in _PARTS}
    place = position if job.state == "queued" else None
    # its parts were checked already, when the record was read
    return JobResource.model_construct(**dict(job), position=place, links=links, cached=cached)
