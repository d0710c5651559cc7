"""The page of two jobs: what differs between them, layer by layer, with texts and timelines side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request, Response

from accel.report.compare.comparison import compare_runs
from accel.report.documents.comparison_documents import ComparedLayer, ComparedRun, Comparison, LayerDifference
from accel.report.documents.report_documents import FieldDifference
from service.auth.caller import CurrentOwner
from service.auth.route_policy import access
from service.context import Context, RequestContext
from service.http.problems import ProblemError
from service.routes.results.compare import JOB_ID, MOST_LINKS, ComparedJob, open_compared
from service.routes.results.trace import open_trace
from service.web.figures.pass_diff import Marks, compare, folded, make_lines
from service.web.figures.report_figures import CATEGORIES, Slice, category_of, unit_cycles
from service.web.pages.list_pages import source_names
from service.web.templating.environment import short
from service.web.templating.rendering import render
from worker.records.job_record import Job
from worker.records.listing.job_index import JobSelection
from worker.records.listing.job_listing import page_of_jobs
from worker.records.pass_index import PassIndex, functions_of, read_dump

router = APIRouter(include_in_schema=False)
_OFFERED = 100  # jobs to choose from
_LONGEST = 80  # characters of a value
_LISTED = 6  # nodes that are told without being asked for
_STAGES = ("schedule", "flatten", "inject", "sync", "allocate")


@dataclass(frozen=True)
class ComparedPair:
    """What the address asks for; ``layer`` is the name of a part of the model, as the comparison has it.

    ``view`` is that of the TIR, ``documents`` that of the accelerators' documents.
    """

    a: Annotated[str | None, Query(pattern=f"{JOB_ID}|^$")] = None
    b: Annotated[str | None, Query(pattern=f"{JOB_ID}|^$")] = None
    share: Annotated[tuple[str, ...], Query(max_length=MOST_LINKS)] = ()
    layer: Annotated[str | None, Query(max_length=500)] = None
    stage: Literal["schedule", "flatten", "inject", "sync", "allocate"] = "allocate"
    whole: bool = False
    view: Literal["side", "editor"] = "side"
    documents: Literal["fields", "editor"] = "fields"


@dataclass(frozen=True)
class Bar:
    """A layer's cycles in one run, as a bar of the page: its length, and its slices, which are parts of that."""

    cycles: int
    length: float
    slices: Sequence[Slice]


@router.get("/compare")
@access("key")
def show_comparison(
    request: Request, context: RequestContext, owner: CurrentOwner, asked: Annotated[ComparedPair, Depends()]
) -> Response:
    """Two jobs side by side; without two of them what to choose from."""
    if not asked.a or not asked.b:
        jobs, _ = page_of_jobs(
            context.jobs.records, context.jobs.queue.index, JobSelection(owner, ("succeeded",)), None, _OFFERED
        )
        names = source_names(jobs, context.uploads)
        return render(request, "compare_choice.html", jobs=jobs, names=names, asked=asked)
    pair = [open_compared(context, owner, field, job, asked.share) for field, job in (("a", asked.a), ("b", asked.b))]
    found = compare_runs(pair[0].run, pair[1].run)
    layer = _layer(found, asked)
    names = source_names([one.job for one in pair], context.uploads)
    bars = _bars(found, pair)
    return render(
        request,
        "compare.html",
        found=found,
        jobs=[one.job for one in pair],
        titles=[_title(one.job, names, run) for one, run in zip(pair, (found.a, found.b), strict=True)],
        fields=_fields(found.document or ()),
        origins=_fields(found.provenance),
        most_listed=_LISTED,
        unlike=_unlike([one.job for one in pair]),
        causes=[cause for cause in found.causes or () if cause.difference],
        categories=CATEGORIES,
        category_of=category_of,
        bars=bars,
        legend=_legend(bars),
        asked=asked,
        layer=layer,
        stages=_STAGES,
        # the pictures ask for their data themselves, with no link to a job of somebody else
        windows=_windows(context, pair, layer) if layer and all(one.job.owner == owner for one in pair) else None,
        texts=None if layer is None else _texts(context, pair, layer, asked),
        address=lambda which, part, **query: _address(pair[which], part, query),
    )


def _address(one: ComparedJob, part: str, query: Mapping[str, str]) -> str:
    """Returns the address of a part of a job for whoever compares it, also by a link."""
    given = {**query, **({} if one.link is None else {"share": one.link})}
    return f"/v1/jobs/{one.job.id}/{part}" + (f"?{urlencode(given)}" if given else "")


def _title(job: Job, names: Mapping[str, str | None], run: ComparedRun) -> str:
    source = job.model or job.program or ""
    return job.label or f"{names.get(source) or short(source)} on {run.label or run.title} ({run.accelerator})"


def _unlike(jobs: Sequence[Job]) -> str | None:
    """Returns what the jobs ran that is not the same, so that their cycles are hardly to be compared."""
    first, second = jobs
    if first.model is not None and second.model is not None:
        return "models" if first.model != second.model else None
    return "programs" if first.program != second.program else None


def _fields(rows: Sequence[FieldDifference]) -> list[tuple[str, str, str]]:
    """Fields with both values as text, long ones cut: the JSON has them whole."""
    return [(row.field, _value(row.before), _value(row.after)) for row in rows]


def _value(value: Any) -> str:
    if value is None:
        return "none"
    text = str(value["name"]) if isinstance(value, dict) and "name" in value else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _layer(found: Comparison, asked: ComparedPair) -> LayerDifference | None:
    if asked.layer is None:
        return None
    for each in found.layers:
        if each.name == asked.layer:
            return each
    raise ProblemError("not-found", f"neither job has a layer {asked.layer!r}", field="layer")


def _bars(found: Comparison, pair: Sequence[ComparedJob]) -> dict[str, tuple[Bar | None, Bar | None]]:
    """The two bars of each layer by its name, all to one scale."""
    accounts = [_layer_slices(one.run.report.model_dump()) for one in pair]
    longest = max((side.cycles for each in found.layers for side in (each.a, each.b) if side is not None), default=0)
    return {
        each.name: (_bar(each.a, accounts[0], longest), _bar(each.b, accounts[1], longest)) for each in found.layers
    }


def _legend(bars: Mapping[str, tuple[Bar | None, Bar | None]]) -> dict[str, str]:
    """What the colours of the bars mean."""
    found = {part.category for both in bars.values() for bar in both if bar for part in bar.slices}
    return {category: words for category, words in CATEGORIES.items() if category in found}


def _bar(layer: ComparedLayer | None, accounts: Mapping[str, Sequence[Slice]], longest: int) -> Bar | None:
    if layer is None:
        return None
    # parts of a layer that was split follow each other
    slices: list[Slice] = []
    begin = 0.0
    for name in layer.names:
        for one in accounts.get(name, ()):
            share = one.cycles / max(layer.cycles, 1)
            slices.append(Slice(one.category, one.cause, one.cycles, begin, share))
            begin += share
    return Bar(layer.cycles, layer.cycles / max(longest, 1), slices)


def _layer_slices(report: Mapping[str, Any]) -> dict[str, list[Slice]]:
    """Where the cycles of each launch went, of the accelerator as a whole; empty in reports that do not say."""
    layers = report["layers"] if "layers" in report else report["launches"]
    return {
        layer["name"]: unit_cycles({"units": {}, "account": {**layer["account"], "units": {}}, "cycles": 0})[0].slices
        for layer in layers
        if layer.get("account")
    }


def _windows(
    context: Context, pair: Sequence[ComparedJob], layer: LayerDifference
) -> list[tuple[int, int] | None] | None:
    """The cycles (begin, end) that show a layer in the timeline of each job, equally many; None where it has none."""
    spans: list[tuple[int, int] | None] = []
    for one, side in zip(pair, (layer.a, layer.b), strict=True):
        try:
            launches = open_trace(context.jobs, one.job.id, one.artifacts).names.launches
        except ProblemError:
            launches = ()
        mine = [span for span in launches if side is not None and span.name in side.names]
        spans.append((min(span.begin for span in mine), max(span.end for span in mine)) if mine else None)
    longest = max((span[1] - span[0] for span in spans if span is not None), default=0)
    return [None if span is None else (span[0], span[0] + longest) for span in spans] if longest else None


def _texts(
    context: Context, pair: Sequence[ComparedJob], layer: LayerDifference, asked: ComparedPair
) -> dict[str, Any] | None:
    """The functions of a layer after a stage, side by side; None where one of the jobs has none."""
    found: list[tuple[str, str]] = []
    for one, side in zip(pair, (layer.a, layer.b), strict=True):
        if side is None or not one.artifacts.all("tir"):
            return None
        try:
            trace = open_trace(context.jobs, one.job.id, one.artifacts)
        except ProblemError:
            return None
        index = context.jobs.passes.get(one.job.id, one.artifacts, trace)
        text = _text(index, one, side.names[0], asked.stage)
        if text is None:
            return None
        found.append(text)
    (before, old), (after, new) = found
    if asked.view == "editor":  # an island fetches both texts, however long they are
        return {"functions": (before, after), "rows": [], "equal": False}

    def plain(_number: int, _line: str) -> Marks:
        return Marks()

    pairs = compare(old, new, make_lines(old, plain), make_lines(new, plain))
    if pairs is None:
        return {"functions": (before, after), "rows": None, "equal": False}
    equal = all(row.kind == "same" for row in pairs)
    rows = list(pairs) if asked.whole or equal else folded(pairs)
    return {"functions": (before, after), "rows": rows, "equal": equal}


def _text(index: PassIndex, one: ComparedJob, launch: str, stage: str) -> tuple[str, str] | None:
    """Name and text of the function that a launch runs, after a stage."""
    names = [name for name, function in index.functions.items() if launch in function.launches]
    try:
        file = index.find(stage).file
    except KeyError:
        return None
    if not names or file is None:
        return None
    text = functions_of(read_dump(one.artifacts, file)).get(names[0])
    return None if text is None else (names[0], text)
