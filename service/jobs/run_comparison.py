"""Runs of one model side by side by their figures: which runs a filter selects, what they took, what is left out."""

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, get_args

import pydantic
from fastapi import Query
from pydantic import Field

from accel.report.compare.run_figures import (
    FIGURES,
    FigureColumn,
    FigureName,
    ParameterColumn,
    RunFigures,
    Value,
    differing_parameters,
)
from accel.report.documents.report_documents import DocumentSource
from service.context import Context
from service.http.resources import SearchText
from service.jobs.job_list import JobQuery, TagText, job_rows
from worker.records.annotations import MOST_TAGS, Tags
from worker.records.job_record import Job
from worker.records.job_request import DIGEST
from worker.records.listing.job_row import JobRow, Verified

MOST_RUNS = 500
_RUNS = 200
_READ_AT_ONCE = 8  # reports; a store that is far away answers each after a while
Reason = Literal["unfinished", "failed", "result", "older", "unreadable"]


@dataclass(frozen=True)
class RunQuery:
    """Which runs are asked for: as in the list of jobs, but for state and model."""

    q: SearchText = ""
    model: Annotated[
        str | None, Query(pattern=DIGEST, description="of this model; else the one of which most runs are selected")
    ] = None
    accelerator: Annotated[
        str | None, Query(max_length=100, description="for this accelerator, by the id that was given")
    ] = None
    tag: Annotated[
        tuple[TagText, ...], Query(max_length=MOST_TAGS, description="with this tag; repeat it for all of several")
    ] = ()
    pinned: Annotated[bool | None, Query(description="pinned, or not")] = None
    verified: Annotated[
        Verified | Literal["any"], Query(description="`result.verified` is this; `null`: not compared")
    ] = "true"
    limit: Annotated[int, Query(ge=1, le=MOST_RUNS, description="most runs, the newest")] = _RUNS

    @property
    def jobs(self) -> JobQuery:
        """The same for the list of jobs, of any model and state."""
        return JobQuery(q=self.q, accelerator=self.accelerator, tag=self.tag, pinned=self.pinned)


class ModelRuns(pydantic.BaseModel):
    """A model, and how many runs of it are selected."""

    id: str
    label: str | None = Field(description="null if it has none")
    runs: int = Field(description="that have succeeded with the result that is asked for")


class ComparedJob(pydantic.BaseModel):
    """A run."""

    job: str = Field(description="the job's id")
    label: str | None
    tags: Tags
    created: datetime
    verified: bool | None
    accelerator: DocumentSource = Field(description="the document that the job ran on")
    figures: dict[FigureName, Value] = Field(description="by the name of the column; one that is not known is missing")
    parameters: dict[str, Value] = Field(description="by the name of the column")


class LeftOut(pydantic.BaseModel):
    """Jobs of the model that the filter selects and that are not among the runs."""

    reason: Reason = Field(
        description="`unfinished`; `failed`, or canceled; `result`: it is not as asked for; `older` than the newest "
        "that `limit` allows; `unreadable`: the report is missing, or of another version"
    )
    jobs: int


class RunComparison(pydantic.BaseModel):
    """Runs of one model."""

    model: str | None = Field(description="null where no job of a model is selected")
    models: list[ModelRuns] = Field(description="the models of the jobs that the filter selects, most runs first")
    figures: list[FigureColumn] = Field(description="those that at least one run has")
    parameters: list[ParameterColumn] = Field(
        description="those of the accelerators that all runs have and that are not the same in all, at most 12"
    )
    runs: list[ComparedJob] = Field(description="newest first")
    left_out: list[LeftOut]


def compare_selected(query: RunQuery, owner: str, context: Context) -> RunComparison:
    """Returns the owner's runs that are selected, with their figures.

    Raises:
        ProblemError: there are too many jobs to look at all of them at this moment.
    """
    rows = [row for row in job_rows(query.jobs, owner, context.jobs, context.uploads) if row.model is not None]
    models = _models(rows, query, context)
    model = query.model or (models[0].id if models else None)
    mine = [row for row in rows if row.model == model]
    left_out = Counter(reason for row in mine if (reason := _unfit(row, query)) is not None)
    fit = [row for row in mine if _unfit(row, query) is None]
    left_out["older"] = len(fit[query.limit :])
    jobs = [job for job in context.jobs.records.existing(row.id for row in fit[: query.limit]) if job.result]
    found = list(zip(jobs, _read(jobs, context), strict=True))
    left_out["unreadable"] = sum(figures is None for _, figures in found)
    readable = [(job, figures) for job, figures in found if figures is not None]
    parameters = differing_parameters([figures for _, figures in readable])
    return RunComparison(
        model=model,
        models=models,
        figures=[column for column in FIGURES if any(column.name in figures.figures for _, figures in readable)],
        parameters=parameters,
        runs=[_run(job, figures, parameters) for job, figures in readable],
        left_out=[LeftOut(reason=reason, jobs=left_out[reason]) for reason in get_args(Reason) if left_out[reason]],
    )


def _unfit(row: JobRow, query: RunQuery) -> Reason | None:
    """Returns why a job is no run to compare; None if it is one."""
    if row.state in ("queued", "running"):
        return "unfinished"
    if row.state != "succeeded":
        return "failed"
    return None if query.verified in ("any", row.verified) else "result"


def _models(rows: Sequence[JobRow], query: RunQuery, context: Context) -> list[ModelRuns]:
    """Returns the models of the jobs; of equally many runs the one with the newest job comes first."""
    runs = dict.fromkeys((str(row.model) for row in rows), 0)
    for row in rows:
        runs[str(row.model)] += _unfit(row, query) is None
    ids = sorted(runs, key=lambda name: -runs[name])
    labels = context.uploads.models.labels(ids)
    return [ModelRuns(id=name, label=label, runs=runs[name]) for name, label in zip(ids, labels, strict=True)]


def _read(jobs: Sequence[Job], context: Context) -> Iterable[RunFigures | None]:
    def one(job: Job) -> RunFigures | None:
        return context.jobs.figures.get(job.id, lambda: context.jobs.artifacts(job))

    with ThreadPoolExecutor(_READ_AT_ONCE) as threads:
        return list(threads.map(one, jobs))


def _run(job: Job, found: RunFigures, parameters: Sequence[ParameterColumn]) -> ComparedJob:
    return ComparedJob(
        job=job.id,
        label=job.label,
        tags=job.tags,
        created=job.created,
        verified=job.result.verified if job.result is not None else None,
        accelerator=found.accelerator,
        figures=found.figures,
        parameters={column.name: found.parameters[column.name] for column in parameters},
    )
