"""Figures of many runs of one model, which a designer chooses among: JSON, and a table."""

import csv
import io
from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from accel.report.compare.run_figures import FigureColumn, ParameterColumn
from service.auth.caller import CurrentOwner
from service.auth.route_policy import access
from service.context import RequestContext
from service.http.conditional import IfNoneMatch, respond_with_etag
from service.http.declarations import NOT_MODIFIED_RESPONSE, declare_content, declare_problems
from service.jobs.job_report import csv_cell
from service.jobs.run_comparison import RunComparison, RunQuery, compare_selected

router = APIRouter(prefix="/v1", tags=["results"])


@router.get(
    "/figures",
    summary="Compare the runs of a model",
    response_model=RunComparison,
    responses=NOT_MODIFIED_RESPONSE | declare_problems("invalid-request", "not-ready"),
)
@access("key")
def get_figures(
    context: RequestContext,
    owner: CurrentOwner,
    query: Annotated[RunQuery, Depends()],
    if_none_match: IfNoneMatch = None,
) -> Response:
    """What each of your runs of a model took, beside the parameters in which their accelerators differ.

    Figures of different models are not to be compared: the runs are of one. Those are compared that have succeeded and
    are verified, unless `verified` says otherwise; `left_out` counts the others. A run that leaves much to the host
    takes fewer cycles, as host steps cost none: look at `macs_share`.
    """
    return respond_with_etag(compare_selected(query, owner, context), if_none_match)


@router.get(
    "/figures.csv",
    summary="The runs of a model as a table",
    response_class=Response,
    responses=declare_content("the table, its units in the header", "text/csv")
    | declare_problems("invalid-request", "not-ready"),
)
@access("key")
def get_figures_table(context: RequestContext, owner: CurrentOwner, query: Annotated[RunQuery, Depends()]) -> Response:
    """The same as CSV, a row a run. Text that a spreadsheet would take for a formula begins with an apostrophe."""
    text = io.StringIO()
    csv.writer(text).writerows(_table(compare_selected(query, owner, context)))
    return Response(
        text.getvalue(), media_type="text/csv", headers={"Content-Disposition": 'attachment; filename="runs.csv"'}
    )


def _table(found: RunComparison) -> Iterator[list[object]]:
    columns: list[FigureColumn | ParameterColumn] = [*found.figures, *found.parameters]
    heads = [f"{column.title} [{'share of 1' if column.unit == '1' else column.unit or '1'}]" for column in columns]
    yield ["job", "label", "tags", "submitted", "accelerator", "title", "document", *heads]
    for run in found.runs:
        about = [run.label, run.tags, run.created.isoformat(timespec="seconds")]
        machine = [run.accelerator.label or run.accelerator.name, run.accelerator.title, run.accelerator.id]
        values = [run.figures.get(column.name) for column in found.figures]
        values += [run.parameters.get(column.name) for column in found.parameters]
        yield [run.job, *map(csv_cell, [*about, *machine]), *values]
