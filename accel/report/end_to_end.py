"""The end-to-end time of a program: its steps one after the other, on the accelerator and on the host of the document.

What the host does is modelled by the document alone; the accelerator's cycles are taken as they are.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from accel.accelerator.document import Accelerator
from accel.accelerator.host_costs import HostCosts
from accel.host.host_graph_reader import read_host_graph
from accel.host.host_prices import StepPrice, cache_cycles, step_price
from accel.host.operator_work import OperatorWork, graph_work
from accel.isa.family import FencesLaunches
from accel.isa.family_registry import family_of
from accel.program.program_model import HostStep, Launch, Program, joined_groups
from accel.report.documents.end_to_end_documents import (
    EndToEnd,
    EndToEndStep,
    ModelledHost,
    PartTime,
    TimeDetail,
    TimePart,
)
from accel.report.documents.report_documents import ReportedLayer
from accel.report.layer_report import network_bound
from accel.util.arrays import Words

_NONE = "host costs nothing: the accelerator's document says none"


@dataclass(frozen=True)
class PricedStep:
    """A launch or a host step, and the tensors by name that it reads, and writes.

    Attributes:
        cycles: of a launch, by the accelerator's clock.
        bound: of a launch, the least that it could take.
        joined: whether a launch runs in one with the one before it, which the host has started.
        works: of a host step, its operators.
        put: tensors that the host writes right before a launch.
        fences: at how many places within a launch the host waits until all before has ended.
    """

    name: str
    kind: Literal["launch", "host"]
    nodes: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    cycles: int = 0
    bound: int = 0
    works: Sequence[OperatorWork] = ()
    put: tuple[str, ...] = ()
    joined: bool = False
    fences: int = 0


@dataclass(frozen=True)
class DramTensors:
    """The bytes of tensors in DRAM, and which of them a run begins and ends with."""

    nbytes: Mapping[str, int]
    inputs: Collection[str]
    outputs: Collection[str]


HostWorks = Sequence[Sequence[OperatorWork]]
"""What the operators of each host step of a program have to do."""


def program_end_to_end(program: Program, layers: Sequence[ReportedLayer], works: HostWorks | None) -> EndToEnd:
    """Returns the end-to-end time of a program that was timed.

    Args:
        program: as it ran.
        layers: its launches, in their order.
        works: of its host steps; None: they are read.
    """
    if works is None:
        works = list(_read_works(program)) if program.accelerator.host is not None else ()
    return _of_program(program, list(_cycles_and_bounds(layers)), works, bounded=True)


def _cycles_and_bounds(layers: Sequence[ReportedLayer]) -> Iterator[tuple[int, int]]:
    """The cycles of each layer, and the least that it could take: of those that run as one the first has it of all."""
    for first, *more in joined_groups(layers, lambda layer: layer.joined):
        bound = network_bound([first, *more]) if more else None
        yield first.cycles, first.lower_bound if bound is None else bound.cycles
        yield from ((layer.cycles, 0) for layer in more)


def planned_end_to_end(program: Program, works: HostWorks, cycles: Sequence[int]) -> EndToEnd:
    """Returns the end-to-end time of a program whose launches take ``cycles``, in their order, as estimated."""
    return _of_program(program, [(count, 0) for count in cycles], works, bounded=False)


def _read_works(program: Program) -> Iterator[Sequence[OperatorWork]]:
    return (graph_work(read_host_graph(step.module)) for step in program.steps if isinstance(step, HostStep))


def _of_program(program: Program, launches: Sequence[tuple[int, int]], works: HostWorks, *, bounded: bool) -> EndToEnd:
    tensors = DramTensors(
        {name: segment.nbytes for name, segment in program.segments.items()}, program.inputs, program.outputs
    )
    return end_to_end(list(_steps(program, launches, works)), tensors, program.accelerator, bounded=bounded)


def _steps(program: Program, launches: Sequence[tuple[int, int]], works: HostWorks) -> Iterator[PricedStep]:
    """The steps, launches with their cycles and bounds; host steps where the document says what they cost."""
    times, left, priced = iter(launches), iter(works), program.accelerator.host is not None
    fence = _fence(program.accelerator)
    for step in program.steps:
        name, nodes, reads, writes = step.name, step.nodes, step.inputs, step.outputs
        if isinstance(step, Launch):
            cycles, bound = next(times)
            put, joined, fences = step.writes, step.joined, _fences(program, step, fence)
            yield PricedStep(name, "launch", nodes, reads, writes, cycles, bound, (), put, joined, fences)
        elif isinstance(step, HostStep) and priced:
            yield PricedStep(name, "host", nodes, reads, writes, works=next(left))


def _fence(accelerator: Accelerator) -> Words | None:
    """The instruction at which the host waits; None where there is none."""
    family = family_of(accelerator)
    return family.fence(accelerator) if isinstance(family, FencesLaunches) else None


def _fences(program: Program, launch: Launch, fence: Words | None) -> int:
    """How often the host waits within a launch; of one without instructions yet, once where it is joined."""
    if fence is None:
        return 0
    if not len(program.words):
        return int(launch.joined)
    return int((program.words[launch.begin : launch.begin + launch.count] == fence).all(axis=1).sum())


def end_to_end(
    steps: Sequence[PricedStep], tensors: DramTensors, accelerator: Accelerator, *, bounded: bool
) -> EndToEnd:
    """Returns the end-to-end time of steps in their order; ``bounded``: the bounds of launches are known."""
    host, clock = accelerator.host, accelerator.clock_mhz
    priced = [] if host is None else list(_priced(steps, tensors, host, clock))
    launched = sum(step.cycles for step in steps)
    details: dict[TimeDetail, int] = {
        "launches": sum(each.launch for each in priced),
        "operators": sum(each.operators for each in priced),
        "layout": sum(each.layout for each in priced),
        "cache": sum(each.cache for each in priced),
    }
    cycles: dict[TimePart, int] = {
        "accelerator": launched,
        "host": details["launches"] + details["operators"],
        "movement": details["layout"] + details["cache"],
    }
    total = sum(cycles.values())
    interval = max(launched, total - launched)
    bound = total - launched + sum(step.bound for step in steps) if bounded else None
    return EndToEnd(
        modelled=host is not None,
        statement=_NONE if host is None else _statement(host),
        host=None if host is None else ModelledHost(**host.model_dump(include=set(ModelledHost.model_fields))),
        cycles=total,
        seconds=_seconds(total, clock),
        parts={
            name: PartTime(cycles=count, seconds=_seconds(count, clock), share=_share(name, count, total))
            for name, count in cycles.items()
        },
        details=details,
        bound_cycles=bound,
        bound_seconds=None if bound is None else _seconds(bound, clock),
        interval_cycles=interval,
        interval_seconds=_seconds(interval, clock),
        steps=list(_rows(priced)),
    )


def _statement(host: HostCosts) -> str:
    return (
        f"modelled: host operators, launches and movement by the document's host ({host.name}; {host.basis}), steps "
        "one after the other; the accelerator's part is exact or not as `timing_model` says"
    )


def _seconds(cycles: int, clock_mhz: float) -> float:
    return cycles / (clock_mhz * 1e6)


def _share(name: TimePart, count: int, total: int) -> float:
    """Of a run that takes no time, all is the accelerator's."""
    return count / total if total else float(name == "accelerator")


@dataclass(frozen=True)
class _Priced:
    """A step with what the host does for it, in whole cycles of the accelerator's clock, rounded up."""

    step: PricedStep
    price: StepPrice
    launch: int
    operators: int
    layout: int
    cache: int
    crossing: int


def _priced(steps: Sequence[PricedStep], tensors: DramTensors, host: HostCosts, clock_mhz: float) -> Iterator[_Priced]:
    clocks = Fraction(clock_mhz) / Fraction(host.clock_mhz)

    def whole(cycles: float) -> int:
        return math.ceil(Fraction(cycles) * clocks)

    launch, fence = whole(host.launch_cycles + host.completion_cycles), whole(host.completion_cycles)
    for step, crossed in zip(steps, crossing_tensors(steps, tensors), strict=True):
        price, sizes = step_price(step.works, host), [tensors.nbytes[name] for name in crossed]
        yield _Priced(
            step,
            price,
            launch=(launch if step.kind == "launch" and not step.joined else 0) + fence * step.fences,
            operators=whole(price.computing),
            layout=whole(price.moving),
            cache=whole(cache_cycles(sizes, host)),
            crossing=sum(sizes),
        )


def _rows(priced: Sequence[_Priced]) -> Iterator[EndToEndStep]:
    begin = 0
    for each in priced:
        row = EndToEndStep(
            name=each.step.name,
            kind=each.step.kind,
            nodes=list(each.step.nodes),
            begin=begin,
            accelerator=each.step.cycles,
            host=each.launch + each.operators,
            movement=each.layout + each.cache,
            elements=dict(each.price.elements),
            nbytes=each.price.nbytes,
            crossing=each.crossing,
        )
        begin += row.accelerator + row.host + row.movement
        yield row


@dataclass
class _Owners:
    """Who last wrote each tensor in a way that the other has not seen; constants and what both know are of neither."""

    host: set[str] = field(default_factory=set)
    accelerator: dict[str, int] = field(default_factory=dict)
    """Of these the number of the launch."""


def crossing_tensors(steps: Sequence[PricedStep], tensors: DramTensors) -> list[list[str]]:
    """Returns the tensors for which each step maintains the cache.

    Before a launch the host's cache is cleaned over what the launch touches and the host has written since it last was:
    inputs among them, constants not, which are there before. Before a host step it is invalidated over what a launch
    has written and this is the first to read; over outputs of the program behind the launch that wrote them.
    """
    owners, found = _Owners(host=set(tensors.inputs)), list[list[str]]()
    for number, step in enumerate(steps):
        touched = dict.fromkeys((*step.reads, *step.writes))
        if step.kind == "launch":
            owners.host.update(step.put)
            found.append([name for name in touched if name in owners.host])
            owners.host.difference_update(touched)
            owners.accelerator.update(dict.fromkeys(step.writes, number))
        else:
            found.append([name for name in dict.fromkeys(step.reads) if name in owners.accelerator])
            for name in touched:
                owners.accelerator.pop(name, None)
            owners.host.update(step.writes)
    for name in dict.fromkeys(tensors.outputs):
        if name in owners.accelerator:
            found[owners.accelerator[name]].append(name)
    return found


def with_overheads(layers: Sequence[ReportedLayer], found: EndToEnd | None) -> list[ReportedLayer]:
    """Returns the layers with what each launch of them costs the host."""
    launches = [] if found is None else [step for step in found.steps if step.kind == "launch"]
    if not launches:
        return list(layers)
    return [
        layer.model_copy(update={"overhead_cycles": step.host + step.movement})
        for layer, step in zip(layers, launches, strict=True)
    ]
