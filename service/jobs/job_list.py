"""Lists of jobs as requests ask for them: filters, search and sort, and the page that they select."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query

from service.context import JobContext, UploadContext
from service.http.problems import ProblemError, refused_cursors
from service.http.resources import SORT, SearchText
from worker.records.accelerator_store import is_uploaded
from worker.records.annotations import MOST_TAG, MOST_TAGS
from worker.records.job_record import Job, State
from worker.records.job_request import DIGEST
from worker.records.listing.job_index import JobSelection
from worker.records.listing.job_listing import IndexIncompleteError, page_of_jobs, rows_of_jobs
from worker.records.listing.job_row import NEWEST, JobRow, JobSort, Verified
from worker.records.listing.list_order import search_words

_RETRY = {"Retry-After": "5"}
TagText = Annotated[str, Query(max_length=MOST_TAG)]


@dataclass(frozen=True)
class JobQuery:
    """What a list of jobs is asked for."""

    q: SearchText = ""
    state: Annotated[tuple[State, ...], Query(description="in one of these states; repeat it for several")] = ()
    model: Annotated[str | None, Query(pattern=DIGEST, description="of this model")] = None
    program: Annotated[str | None, Query(pattern=DIGEST, description="of this program")] = None
    accelerator: Annotated[
        str | None, Query(max_length=100, description="for this accelerator, by the id that was given")
    ] = None
    tag: Annotated[
        tuple[TagText, ...], Query(max_length=MOST_TAGS, description="with this tag; repeat it for all of several")
    ] = ()
    pinned: Annotated[bool | None, Query(description="pinned, or not")] = None
    verified: Annotated[
        Verified | None, Query(description="succeeded, and `result.verified` is this; `null`: not compared")
    ] = None
    sort: Annotated[JobSort, Query(description=SORT)] = NEWEST

    def selection(self, owner: str) -> JobSelection:
        """Returns the filter of the owner's jobs.

        Raises:
            ProblemError: no job can be like this.
        """
        if self.model is not None and self.program is not None:
            raise ProblemError("invalid-request", "a job has either a model or a program", field="program")
        source, words = self.model or self.program, search_words(self.q)
        return JobSelection(owner, self.state, source, self.accelerator, self.tag, self.pinned, self.verified, words)


def job_page(
    query: JobQuery, owner: str, cursor: str | None, limit: int, jobs: JobContext, uploads: UploadContext
) -> tuple[list[Job], str | None]:
    """Returns a page of the owner's jobs, and the cursor of the next one.

    Raises:
        ProblemError: the cursor is of another sort, or so many jobs cannot be sorted at this moment.
    """
    try:
        with refused_cursors():
            return page_of_jobs(
                jobs.records,
                jobs.queue.index,
                query.selection(owner),
                cursor,
                limit,
                query.sort,
                lambda rows: _names(rows, uploads),
            )
    except IndexIncompleteError as error:
        raise ProblemError("not-ready", f"{error}; try again later", field="sort", headers=_RETRY) from None


def job_rows(query: JobQuery, owner: str, jobs: JobContext, uploads: UploadContext) -> list[JobRow]:
    """Returns the rows of all of the owner's jobs that are selected, newest first; the sort is not looked at.

    Raises:
        ProblemError: there are too many jobs to look at all of them at this moment.
    """
    try:
        return rows_of_jobs(jobs.records, jobs.queue.index, query.selection(owner), lambda rows: _names(rows, uploads))
    except IndexIncompleteError:
        detail = "the index of jobs is made anew, and there are too many to do without; try again later"
        raise ProblemError("not-ready", detail, headers=_RETRY) from None


def _names(rows: Iterable[JobRow], uploads: UploadContext) -> dict[str, str]:
    """Returns today's names of the jobs' models, programs and accelerators, by their ids."""
    rows = list(rows)
    accelerators = list({row.accelerator for row in rows if row.accelerator is not None})
    found = {
        name: f"{label or ''}\n{_title(name, uploads)}"
        for name, label in zip(accelerators, uploads.accelerators.labels(accelerators), strict=True)
    }
    models = list({row.model for row in rows if row.model is not None})
    programs = list({row.program for row in rows if row.program is not None})
    labels = zip(models + programs, uploads.models.labels(models) + uploads.programs.labels(programs), strict=True)
    found |= {item: label for item, label in labels if label is not None}
    return found


def _title(name: str, uploads: UploadContext) -> str:
    try:
        return uploads.accelerators.summary(name).title
    except KeyError:  # a preset of an earlier version, or a document that went with its owner's right to it
        return "" if is_uploaded(name) else name
