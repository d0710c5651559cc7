"""The timeline: what each unit does in every cycle, as windows for a picture; and what belongs to one instruction."""

from typing import Annotated, Any, Literal

import pydantic
from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from accel.errors import CyclopsError
from accel.trace.program_trace import Trace
from accel.trace.timeline import MOST_BINS, MOST_WAITING
from service.auth.route_policy import access
from service.context import JobContext, RequestJobs
from service.http.declarations import declare_content, declare_problems
from service.http.problems import ProblemError
from service.jobs.job_id import JobId
from service.routes.results.artifacts import artifacts_of
from service.routes.results.trace import open_trace
from worker.records.job_artifacts import JobTimeline

router = APIRouter(prefix="/v1/jobs/{id}/timeline", tags=["results"])
_LAST = (1 << 53) - 1  # cycle: the greatest number that every reader of JSON has exactly
_PROBLEMS = declare_problems("not-found", "conflict")


class TimelineCategory(pydantic.BaseModel):
    """A category of cycles."""

    name: str = Field(description="`busy`, or what was waited for", examples=["load_to_compute"])
    kind: Literal["busy", "memory", "token", "fetch", "other"] = Field(
        description="what it is of, by which it is drawn"
    )


class TimelineTrack(pydantic.BaseModel):
    """A unit of the accelerator."""

    unit: str
    cycles: dict[str, int] = Field(description="cycles by category, and `idle`; they add up to those of the timeline")


class TimelineOperation(pydantic.BaseModel):
    """An instruction of the accelerator."""

    name: str
    unit: str


class TimelineLaunch(pydantic.BaseModel):
    """A launch, which runs a layer, and its cycles ``[begin, end)``."""

    name: str
    begin: int
    end: int


class TimelineHost(pydantic.BaseModel):
    """A host step, which takes no cycles."""

    name: str
    cycle: int


class TimelineMemory(pydantic.BaseModel):
    """An on-chip memory, and how full it is; an element is full while the buffer that it is part of is in use."""

    name: str = Field(examples=["inp"])
    elements: int = Field(description="that it holds; windows count these", examples=[2048])
    element_bytes: int = Field(examples=[16])
    peak: int = Field(description="the most elements that are full at a time")
    peak_cycle: int | None = Field(description="the first cycle at which they are; null: it is never used")
    average: float = Field(description="elements that are full, on average over all cycles")


class TimelineTracks(pydantic.BaseModel):
    """What the numbers in a window stand for, each by its place in a list, and the sums of every track."""

    accelerator: str
    clock_mhz: float
    cycles: int = Field(description="when all has ended")
    instructions: int
    categories: list[TimelineCategory]
    tracks: list[TimelineTrack]
    operations: list[TimelineOperation]
    launches: list[TimelineLaunch]
    hosts: list[TimelineHost]
    memories: list[TimelineMemory] = Field(
        description="of the counters of a window; none where the job left no memory plan, as that of a program"
    )


class Dependence(pydantic.BaseModel):
    """An instruction that another one waits for: for the token that it sends, its addresses, or the bus."""

    kind: Literal["token", "address", "bus"] = Field(
        description="a token that one takes as it starts; addresses, or the bus, where waiting for them cost cycles"
    )
    on: str = Field(
        description="the token queue, or what was waited for, as in the record's `waited_for`", examples=["hazard"]
    )
    role: Literal["waits_for", "waited_for_by"] = Field(
        description="whether this one waits for the other, or it for this"
    )
    instruction: int | None = Field(
        description="the other one; null: the token was there at the start, or is never taken"
    )
    unit: str | None = Field(description="the other one's unit")
    op: str | None = Field(description="its operation")
    start: int | None = Field(description="its first cycle")
    end: int | None = Field(description="the cycle after its last: as a token is sent, or its addresses are free")


class TimelineInstruction(pydantic.BaseModel):
    """An instruction, and what it has to do with others."""

    record: dict[str, Any] = Field(description="the record of the trace")
    previous: int | None = Field(description="the one before it in its unit's part of the program")
    next: int | None = Field(description="the one after it")
    dependences: list[Dependence] = Field(
        description=f"of those that waited for its addresses, the first {MOST_WAITING} of each cause"
    )


class TimelineMatch(pydantic.BaseModel):
    """What a search has found."""

    instruction: int | None = Field(description="its place in the trace; null: nothing has the text")


def _open(jobs: JobContext, job_id: str) -> tuple[Trace, JobTimeline]:
    artifacts = artifacts_of(jobs, job_id)
    trace = open_trace(jobs, job_id, artifacts)
    try:
        return trace, jobs.timelines.get(job_id, trace, artifacts)
    except CyclopsError as error:
        raise ProblemError("not-found", error.detail, field="id") from error


@router.get(
    "",
    summary="A window of the timeline",
    response_class=Response,
    responses=declare_content("the window; its format is in docs/timeline.md", "application/octet-stream") | _PROBLEMS,
)
@access("link", "jobs")
def get_timeline(
    id: JobId,  # noqa: A002 - the API's name
    jobs: RequestJobs,
    begin: Annotated[int, Query(ge=0, le=_LAST, description="its first cycle")] = 0,
    end: Annotated[
        int | None, Query(ge=1, le=_LAST, description="the cycle before which it ends; else the timeline's end")
    ] = None,
    bins: Annotated[int, Query(ge=1, le=MOST_BINS, description="equal parts, such as one a pixel")] = 1024,
) -> Response:
    """What each unit did in these cycles: slices at least as long as a bin, and sums by bin and category of the others.

    Slices are of one category each, as `timeline/tracks` lists them: at work, or waiting for something. Of each on-chip
    memory it has the most elements that are full in each bin. A window ends with the timeline at the latest.
    """
    _, job = _open(jobs, id)
    try:
        data = job.timeline.window(begin, end, bins, [memory.held for memory in job.memories])
    except CyclopsError as error:
        raise ProblemError("invalid-request", error.detail, field=error.field) from error
    return Response(data, media_type="application/octet-stream")


@router.get("/tracks", summary="The tracks of the timeline", responses=_PROBLEMS)
@access("link", "jobs")
def get_timeline_tracks(id: JobId, jobs: RequestJobs) -> TimelineTracks:  # noqa: A002 - the API's name
    """The units, categories, operations, layers, host steps and memories of windows, and where all cycles went."""
    _, job = _open(jobs, id)
    cycles = job.timeline.cycles
    memories = [
        TimelineMemory(
            **each.memory.model_dump(),
            peak=each.held.peak,
            peak_cycle=each.held.peak_at,
            average=each.held.total / cycles if cycles else 0.0,
        )
        for each in job.memories
    ]
    return TimelineTracks.model_validate({**job.timeline.document(), "memories": memories})


@router.get("/instructions/{index}", summary="An instruction of the timeline", responses=_PROBLEMS)
@access("link", "jobs")
def get_timeline_instruction(
    id: JobId,  # noqa: A002 - the API's name
    index: Annotated[int, Path(ge=0, le=_LAST, description="its place in the trace", examples=[0])],
    jobs: RequestJobs,
) -> TimelineInstruction:
    """The instruction as the trace has it, its neighbours on its unit, whom it waits for, and who waits for it."""
    trace, job = _open(jobs, id)
    found = trace.page(index, 1)
    if not found:
        raise ProblemError("not-found", f"the trace has {len(trace)} instructions, the first is 0", field="index")
    before, following = job.timeline.neighbours(index)
    return TimelineInstruction(
        record=found[0],
        previous=before,
        next=following,
        dependences=[_dependence(trace, **one) for one in job.timeline.dependences(index)],
    )


def _dependence(trace: Trace, instruction: int | None, **said: Any) -> Dependence:
    there = trace.page(instruction, 1)[0] if instruction is not None else {}
    other = {name: there.get(name) for name in ("unit", "op", "start", "end")}
    return Dependence(instruction=instruction, **said, **other)


@router.get("/search", summary="Search the timeline", responses=_PROBLEMS)
@access("link", "jobs")
def search_timeline(
    id: JobId,  # noqa: A002 - the API's name
    jobs: RequestJobs,
    text: Annotated[str, Query(min_length=1, max_length=200, description="part of a name", examples=["gemm"])],
    begin: Annotated[int, Query(ge=0, le=_LAST, description="the first instruction to look at")] = 0,
) -> TimelineMatch:
    """The first instruction, from `begin` on and then from the start, whose operation, layer or node has the text."""
    trace = open_trace(jobs, id, artifacts_of(jobs, id))
    found = trace.search(text, begin)
    return TimelineMatch(instruction=trace.search(text, 0, begin) if found is None else found)
