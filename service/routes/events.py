"""Events of a job, as they happen."""

from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from service.auth.caller import CurrentCaller
from service.auth.concurrency import check_stream_slots
from service.auth.route_policy import access
from service.context import RequestJobs
from service.events.event_ids import END, EVENT_ID_PATTERN, resume_point_of
from service.events.follower import EVENT_STREAM_MEDIA_TYPE, EventStreamResponse, JobFollower
from service.http.declarations import declare_content, declare_problems
from service.http.resources import job_resource
from service.jobs.job_id import JobId
from worker.records.job_record import Job

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
LastEventId = Annotated[
    str | None,
    Header(pattern=EVENT_ID_PATTERN, description="the id of the last event that the client has: go on after it"),
]


@router.get(
    "/{id}/events",
    summary="Follow a job",
    response_class=StreamingResponse,
    responses=declare_content("server-sent events, until the job has ended", EVENT_STREAM_MEDIA_TYPE)
    | {204: {"description": "the client has all events, and need not come again"}}
    | declare_problems("not-found", "too-many-at-once", "busy"),
)
@access("link", "jobs")
async def get_events(
    id: JobId,  # noqa: A002 - the API's name
    jobs: RequestJobs,
    caller: CurrentCaller,
    last_event_id: LastEventId = None,
) -> Response:
    """State, position in the queue, stages, lines of the log, and the end, as server-sent events.

    | event | its data |
    |---|---|
    | `state` | `state`: `queued`, again if the processes of an attempt died; or `running` with `attempt` |
    | `position` | `position`: how many jobs are before it in the queue, when that changes |
    | `stage` | `name`, `step`, `total` |
    | `log` | `line` |
    | `gap` | `events`: so many are gone, and not told |
    | `end` | the job's record |

    After `end` the stream closes. A client that was cut off gives the id of the last event that it has, and misses
    none, also of a job that has ended.
    """
    job = await run_in_threadpool(jobs.get, id)
    resume = resume_point_of(last_event_id)
    if resume.cursor == END and job.ended:
        return Response(status_code=204)
    counted = caller.counted_for_job_of(job.owner)
    check_stream_slots(jobs.streams, counted)
    follower = JobFollower(jobs.events, jobs.store, _described, jobs.settings.stream_heartbeat_seconds, job.id, resume)
    return EventStreamResponse(follower.events(), jobs.streams, counted)


def _described(job: Job) -> str:
    return job_resource(job).model_dump_json()
