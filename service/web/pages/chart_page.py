"""The page of many runs of one model: Pareto, parallel coordinates, and a table of the same figures."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from accel.report.compare.run_figures import FigureName, Value, pareto_front
from service.auth.caller import CurrentOwner
from service.auth.route_policy import access
from service.context import RequestContext
from service.http.resources import SearchText
from service.jobs.run_comparison import ComparedJob, RunComparison, RunQuery, compare_selected
from service.web.pages.list_pages import accelerator_names
from service.web.templating.rendering import render
from worker.records.annotations import MOST_TAG
from worker.records.job_request import DIGEST
from worker.records.listing.job_row import Verified

router = APIRouter(include_in_schema=False)
_SHAPES = 4  # beside the colours, which are eight
_COLOURS = 8
_Text = Annotated[str, Query(max_length=100)]


@dataclass(frozen=True)
class _Asked:
    """What the page is asked for; a field of the form may be empty. ``x`` and ``y`` are the figures of the Pareto."""

    q: SearchText = ""
    model: Annotated[str, Query(pattern=f"{DIGEST}|^$")] = ""
    accelerator: _Text = ""
    tag: Annotated[str, Query(max_length=MOST_TAG)] = ""
    verified: Verified | Literal["any"] = "true"
    pinned: Literal["", "true", "false"] = ""
    x: FigureName | Literal[""] = ""
    y: FigureName | Literal[""] = ""
    sort: Annotated[str, Query(max_length=200)] = "-submitted"

    @property
    def filter(self) -> dict[str, str]:
        """What selects runs, as the API takes it: the fields that say something."""
        given = {name: value.strip() for name, value in asdict(self).items() if name not in {"x", "y", "sort"}}
        usual = {"verified": RunQuery.verified}
        return {name: value for name, value in given.items() if value and value != usual.get(name)}

    @property
    def query(self) -> RunQuery:
        """The same for the API."""
        return RunQuery(
            q=self.q,
            model=self.model or None,
            accelerator=self.accelerator or None,
            tag=(self.tag.strip(),) if self.tag.strip() else (),
            pinned=None if self.pinned == "" else self.pinned == "true",
            verified=self.verified,
        )


@router.get("/jobs/chart")
@access("key")
def show_chart(
    request: Request, context: RequestContext, owner: CurrentOwner, asked: Annotated[_Asked, Depends()]
) -> Response:
    """The caller's runs of one model that a filter selects."""
    found = compare_selected(asked.query, owner, context)
    x, y = _axes(found, asked)
    by_name = {column.name: column for column in found.figures}
    front = [False] * len(found.runs)
    if x in by_name and y in by_name:
        pairs = [_pair(run, x, y) for run in found.runs]
        front = pareto_front(pairs, (by_name[x].better, by_name[y].better))
    on_front = {run.job for run, best in zip(found.runs, front, strict=True) if best}
    shares = [run.figures["macs_share"] for run in found.runs if "macs_share" in run.figures]
    return render(
        request,
        "chart.html",
        found=found,
        runs=_sorted(found.runs, asked.sort),
        on_front=on_front,
        groups=_groups(found.runs),
        x=x,
        y=y,
        asked=asked,
        accelerators=accelerator_names(context.uploads),
        unlike_shares=bool(shares) and max(shares) - min(shares) > 0.01,
    )


def _axes(found: RunComparison, asked: _Asked) -> tuple[str, str]:
    """The figures of the two axes: those asked for; else what a machine costs against what it takes."""

    def differs(name: FigureName) -> bool:
        return len({run.figures.get(name) for run in found.runs}) > 1

    clocks = any(column.name == "/clock_mhz" for column in found.parameters)
    cost: FigureName = "on_chip_bytes" if differs("on_chip_bytes") else "dram_bytes"
    return asked.x or cost, asked.y or ("seconds" if clocks else "cycles")


def _figures(run: ComparedJob) -> dict[str, Value]:
    return {str(name): value for name, value in run.figures.items()}


def _pair(run: ComparedJob, x: str, y: str) -> tuple[Value, Value] | None:
    found = _figures(run)
    return (found[x], found[y]) if x in found and y in found else None


def _sorted(runs: Sequence[ComparedJob], sort: str) -> list[ComparedJob]:
    """The runs by a column, with ``-`` the other way round; those without a value last, equal ones newest first."""
    name = sort.removeprefix("-")
    texts: dict[str, Callable[[ComparedJob], str]] = {
        "label": lambda run: (run.label or "").casefold(),
        "accelerator": lambda run: (run.accelerator.label or run.accelerator.title).casefold(),
    }

    def key(run: ComparedJob) -> Any:
        if name in texts:
            return texts[name](run) or None
        return (_figures(run) | run.parameters).get(name)

    if name == "submitted":
        return list(runs if sort.startswith("-") else reversed(runs))
    keyed = sorted((run for run in runs if key(run) is not None), key=key, reverse=sort.startswith("-"))
    return keyed + [run for run in runs if key(run) is None]


def _groups(runs: Sequence[ComparedJob]) -> dict[str, tuple[int, int]]:
    """Number of colour and of shape of each accelerator, by its document's name: neighbours differ in both."""
    names = sorted({run.accelerator.name for run in runs})
    return {name: (place % _COLOURS, (place + place // _COLOURS) % _SHAPES) for place, name in enumerate(names)}
