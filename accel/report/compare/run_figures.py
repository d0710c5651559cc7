"""Figures by which runs of one model are chosen among: what a run took, and the parameters of its accelerator."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import pydantic
from pydantic import Field

from accel.accelerator.memories import DTYPE_BYTES
from accel.report.documents.report_documents import DocumentSource, Machine, Macs

FigureName = Literal[
    "cycles",
    "seconds",
    "end_to_end_seconds",
    "dram_bytes",
    "energy_pj",
    "on_chip_bytes",
    "utilisation",
    "macs_share",
    "sqnr_db",
]
Value = int | float
_MOST_PARAMETERS = 12  # that are compared: more axes than that nobody reads


class FigureColumn(pydantic.BaseModel):
    """A figure that runs have."""

    name: FigureName
    title: str
    unit: str = Field(description="`1` of a share")
    better: Literal["less", "more"]


class ParameterColumn(pydantic.BaseModel):
    """A parameter of accelerators."""

    name: str = Field(
        description="a JSON pointer into the accelerator's document; `/memories/NAME` is the size of a memory, and "
        "`peak_macs_per_cycle` is of the report's `machine`",
        examples=["/dram/bus_bytes"],
    )
    title: str = Field(examples=["DRAM bus"])
    unit: str = Field(examples=["B/cycle"])


class RunFigures(pydantic.BaseModel):
    """What is compared of a run; a figure or a parameter that is not known is not there."""

    accelerator: DocumentSource
    figures: dict[FigureName, Value]
    parameters: dict[str, Value]


FIGURES: tuple[FigureColumn, ...] = (
    FigureColumn(name="cycles", title="cycles", unit="cycles", better="less"),
    FigureColumn(name="seconds", title="time at the clock", unit="s", better="less"),
    FigureColumn(name="end_to_end_seconds", title="end to end (modelled)", unit="s", better="less"),
    FigureColumn(name="dram_bytes", title="DRAM traffic", unit="B", better="less"),
    FigureColumn(name="energy_pj", title="energy", unit="pJ", better="less"),
    FigureColumn(name="on_chip_bytes", title="on-chip memory", unit="B", better="less"),
    FigureColumn(name="utilisation", title="utilisation", unit="1", better="more"),
    FigureColumn(name="macs_share", title="MACs on the accelerator", unit="1", better="more"),
    FigureColumn(name="sqnr_db", title="least SQNR", unit="dB", better="more"),
)
_MAIN = ("peak_macs_per_cycle", "/clock_mhz", "/dram/bus_bytes", "/dram/read_latency")
_TITLES: Mapping[str, tuple[str, str]] = {
    "peak_macs_per_cycle": ("MACs at best", "MAC/cycle"),
    "/clock_mhz": ("clock", "MHz"),
    "/dram/bus_bytes": ("DRAM bus", "B/cycle"),
    "/dram/read_latency": ("DRAM latency", "cycles"),
    "/dram/burst_beats": ("longest burst", "beats"),
    "/dram/burst_boundary_bytes": ("burst boundary", "B"),
    "/dram/alignment_bytes": ("alignment", "B"),
    "/host/clock_mhz": ("host's clock", "MHz"),
    "/host/bytes_per_cycle": ("host's memory", "B/cycle"),
    "/host/launch_cycles": ("a launch", "host cycles"),
}


class _Layer(pydantic.BaseModel):
    bytes_read: int
    bytes_written: int


class _Quality(pydantic.BaseModel):
    sqnr_db: float


class _EndToEnd(pydantic.BaseModel):
    modelled: bool
    seconds: float


class _Energy(pydantic.BaseModel):
    total: float


class _Provenance(pydantic.BaseModel):
    accelerator: DocumentSource


class _Report(pydantic.BaseModel):
    """The parts of a model's report that figures are made of: to read all of hundreds of reports takes seconds."""

    provenance: _Provenance
    cycles: int
    seconds: float | None = None
    end_to_end: _EndToEnd | None = None
    energy_pj: float | None = None
    energy: _Energy | None = None
    macs: Macs
    machine: Machine | None = None
    layers: list[_Layer]
    quantisation: list[_Quality] = []


def run_figures(report: bytes, document: bytes | None) -> RunFigures:
    """Returns the figures of a run.

    Args:
        report: the report of a model's job, JSON.
        document: the accelerator's document, JSON; None where it was not kept.

    Raises:
        ValueError: one of them is not what it should be, as another version wrote it.
    """
    read = _Report.model_validate_json(report)
    parameters = {} if document is None else dict(_parameters(pydantic.TypeAdapter(dict).validate_json(document)))
    if read.machine is not None and read.machine.peak_macs_per_cycle:
        parameters = {"peak_macs_per_cycle": read.machine.peak_macs_per_cycle} | parameters
    sizes = [value for name, value in parameters.items() if name.startswith("/memories/")]
    return RunFigures(
        accelerator=read.provenance.accelerator,
        figures={name: value for name, value in _figures(read, sizes).items() if value is not None},
        parameters=parameters,
    )


def _figures(read: _Report, memories: Sequence[Value]) -> dict[FigureName, Value | None]:
    peak = read.machine.peak_macs_per_cycle if read.machine is not None else None
    return {
        "cycles": read.cycles,
        "seconds": read.seconds,
        "end_to_end_seconds": read.end_to_end.seconds if read.end_to_end and read.end_to_end.modelled else None,
        "dram_bytes": sum(layer.bytes_read + layer.bytes_written for layer in read.layers),
        "energy_pj": read.energy_pj if read.energy is None else read.energy.total,
        "on_chip_bytes": sum(memories) if memories else None,
        "utilisation": read.macs.accelerator / (read.cycles * peak) if peak and read.cycles else None,
        "macs_share": read.macs.share,
        "sqnr_db": min((each.sqnr_db for each in read.quantisation), default=None),
    }


def _parameters(document: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    """Yields the numbers of a document that say how large and how fast it is, not how it is encoded."""
    if _is_number(document.get("clock_mhz")):
        yield "/clock_mhz", document["clock_mhz"]
    yield from _numbers(document.get("dram"), "/dram")
    for memory in document.get("memories", ()):
        element = math.prod(memory["shape"]) * DTYPE_BYTES[memory["dtype"]]
        yield f"/memories/{_pointer(memory['name'])}", memory["depth"] * element
    yield from _numbers(document.get("synchronisation"), "/synchronisation")
    yield from _numbers(document.get("host"), "/host")
    yield from _numbers(document.get("parameters"), "/parameters")


def _numbers(value: Any, place: str) -> Iterator[tuple[str, Value]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _numbers(inner, f"{place}/{_pointer(key)}")
    elif _is_number(value):
        yield place, value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _pointer(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def differing_parameters(runs: Sequence[RunFigures]) -> list[ParameterColumn]:
    """Returns the parameters that all of the runs have and that are not the same in all, the main ones first."""
    if not runs:
        return []
    shared = [name for name in runs[0].parameters if all(name in run.parameters for run in runs)]
    unlike = [name for name in shared if len({run.parameters[name] for run in runs}) > 1]
    main = [name for name in _MAIN if name in unlike] + [name for name in unlike if name.startswith("/memories/")]
    others = [name for name in unlike if name not in main]
    return [_column(name) for name in [*main, *others][:_MOST_PARAMETERS]]


def _column(name: str) -> ParameterColumn:
    words = name.replace("~1", "/").replace("~0", "~")
    if name.startswith("/memories/"):
        title, unit = f"memory {words.removeprefix('/memories/')}", "B"
    else:
        title, unit = _TITLES.get(name, (words.rpartition("/")[2].replace("_", " "), ""))
    return ParameterColumn(name=name, title=title, unit=unit)


def pareto_front(points: Sequence[tuple[Value, Value] | None], better: tuple[str, str]) -> list[bool]:
    """Returns of each point whether no other is at least as good in both figures and better in one.

    Args:
        points: pairs of figures; None where one of them is not known, which is never on the front.
        better: ``less`` or ``more``, of both figures.
    """
    signs = [1 if each == "less" else -1 for each in better]
    costs = [None if point is None else (signs[0] * point[0], signs[1] * point[1]) for point in points]
    front = [False] * len(points)
    order = sorted((cost, number) for number, cost in enumerate(costs) if cost is not None)
    best, at = math.inf, math.nan  # the least of the second figure so far, and the first figure where it was met
    for (first, second), number in order:
        if second < best:
            best, at = second, first
        front[number] = second == best and first == at
    return front
