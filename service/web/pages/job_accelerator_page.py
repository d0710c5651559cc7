"""The document that a job ran on, line by line, and what became of each instruction: calls, cycles, slices."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from accel.accelerator.document import Accelerator
from accel.accelerator.text.document_text import MAX_BYTES
from accel.catalog.load_accelerator import checked_accelerator
from accel.errors import InvalidAccelerator
from accel.report.documents.graph_documents import GRAPH_FILE
from service.auth.route_policy import access
from service.context import RequestContext
from service.http.problems import ProblemError
from service.jobs.job_id import JobId
from service.jobs.job_report import read_report
from service.routes.results.passes import open_passes
from service.web.figures.document_lines import Form
from service.web.pages.accelerator_pages import DocumentChoice, document_links, document_values
from service.web.templating.rendering import frame_of, render
from worker.records.job_artifacts import Artifacts
from worker.records.job_record import Job
from worker.records.pass_index import IndexedFunction

router = APIRouter(include_in_schema=False)
_DOCUMENT = "accelerator.json"


@router.get("/jobs/{id}/accelerator")
@access("link", "jobs")
def show_job_accelerator(
    id: JobId,  # noqa: A002 - as in the API
    request: Request,
    context: RequestContext,
    choice: DocumentChoice,
    format: Annotated[Form, Query()] = "yaml",  # noqa: A002 - as in the API
) -> Response:
    """The document that the job ran on, which is there when its accelerator is deleted, or is another owner's."""
    job = context.jobs.get(id)
    artifacts = context.jobs.artifacts(job)
    accelerator = _document(artifacts)
    report, functions = read_report(artifacts) or {}, _functions(job, context)
    uses = {each.name: _use(each.name, accelerator, report, functions) for each in accelerator.instructions}
    link = frame_of(request).link
    return render(
        request,
        "job_accelerator.html",
        job=job,
        kept=job.accelerator if context.uploads.accelerators.exists(job.accelerator or "") else None,
        at=document_links(link, f"/jobs/{id}/accelerator", format),
        download=link(f"/v1/jobs/{id}/artifacts/{_DOCUMENT}"),
        has_graph=any(each.name == GRAPH_FILE for each in artifacts.all()),
        uses=uses,
        selected=uses.get(choice.instruction or ""),
        **document_values(accelerator, None, format, choice),
    )


def _document(artifacts: Artifacts) -> Accelerator:
    try:
        size = artifacts.get(_DOCUMENT).bytes
    except KeyError:
        raise ProblemError("not-found", artifacts.missing(repr(_DOCUMENT)), field="id") from None
    try:
        return checked_accelerator(artifacts.read(_DOCUMENT, 0, min(size, MAX_BYTES)))
    except (InvalidAccelerator, ValueError) as error:
        detail = "another version made the job, whose documents have another form; get it as JSON"
        raise ProblemError("not-found", detail, field="id") from error


def _functions(job: Job, context: RequestContext) -> Mapping[str, IndexedFunction]:
    try:
        return open_passes(context.jobs, job.id)[1].functions
    except ProblemError:  # it has dumped nothing, as the job of a program
        return {}


@dataclass(frozen=True)
class CallSite:
    """A call, and the stage that put it there."""

    site: int
    stage: str


@dataclass(frozen=True)
class LayerUse:
    """What became of an instruction in a layer, the ``number``th launch, which takes the cycles ``[begin, end)``.

    ``cycles`` is how long its unit was at work with it, None where the report does not say; ``first`` is the first of
    its instructions in the trace, where it is known to be of this layer.
    """

    number: int
    name: str
    begin: int
    end: int
    cycles: int | None
    first: int | None
    function: str | None
    sites: Sequence[CallSite]


@dataclass(frozen=True)
class InstructionUse:
    """What became of an instruction; ``parts`` is what it is encoded as, ``within`` what it is a part of."""

    name: str
    parts: Sequence[str]
    within: Sequence[str]
    layers: Sequence[LayerUse]

    @property
    def cycles(self) -> int:
        """How long its unit was at work with it, in all layers."""
        return sum(each.cycles or 0 for each in self.layers)

    @property
    def calls(self) -> int:
        """Calls in all functions."""
        return sum(len(sites) for sites in {each.function: each.sites for each in self.layers}.values())


def _use(
    name: str, accelerator: Accelerator, report: Mapping[str, Any], functions: Mapping[str, IndexedFunction]
) -> InstructionUse:
    within = [each.name for each in accelerator.instructions if name in each.sequence]
    layers = _layers({name, *within}, name, report, functions)
    return InstructionUse(name, accelerator.instruction(name).sequence, within, list(layers))


def _layers(
    calls: set[str], name: str, report: Mapping[str, Any], functions: Mapping[str, IndexedFunction]
) -> Iterator[LayerUse]:
    launched = {launch: each for each in functions.values() for launch in each.launches}
    layers = report.get("layers") or report.get("launches") or ()
    ends = list(itertools.accumulate((layer["cycles"] or 0 for layer in layers), initial=0))
    for number, layer in enumerate(layers, 1):
        function = launched.get(layer["name"])
        sites = [] if function is None else [site for site, call in function.calls.items() if call in calls]
        cycles = _busy(layer, name)
        if not sites and not cycles:
            continue
        known = {} if function is None else function.sites
        firsts = [known[site].first for site in sites if site in known]
        alone = function is not None and function.launches[:1] == (layer["name"],)  # the trace names the first launch
        yield LayerUse(
            number=number,
            name=layer["name"],
            begin=ends[number - 1],
            end=ends[number],
            cycles=cycles,
            first=min(firsts, default=None) if alone else None,
            function=None if function is None else function.name,
            sites=[CallSite(site, known[site].stage if site in known else "inject") for site in sorted(sites)],
        )


def _busy(layer: Mapping[str, Any], name: str) -> int | None:
    account = layer.get("account")
    if account is None:
        return None
    found = [unit["busy"][name] for unit in account["units"].values() if name in unit.get("busy", {})]
    return sum(found) if found else None
