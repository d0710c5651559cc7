"""The passes: which functions each changed, what replaced the nests under pragmas, and a search through all texts."""

from typing import Annotated

import pydantic
from fastapi import APIRouter, Query
from pydantic import Field

from service.auth.route_policy import access
from service.context import JobContext, RequestJobs
from service.http.declarations import declare_problems
from service.http.problems import ProblemError
from service.jobs.job_id import JobId
from service.routes.results.artifacts import artifacts_of
from service.routes.results.trace import open_trace
from worker.records.job_artifacts import Artifacts
from worker.records.pass_index import IndexedFunction, Nest, PassIndex, functions_of, read_dump

router = APIRouter(prefix="/v1/jobs/{id}/passes", tags=["results"])
_PROBLEMS = declare_problems("not-found")
_MOST_MATCHES = 1000
_MOST_SHOWN = 300  # characters of a line that matches


class CallSite(pydantic.BaseModel):
    """A call of an instruction in a function."""

    site: int = Field(description="its number, which the text has as `site N`", examples=[5])
    operation: str | None = Field(
        description="the instruction in the trace, the first that it is encoded as; null: the job has no trace",
        examples=["gemm"],
    )
    instruction: str | None = Field(
        description="the instruction of the document that the call names; null: no text has the call", examples=["gemm"]
    )
    stage: str | None = Field(
        description="the stage that put it there; null: the job has no trace", examples=["inject"]
    )
    nest: int | None = Field(description="the nest that it replaces; null: it replaces none, or that was not recorded")
    instructions: int | None = Field(description="of it in the trace; null: the job has no trace")
    first: int | None = Field(description="place of the first of them in the trace")


class PassFunction(pydantic.BaseModel):
    """A function of the module."""

    name: str = Field(examples=["conv2d_0"])
    launches: list[str] = Field(description="the layers that it runs, if the job has a trace")
    nests: list[Nest] | None = Field(description="as `inject` found them, in program order; null: not recorded")
    sites: list[CallSite]


class PassEntry(pydantic.BaseModel):
    """A TVM pass, or the end of a stage."""

    name: str = Field(description="as `/tir/{stage}` takes it", examples=["flatten/02-s_tir.CompactBufferAllocation"])
    stage: str = Field(examples=["flatten"])
    title: str = Field(examples=["s_tir.CompactBufferAllocation"])
    functions: list[str] = Field(description="that its text has; none: the text is no module, or it changed nothing")
    changed: list[str] = Field(description="those of them that are new, or otherwise than before")
    href: str | None = Field(description="the text; null: it changed nothing")


class PassListing(pydantic.BaseModel):
    """All passes in the order in which they ran, and all functions; those of the accelerator come first."""

    passes: list[PassEntry]
    functions: list[PassFunction]


class PassMatch(pydantic.BaseModel):
    """A line that has the text, where a pass made it so."""

    pass_: str = Field(alias="pass", examples=["inject"])
    function: str = Field(examples=["conv2d_0"])
    line: int = Field(description="in the function, counted from 1", examples=[12])
    text: str


class PassMatches(pydantic.BaseModel):
    """What a search has found, in the order of the passes."""

    matches: list[PassMatch]
    complete: bool = Field(description="false: there are more")


def open_passes(jobs: JobContext, job_id: str) -> tuple[Artifacts, PassIndex]:
    """Returns the artifacts of an ended job, and the index of its dumps.

    Raises:
        ProblemError: the caller has no such job, or it has dumped nothing.
    """
    artifacts = artifacts_of(jobs, job_id, complete=False)
    if not artifacts.all("tir"):
        raise ProblemError("not-found", artifacts.missing("text of a pass"), field="id")
    try:
        trace = open_trace(jobs, job_id, artifacts)
    except ProblemError:
        trace = None
    return artifacts, jobs.passes.get(job_id, artifacts, trace)


@router.get("", summary="List the passes", responses=_PROBLEMS)
@access("link", "jobs")
def list_passes(id: JobId, jobs: RequestJobs) -> PassListing:  # noqa: A002 - the API's name
    """Which pass changed which function; and of each function the nests under pragmas, and what replaced them.

    `schedule` numbers the nests of a function, `inject` replaces each by calls of an instruction at numbered sites.
    `/tir/{stage}?function=` is the text of one function after one pass.
    """
    _, index = open_passes(jobs, id)
    passes = [
        PassEntry(
            name=each.name,
            stage=each.stage,
            title=each.title,
            functions=list(each.functions),
            changed=[name for name in each.functions if name in each.changed],
            href=f"/v1/jobs/{id}/tir/{each.name}" if each.file is not None else None,
        )
        for each in index.passes
    ]
    return PassListing(passes=passes, functions=[_function(each) for each in index.functions.values()])


def _function(function: IndexedFunction) -> PassFunction:
    nests = {site: each.nest for each in function.nests or () for site in each.sites}
    sites = []
    for site in sorted({*nests, *function.sites}):
        use = function.sites.get(site)
        sites.append(
            CallSite(
                site=site,
                operation=use and use.operation,
                instruction=function.calls.get(site),
                stage=use and use.stage,
                nest=nests.get(site),
                instructions=use and use.instructions,
                first=use and use.first,
            )
        )
    nested = None if function.nests is None else list(function.nests)
    return PassFunction(name=function.name, launches=list(function.launches), nests=nested, sites=sites)


@router.get("/search", summary="Search the passes", responses=_PROBLEMS)
@access("link", "jobs")
def search_passes(
    id: JobId,  # noqa: A002 - the API's name
    jobs: RequestJobs,
    text: Annotated[str, Query(min_length=1, max_length=200, description="to look for", examples=["pragma_"])],
    function: Annotated[str | None, Query(max_length=500, description="the only one to look at")] = None,
    limit: Annotated[int, Query(ge=1, le=_MOST_MATCHES)] = 200,
) -> PassMatches:
    """Lines with a text, upper and lower case being one: of each function after each pass that changed it."""
    artifacts, index = open_passes(jobs, id)
    wanted, found = text.casefold(), list[PassMatch]()
    for each in index.passes:
        if each.file is None or not (each.changed if function is None else function in each.changed):
            continue
        texts = functions_of(read_dump(artifacts, each.file))
        for name in [name for name in texts if name in each.changed and function in {None, name}]:
            for number, line in enumerate(texts[name].split("\n"), 1):
                at = line.casefold().find(wanted)
                if at < 0:
                    continue
                if len(found) == limit:
                    return PassMatches(matches=found, complete=False)
                found.append(PassMatch(**{"pass": each.name}, function=name, line=number, text=_around(line, at)))
    return PassMatches(matches=found, complete=True)


def _around(line: str, at: int) -> str:
    """The part of a line around a place in it."""
    line, at = line.strip(), at - (len(line) - len(line.lstrip()))
    begin = max(0, at - _MOST_SHOWN // 3) if len(line) > _MOST_SHOWN else 0
    return line[begin : begin + _MOST_SHOWN]
