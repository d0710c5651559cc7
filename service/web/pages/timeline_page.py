"""The page of a job's timeline: where all cycles of each unit went, as a table, and the picture over it."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from accel.report.documents.graph_documents import GRAPH_FILE
from service.auth.route_policy import access
from service.context import RequestJobs
from service.http.problems import ProblemError
from service.jobs.job_id import JobId
from service.jobs.job_report import read_report
from service.routes.results.timeline import TimelineTracks, get_timeline_tracks
from service.web.figures.end_to_end_figure import end_to_end_figure
from service.web.figures.report_figures import CATEGORIES, Category, category_of, wait_words
from service.web.templating.rendering import frame_of, render, see_other

router = APIRouter(include_in_schema=False)


@router.get("/jobs/{id}/timeline")
@access("link", "jobs")
def show_timeline(
    id: JobId,  # noqa: A002 - as in the API
    request: Request,
    jobs: RequestJobs,
    layer: Annotated[int | None, Query(ge=1, le=1 << 31)] = None,
) -> Response:
    """The timeline of a job that has ended; where a layer's number is given, its part of it."""
    job, tracks = jobs.get(id), get_timeline_tracks(id, jobs)
    if layer is not None:
        if layer > len(tracks.launches):
            raise ProblemError("not-found", f"the job has {len(tracks.launches)} layers", field="layer")
        part = tracks.launches[layer - 1]
        return see_other(frame_of(request).link(f"/jobs/{id}/timeline", begin=part.begin, end=part.end))
    artifacts = jobs.artifacts(job)
    names = {each.name for each in artifacts.all()}
    views = {
        "passes": bool(artifacts.all("tir")),
        "graph": GRAPH_FILE in names,
        "accelerator": "accelerator.json" in names,
    }
    whole = (read_report(artifacts) or {}).get("end_to_end")
    picture = None if whole is None else end_to_end_figure(whole)
    rows = _rows(tracks)
    return render(
        request, "timeline.html", job=job, tracks=tracks, rows=rows, views=views, whole=whole, picture=picture
    )


@dataclass(frozen=True)
class CategoryRow:
    """A category of cycles, as the timeline calls it and in words, with its colour and the cycles of every unit."""

    name: str
    words: str
    colour: Category
    cycles: list[int]


def _rows(tracks: TimelineTracks) -> list[CategoryRow]:
    """Returns the categories that some unit has cycles of."""
    kinds = {each.name: category_of(each.kind) for each in tracks.categories} | {"idle": category_of("idle")}
    rows = []
    for name, colour in kinds.items():
        cycles = [track.cycles[name] for track in tracks.tracks]
        if any(cycles):
            words = CATEGORIES[colour] if colour in {"busy", "idle"} else wait_words(name)
            rows.append(CategoryRow(name, words, colour, cycles))
    return rows
