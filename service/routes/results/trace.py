"""The trace: every instruction, decoded, with its time and its origin."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Query, Response
from fastapi.responses import JSONResponse, StreamingResponse

from accel.errors import CyclopsError
from accel.trace.perfetto.trace_window import FEWEST, MOST, TraceWindow
from accel.trace.program_trace import Trace
from service.auth.route_policy import access
from service.context import JobContext, RequestJobs
from service.http.conditional import CONDITIONAL_RESPONSES, Conditions
from service.http.declarations import declare_content, declare_problems
from service.http.negotiation import negotiate
from service.http.problems import ProblemError
from service.http.resources import PageLimit
from service.jobs.job_id import JobId
from service.jobs.job_report import modelled_spans, read_report
from service.routes.results.artifacts import artifacts_of, send
from worker.records.job_artifacts import Artifacts

router = APIRouter(prefix="/v1/jobs/{id}/trace", tags=["results"])
_FORMATS = {
    "json": "application/json",
    "csv": "text/csv",
    "text": "text/plain",
    "binary": "application/octet-stream",
    "perfetto": "application/json",
}
_FORM = Literal["json", "csv", "text", "binary", "perfetto"]
_LAST = (1 << 53) - 1  # cycle: the greatest number that every reader of JSON has exactly
_FILE = "trace.perfetto.json"


@dataclass(frozen=True)
class PerfettoQuery:
    """What a Perfetto document shows; other formats ignore it."""

    events: Annotated[
        int, Query(ge=FEWEST, le=MOST, description="most events in a Perfetto document: more are merged")
    ] = TraceWindow.events
    begin: Annotated[int, Query(ge=0, le=_LAST, description="first cycle that a Perfetto document shows")] = 0
    end: Annotated[
        int | None, Query(ge=1, le=_LAST, description="the cycle before which it ends; else the trace's end")
    ] = None
    clock_mhz: Annotated[
        float | None,
        Query(gt=0, le=1e6, description="the clock of a Perfetto document's times; else a cycle is shown as 1 us"),
    ] = None

    def window(self) -> TraceWindow:
        """Returns the window.

        Raises:
            ProblemError: it ends before it begins.
        """
        try:
            return TraceWindow(self.events, self.begin, self.end)
        except CyclopsError as error:
            raise ProblemError("invalid-request", error.detail, field=error.field) from error


def open_trace(jobs: JobContext, job_id: str, artifacts: Artifacts) -> Trace:
    """Returns the trace of a job, opened.

    Raises:
        ProblemError: the job has none, or one of another version.
    """
    try:
        return jobs.traces.get(job_id, artifacts)
    except KeyError:
        raise ProblemError("not-found", artifacts.missing("trace"), field="id") from None
    except CyclopsError as error:  # of another version of ours, say
        raise ProblemError("not-found", f"{error.detail}; run the job again", field="id") from error


def _perfetto(trace: Trace, query: PerfettoQuery, artifacts: Artifacts) -> StreamingResponse:
    found = (read_report(artifacts) or {}).get("end_to_end")
    modelled = [] if found is None else modelled_spans(found)
    try:
        pieces = trace.perfetto(query.window(), clock_mhz=query.clock_mhz, modelled=modelled)
    except CyclopsError as error:
        raise ProblemError("not-acceptable", error.detail, field=error.field) from error
    headers = {"Content-Disposition": f'attachment; filename="{_FILE}"'}
    return _stream(pieces, _FORMATS["perfetto"], headers)


def _stream(pieces: Iterator[bytes], media_type: str, headers: dict[str, str] | None = None) -> StreamingResponse:
    """Streams the pieces; the first is made before the response begins, so that an error can still be answered."""
    first = next(pieces, b"")
    return StreamingResponse(chain([first], pieces), headers=headers, media_type=media_type)


@router.get(
    "",
    summary="The trace",
    response_class=Response,
    responses=declare_content(
        "the trace; JSON comes in pages, the other formats whole", *dict.fromkeys(_FORMATS.values())
    )
    | CONDITIONAL_RESPONSES
    | declare_problems("not-found", "not-acceptable", "conflict"),
)
@access("link", "jobs")
def get_trace(
    id: JobId,  # noqa: A002 - the API's name
    jobs: RequestJobs,
    perfetto: Annotated[PerfettoQuery, Depends()],
    conditions: Conditions,
    format: Annotated[_FORM | None, Query(description="wins over the Accept header")] = None,  # noqa: A002 - the API's name
    accept: Annotated[str | None, Header(include_in_schema=False)] = None,
    limit: PageLimit = 100,
    cursor: Annotated[
        str | None, Query(pattern="^[0-9]{1,12}$", description="`next_cursor` of the page before")
    ] = None,
) -> Response:
    """Each instruction: unit, fields, start and end cycle, what it waited for, and its origin in the model.

    `binary` is the raw instruction stream, as the accelerator fetches it. `perfetto` is a document in Chrome's Trace
    Event Format, which `ui.perfetto.dev` opens: only the query asks for it, as its media type is JSON's. One of the
    whole trace has the end-to-end time beside, modelled, as a process of its own.
    """
    chosen = negotiate(_FORMATS, format, accept)
    artifacts = artifacts_of(jobs, id)
    if chosen == "binary":
        return send(artifacts, "instructions.bin", conditions, filename="instructions.bin")
    trace = open_trace(jobs, id, artifacts)
    if chosen == "json":
        begin = int(cursor or 0)
        following = str(begin + limit) if begin + limit < len(trace) else None
        return JSONResponse({"items": trace.page(begin, limit), "next_cursor": following})
    if chosen == "perfetto":
        return _perfetto(trace, perfetto, artifacts)
    return _stream(trace.csv() if chosen == "csv" else trace.text(), _FORMATS[chosen])
