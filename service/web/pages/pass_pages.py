"""The page of a job's passes: what each did to a function, and how a pragma becomes instructions."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from accel.report.documents.graph_documents import GRAPH_FILE
from service.auth.route_policy import access
from service.context import RequestJobs
from service.http.problems import ProblemError
from service.jobs.job_id import JobId
from service.jobs.job_report import read_report
from service.routes.results.passes import open_passes, search_passes
from service.web.figures.pass_diff import Gap, Marks, Note, Pair, compare, folded, inline, make_lines
from service.web.templating.rendering import frame_of, render
from worker.records.job_artifacts import Artifacts
from worker.records.pass_index import IndexedFunction, IndexedPass, Nest, PassIndex, functions_of, read_dump

router = APIRouter(include_in_schema=False)
_PRAGMA = re.compile(r'"(pragma_\w+)"(?:: |, )(\d+)')
_SITE = re.compile(r'"site (\d+)"')
_MOST_DOCUMENT = 4 << 20  # bytes
_Link = Callable[..., str]


@dataclass(frozen=True)
class Selection:
    """What the address asks for; ``step`` is a pass, ``whole`` all lines of a text."""

    function: Annotated[str | None, Query(max_length=500)] = None
    layer: Annotated[str | None, Query(max_length=500)] = None
    step: Annotated[str | None, Query(alias="pass", max_length=500)] = None
    view: Literal["inline", "side", "editor"] = "inline"
    site: Annotated[int | None, Query(ge=0, le=1 << 31)] = None
    nest: Annotated[int | None, Query(ge=0, le=1 << 31)] = None
    line: Annotated[int | None, Query(ge=1, le=1 << 31)] = None
    whole: bool = False
    q: Annotated[str, Query(max_length=200)] = ""


@router.get("/jobs/{id}/passes")
@access("link", "jobs")
def show_passes(
    id: JobId,  # noqa: A002 - as in the API
    request: Request,
    jobs: RequestJobs,
    chosen: Annotated[Selection, Depends()],
) -> Response:
    """What a pass did to a function, and its pragmas, nests and calls."""
    artifacts, index = open_passes(jobs, id)
    here = _function(index, chosen)
    through = index.of(here.name) if here is not None else []
    one = _pass(index, through, chosen)
    link = _links(frame_of(request).link, id, here, one, chosen)
    told = _Told(here, link)
    return render(
        request,
        "passes.html",
        job=jobs.get(id),
        functions=list(index.functions.values()),
        cycles=_cycles(artifacts, index),
        layers=_layers(artifacts, here),
        graph=any(each.name == GRAPH_FILE for each in artifacts.all()),
        here=here,
        one=one,
        steps=_steps(index, here, through),
        shown=_shown(artifacts, index, here, one, chosen, told),
        chosen=chosen,
        at=link,
        story=_story(artifacts, here, chosen),
        found=search_passes(id, jobs, chosen.q) if chosen.q else None,
    )


def _function(index: PassIndex, chosen: Selection) -> IndexedFunction | None:
    """The function that is asked for, else the first that the accelerator runs, else the first."""
    if chosen.function is None:
        running = [each for each in index.functions.values() if chosen.layer in each.launches]
        if running:
            return running[0]
        return next(iter(index.functions.values()), None)
    try:
        return index.functions[chosen.function]
    except KeyError:
        detail = f"the job has dumped no function {chosen.function!r}"
        raise ProblemError("not-found", detail, field="function") from None


def _pass(index: PassIndex, through: Sequence[IndexedPass], chosen: Selection) -> IndexedPass:
    """The pass that is asked for; else ``inject``, where pragmas become calls, or the last that did anything."""
    if chosen.step is not None:
        try:
            return index.find(chosen.step)
        except KeyError:
            detail = f"the job has dumped no pass {chosen.step!r}"
            raise ProblemError("not-found", detail, field="pass") from None
    wanted = "schedule" if chosen.nest is not None else "inject"
    named = [each for each in through if each.name == wanted]
    return (named or [each for each in through if each.file] or list(index.passes))[-1]


def _links(
    link: _Link, job_id: str, here: IndexedFunction | None, one: IndexedPass, chosen: Selection
) -> Callable[..., str]:
    """Returns what makes addresses: of this page with some parts otherwise, and of the timeline."""

    def at(fragment: str = "", path: str = "passes", **parts: Any) -> str:
        if path != "passes":
            return link(f"/jobs/{job_id}/{path}", **parts) + (f"#{fragment}" if fragment else "")
        query = {
            "function": here and here.name,
            "pass": one.name,
            "view": chosen.view if chosen.view != "inline" else None,
            **{"pass" if name == "step" else name: value for name, value in parts.items()},
        }
        return link(f"/jobs/{job_id}/passes", **query) + (f"#{fragment}" if fragment else "")

    return at


class _Told:
    """Notes on the lines of a function: the nest that a pragma numbers, and the site that a call ends in."""

    def __init__(self, function: IndexedFunction | None, at: Callable[..., str]) -> None:
        self._function, self._at = function, at
        nests = function.nests or () if function is not None else ()
        self._nests = {each.nest: each for each in nests}
        self._of_site = {site: each for each in nests for site in each.sites}
        self._pragmas = {each.pragma for each in nests}

    def marks(self, stage: str, chosen: Selection, side: str) -> Callable[[int, str], Marks]:
        """Returns what is known of a line of the text that a stage left; ``side`` keeps the anchors of two apart."""

        def found(number: int, line: str) -> Marks:
            selected = chosen.line == number and side == "after"
            if stage in {"schedule", "flatten"} and (match := _PRAGMA.search(line)):
                if match[1] not in self._pragmas:
                    return Marks(selected=selected)
                nest = int(match[2])
                mine = chosen.nest == nest or (chosen.site in self._sites(nest) if chosen.site is not None else False)
                return Marks(self._of_nest(nest, match[1], stage), f"nest-{nest}-{side}", selected or mine)
            if match := _SITE.search(line):
                site = int(match[1])
                nest_of = self._of_site.get(site)
                mine = chosen.site == site or (nest_of is not None and nest_of.nest == chosen.nest)
                return Marks(self._of_call(site, nest_of), f"site-{site}-{side}", selected or mine)
            return Marks(selected=selected)

        return found

    def _sites(self, nest: int) -> Sequence[int]:
        return self._nests[nest].sites if nest in self._nests else ()

    def _of_nest(self, nest: int, pragma: str, stage: str) -> list[Note]:
        """Where the nest is set, and what came of it."""
        notes = []
        if stage != "schedule":
            set_at = self._at(f"nest-{nest}-after", step="schedule", nest=nest)
            notes.append(Note(f"{pragma} {nest} set by schedule", set_at, "nest"))
        if not self._sites(nest):
            gone = self._at(step="flatten", nest=nest)
            notes.append(Note(f"nest {nest}: flatten found nothing left to do", gone, "nest"))
        for site in self._sites(nest):
            consumed = self._at(f"site-{site}-after", step="inject", site=site)
            notes.append(Note(f"nest {nest} consumed by inject: site {site}", consumed, "site"))
        return notes

    def _of_call(self, site: int, nest: Nest | None) -> list[Note]:
        """Where the call comes from, its instruction in the document, and its instructions in the trace."""
        notes = []
        use = self._function.sites.get(site) if self._function is not None else None
        if nest is not None:
            set_at = self._at(f"nest-{nest.nest}-after", step="schedule", nest=nest.nest)
            notes.append(Note(f"{nest.pragma} {nest.nest} set by schedule", set_at, "nest"))
        elif use is not None:
            notes.append(
                Note(f"put here by {use.stage}", self._at(f"site-{site}-after", step=use.stage, site=site), "nest")
            )
        call = self._function.calls.get(site) if self._function is not None else None
        if call is not None:
            lines = self._at(f"instruction-{call}", path="accelerator", instruction=call)
            notes.append(Note(f"{call} in the document", lines, "instructions"))
        if use is not None:
            text = f"{use.operation}: {use.instructions:,} in the trace"
            notes.append(Note(text, self._at(path="timeline", select=use.first), "instructions"))
        return notes


def _steps(
    index: PassIndex, here: IndexedFunction | None, through: Sequence[IndexedPass]
) -> list[tuple[IndexedPass, bool]]:
    """The passes to list, each with whether it changed the function; without a function those that left a text."""
    if here is None:
        return [(each, True) for each in index.passes if each.file is not None]
    return [(each, here.name in each.changed) for each in through]


def _shown(
    artifacts: Artifacts,
    index: PassIndex,
    here: IndexedFunction | None,
    one: IndexedPass,
    chosen: Selection,
    told: _Told,
) -> dict[str, Any]:
    """Rows of the comparison; or of the text alone, where there is none before it, or it is too long."""
    before = index.before(one.name, here.name) if here is not None else None
    if one.file is None:
        return {"rows": [], "before": before, "compared": False, "changed": False, "two": False}
    text = read_dump(artifacts, one.file)
    whole_text = here is None or here.name not in one.functions
    if not whole_text and here is not None:
        text = functions_of(text)[here.name]
    two = before is not None and before.file is not None and not whole_text
    if two and chosen.view == "editor":  # an island fetches both texts, however long they are
        return {"rows": [], "before": before, "compared": False, "changed": True, "whole": False, "two": True}
    after = make_lines(text, told.marks(one.stage, chosen, "after"))
    pairs: list[Pair] | None = None
    if before is not None and before.file is not None and here is not None and not whole_text:
        old = functions_of(read_dump(artifacts, before.file))[here.name]
        pairs = compare(old, text, make_lines(old, told.marks(before.stage, chosen, "before")), after)
    if pairs is None:
        rows: list[Pair | Gap] = [Pair("same", line, line) for line in after]
        return {
            "rows": list(inline(rows)),
            "before": before,
            "compared": False,
            "changed": True,
            "whole": whole_text,
            "two": two,
        }
    changed = any(pair.kind == "changed" for pair in pairs)
    kept = folded(pairs) if changed and not chosen.whole else list(pairs)
    rows = list(kept)
    return {
        "rows": rows if chosen.view == "side" else list(inline(rows)),
        "before": before,
        "compared": True,
        "changed": changed,
        "whole": False,
        "two": True,
    }


def _story(artifacts: Artifacts, here: IndexedFunction | None, chosen: Selection) -> Mapping[str, Any] | None:
    """The way of one nest, with the names of this job: the selected one, or one that computes; None without nests."""
    if here is None or not here.nests:
        return None
    answering = _answering(artifacts)
    computing = {pragma for pragma, known in answering.items() if any(kind == "compute" for _, kind in known)}
    nests = sorted(here.nests, key=lambda nest: (nest.pragma not in computing, -len(nest.sites)))
    wanted = [nest for nest in nests if nest.nest == chosen.nest or chosen.site in nest.sites]
    nest = (wanted or nests)[0]
    site = chosen.site if chosen.site in nest.sites else (nest.sites[0] if nest.sites else None)
    return {
        "nest": nest,
        "site": site,
        "use": here.sites.get(site) if site is not None else None,
        "instructions": [name for name, _ in answering.get(nest.pragma, ())],
    }


def _answering(artifacts: Artifacts) -> dict[str, list[tuple[str, str]]]:
    """Name and kind of the instructions that answer to each pragma, as the accelerator's document has them."""
    name = "accelerator.json"
    found: dict[str, list[tuple[str, str]]] = {}
    try:
        if artifacts.get(name).bytes > _MOST_DOCUMENT:
            return {}
        document = json.loads(artifacts.read(name, 0, artifacts.get(name).bytes))
        for each in document["instructions"]:
            if each.get("pragma"):
                found.setdefault(str(each["pragma"]), []).append((str(each["name"]), str(each.get("kind"))))
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}
    return found


def _layers(artifacts: Artifacts, here: IndexedFunction | None) -> list[tuple[int, str]]:
    """Number and name of the layers that the function runs, as the report has them."""
    report = read_report(artifacts)
    layers = [] if report is None or here is None else report.get("layers") or []
    return [(number, each["name"]) for number, each in enumerate(layers, 1) if here and each["name"] in here.launches]


def _cycles(artifacts: Artifacts, index: PassIndex) -> dict[str, int]:
    """Cycles of all layers that a function runs, by its name, where the report says them."""
    report = read_report(artifacts)
    if report is None:
        return {}
    layers = {layer["name"]: layer["cycles"] for layer in report.get("layers", ()) if layer["cycles"] is not None}
    return {
        name: sum(layers[launch] for launch in each.launches)
        for name, each in index.functions.items()
        if each.launches and all(launch in layers for launch in each.launches)
    }
