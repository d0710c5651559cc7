"""The page of a job's timeline: where all cycles of each unit went, as a table, and the picture over it."""

from fastapi import APIRouter, Request, Response

from service.auth.route_policy import access
from service.context import RequestJobs
from service.jobs.job_id import JobId
from service.routes.timeline import TimelineTracks, get_timeline_tracks
from service.web.rendering import render

router = APIRouter(include_in_schema=False)


@router.get("/jobs/{id}/timeline")
@access("link", "jobs")
def show_timeline(id: JobId, request: Request, jobs: RequestJobs) -> Response:  # noqa: A002 - as in the API
    """The timeline of a job that has ended."""
    job, tracks = jobs.get(id), get_timeline_tracks(id, jobs)
    passes = bool(jobs.artifacts(job).all("tir"))
    return render(request, "timeline.html", job=job, tracks=tracks, rows=_rows(tracks), passes=passes)


def _rows(tracks: TimelineTracks) -> list[dict[str, str | list[int]]]:
    """The categories that some unit has cycles of, each with its colour's class and the cycles of every unit."""
    kinds = {each.name: "busy" if each.kind == "busy" else f"wait-{each.kind}" for each in tracks.categories}
    rows: list[dict[str, str | list[int]]] = []
    for name, colour in {**kinds, "idle": "idle"}.items():
        cycles = [track.cycles[name] for track in tracks.tracks]
        if any(cycles):
            rows.append({"name": name, "colour": colour, "cycles": cycles})
    return rows
