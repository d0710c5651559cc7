"""What each pass made of each function: the texts that a job dumped, taken apart by function, and what links them."""

import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pydantic

from accel.report.documents.dump_documents import PASSES_FILE, DumpIndex
from accel.trace.program_trace import Trace
from worker.records.job_artifacts import Artifacts

_DEF = re.compile(r"    def (\w+)\(")
_NESTS = re.compile(r'"cyclops\.nests": ("(?:[^"\\]|\\.)*")')
_CALLS = re.compile(r'T\.call_extern\("\w+", "(\w+)"[^\n]*, "site (\d+)"')
_MOST_BYTES = 64 << 20  # of a text that is taken apart: of a network of hundreds of layers


class Nest(pydantic.BaseModel):
    """A loop nest that an instruction replaces."""

    nest: int = pydantic.Field(description="its number in its function, which is the value of its pragma", examples=[6])
    pragma: str = pydantic.Field(examples=["pragma_gemm"])
    sites: list[int] = pydantic.Field(description="the calls that `inject` put in its place", examples=[[5]])


_NEST_LIST = pydantic.TypeAdapter(list[Nest])


@dataclass(frozen=True)
class SiteUse:
    """The instructions of a call site: how many there are in the trace, the first of them, and what they are."""

    instructions: int
    first: int
    operation: str
    pragma: str
    stage: str


@dataclass(frozen=True)
class IndexedFunction:
    """A function of some stage; ``nests`` is None where the job did not record them.

    ``launches`` are those that run it, in order; ``sites`` are its calls, where the job has a trace. ``calls`` says of
    a site which instruction of the document its call names, which may be encoded as several.
    """

    name: str
    nests: Sequence[Nest] | None = None
    launches: tuple[str, ...] = ()
    sites: Mapping[int, SiteUse] = field(default_factory=dict)
    calls: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class IndexedPass:
    """A pass, or the end of a stage, which a pass of ours may be.

    Attributes:
        name: as ``/tir/NAME`` has it; of a pass that left no text the same without a number.
        stage: the stage that it is within.
        title: what it is called.
        file: of its text; None where it changed nothing.
        functions: those that its text has.
        changed: those of them that were not there before, or otherwise.
    """

    name: str
    stage: str
    title: str
    file: str | None
    functions: tuple[str, ...] = ()
    changed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PassIndex:
    """All passes of a job in order, and all functions; those that the accelerator runs come first."""

    passes: tuple[IndexedPass, ...]
    functions: Mapping[str, IndexedFunction]

    def find(self, name: str) -> IndexedPass:
        """Returns a pass.

        Raises:
            KeyError: there is none of this name.
        """
        for each in self.passes:
            if each.name == name:
                return each
        raise KeyError(name)

    def of(self, function: str) -> list[IndexedPass]:
        """Returns the passes that a function went through, from the first that has it."""
        there = [number for number, each in enumerate(self.passes) if function in each.functions]
        if not there:
            return []
        through = self.passes[there[0] : there[-1] + 1]
        return [each for each in through if each.file is None or function in each.functions]

    def before(self, name: str, function: str) -> IndexedPass | None:
        """Returns the pass whose text of the function is the last before that of ``name``; None if it is the first."""
        found = None
        for each in self.passes:
            if each.name == name:
                return found
            if function in each.functions:
                found = each
        return None


def functions_of(text: str) -> dict[str, str]:
    """Returns the functions of a module in TVMScript by name, without the module's indentation; none for other text."""
    found: dict[str, str] = {}
    taken: list[str] = []
    for line in [*text.split("\n"), "    @"]:
        if line.startswith("    @") and any(_DEF.match(each) for each in taken):
            name = next(match[1] for each in taken if (match := _DEF.match(each)))
            found[name] = "\n".join(each[4:] for each in taken).rstrip("\n")
            taken = []
        if taken or line.startswith("    @"):
            taken.append(line)
    return found


def read_dump(artifacts: Artifacts, file: str) -> str:
    """Returns the text of a dump, or of so much of it as is taken apart."""
    name = f"tir/{file}"
    size = min(artifacts.get(name).bytes, _MOST_BYTES)
    return artifacts.read(name, 0, size).decode("utf-8", "replace")


def make_index(artifacts: Artifacts, trace: Trace | None) -> PassIndex:
    """Returns the index of a job's dumps.

    Args:
        artifacts: of the job.
        trace: its trace, which says of a function who launches it and what its sites are; None if there is none.
    """
    digests: dict[str, bytes] = {}
    passes: list[IndexedPass] = []
    nests: dict[str, Sequence[Nest]] = {}
    regions: dict[str, None] = {}
    calls: dict[str, dict[int, str]] = {}
    for name, stage, title, file in _listed(artifacts):
        if file is None:
            passes.append(IndexedPass(name, stage, title, None))
            continue
        texts = functions_of(read_dump(artifacts, file))
        now = {function: hashlib.sha256(text.encode()).digest() for function, text in texts.items()}
        changed = frozenset(function for function, digest in now.items() if digests.get(function) != digest)
        digests |= now
        passes.append(IndexedPass(name, stage, title, file, tuple(texts), changed))
        if stage == "inject":
            nests |= {function: found for function, text in texts.items() if (found := _nests_of(text)) is not None}
        if name == stage:
            for function, text in texts.items():
                calls.setdefault(function, {}).update((int(site), call) for call, site in _CALLS.findall(text))
        if stage == "schedule":
            regions |= dict.fromkeys(function for function, text in texts.items() if '"cyclops.region"' in text)
    used, launches = ({}, {}) if trace is None else _uses(trace)
    first_run = {function: number for number, function in enumerate(launches)}
    order = sorted(regions, key=lambda function: first_run.get(function, len(launches)))
    functions = {
        name: IndexedFunction(name, nests.get(name), launches.get(name, ()), used.get(name, {}), calls.get(name, {}))
        for name in [*order, *(function for function in digests if function not in regions)]
    }
    return PassIndex(tuple(passes), functions)


def _listed(artifacts: Artifacts) -> Iterator[tuple[str, str, str, str | None]]:
    """Yields (name, stage, title, file) of each pass and each stage's end, in the order in which they ran."""
    index = _read_index(artifacts)
    if index is None:  # of a job before passes that change nothing were listed
        dumps = [item.name[len("tir/") : -len(".txt")] for item in artifacts.all("tir") if item.name.endswith(".txt")]
        for dump in sorted(dumps, key=lambda dump: (dump.partition("/")[0], "/" not in dump, dump)):
            name, file = dump.partition("-")[2], f"{dump}.txt"
            stage, _, within = name.partition("/")
            yield name, stage, within.partition("-")[2] or stage, file
        return
    for stage_dump in index.stages:
        for number, each in enumerate(stage_dump.passes):
            name = f"{stage_dump.name}/{each.name}.{number}"
            if each.file is not None:
                name = each.file.removesuffix(".txt").partition("-")[2]
            yield name, stage_dump.name, each.name, each.file
        yield stage_dump.name, stage_dump.name, stage_dump.name, stage_dump.file


def _read_index(artifacts: Artifacts) -> DumpIndex | None:
    name = f"tir/{PASSES_FILE}"
    try:
        return DumpIndex.model_validate_json(artifacts.read(name, 0, artifacts.get(name).bytes))
    except (KeyError, pydantic.ValidationError):
        return None


def _nests_of(text: str) -> list[Nest] | None:
    """The nests that a function's attribute lists; None where it has none."""
    found = _NESTS.search(text)
    try:
        return None if found is None else _NEST_LIST.validate_json(json.loads(found[1]))
    except ValueError:
        return None


def _uses(trace: Trace) -> tuple[dict[str, dict[int, SiteUse]], dict[str, tuple[str, ...]]]:
    """Returns the sites of each function, and its launches, functions in the order in which they first run."""
    sites: dict[str, dict[int, SiteUse]] = {}
    launches: dict[str, dict[str, None]] = {}
    names = trace.names
    for use in trace.origins():
        said = names.origins[use.origin]
        known = sites.setdefault(said.function, {}).get(said.site)
        if known is None:
            known = SiteUse(0, use.first, names.operations[use.kind].name, said.pragma, said.stage)
        sites[said.function][said.site] = replace(known, instructions=known.instructions + use.instructions)
        launches.setdefault(said.function, {})[names.launches[use.launch].name] = None
    return sites, {function: tuple(found) for function, found in launches.items()}


class PassIndexCache:
    """Keeps the indices of ended jobs that were looked at last."""

    def __init__(self, *, keep: int = 32) -> None:
        self._keep = keep
        self._kept: OrderedDict[str, PassIndex] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, job_id: str, artifacts: Artifacts, trace: Trace | None) -> PassIndex:
        """Returns the index of an ended job, made or from the cache."""
        with self._lock:
            found = self._kept.get(job_id)
        found = found or make_index(artifacts, trace)
        with self._lock:
            self._kept[job_id] = found
            self._kept.move_to_end(job_id)
            while len(self._kept) > self._keep:
                self._kept.popitem(last=False)
        return found
