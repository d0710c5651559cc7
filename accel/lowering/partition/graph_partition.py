"""Partition: which composites the accelerator runs, with their tiling, and why the others stay on the host."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tvm import ir

from accel.accelerator.target import Target
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.kept_answers import kept_answers
from accel.lowering.ir.function_attributes import HOST_REASON, JOINED, REGION, dump_region
from accel.lowering.kinds.region_kind import PlanRequest
from accel.lowering.kinds.registry import plan_region
from accel.lowering.partition.autotune import Measure, autotune
from accel.lowering.partition.composite_graph import CompositeGraph, PlacedComposite, read_graph
from accel.lowering.partition.joined_trials import ExpectRows, MeasureRow, tune_joined
from accel.lowering.partition.launch_rows import launches_of, without_neighbours
from accel.lowering.partition.pooling_fusion import fused_poolings
from accel.lowering.partition.residual_fusion import fused_additions
from accel.region.kinds import Region, TilingOption
from accel.region.tilings import TilingCost

Plan = Sequence[TilingOption] | str
"""The ways to run a composite, the cheapest first; or why there is none."""


@dataclass(frozen=True)
class RegionChoice:
    """What becomes of each composite: a region, an operand of the one that takes it in, or the host's work.

    Attributes:
        regions: by the composite's name.
        joined: places among the operands of an addition or a pooling, by the name of the contraction.
        reasons: why the host has it.
    """

    regions: dict[str, Region]
    joined: dict[str, int]
    reasons: dict[str, str]

    def dump(self) -> str:
        """Returns it as JSON; equal choices have equal texts."""
        regions = {name: dump_region(region) for name, region in self.regions.items()}
        return json.dumps([regions, self.joined, self.reasons])


@dataclass(frozen=True)
class JoinedPrices:
    """How tilings are chosen where launches run as one.

    Attributes:
        behind: prices what has its data from another composite; None: as all else is.
        measure: times launches with those around them; None: the prices decide.
        trials: how many at most.
        least_tile: of the cycles of all layers, those of a tile for a trial.
        expect: is told of launches that will be timed.
    """

    behind: TilingCost | None
    measure: MeasureRow | None = None
    trials: int = 0
    least_tile: float = 0.0
    expect: ExpectRows = lambda _rows: None


class PlansBeside(Protocol):
    """Another process, which plans composites while the job plans others."""

    def begin(self, names: Sequence[str]) -> None:
        """Has it plan composites of the graph, the last first; what it does already it goes on with."""

    def find(self, name: str) -> Plan | None:
        """Returns the plan of a composite; None if it is not made yet."""

    def end(self) -> None:
        """Has it plan no more."""


def partition(
    module: ir.IRModule,
    target: Target,
    cost: TilingCost,
    measure: Measure | None = None,
    host_nodes: Mapping[str, str] | None = None,
) -> ir.IRModule:
    """Mark every composite with its region, or with the reason why it has none.

    Args:
        module: the integer graph.
        target: what it is for.
        cost: prices tilings.
        measure: times regions, where prices lie close.
        host_nodes: nodes of the model that the host shall run, with why; and with each all of its composite.
    """
    capabilities = Capabilities.of(target)
    return marked(module, choose_regions(read_graph(module, capabilities, host_nodes), capabilities, cost, measure))


def choose_regions(
    graph: CompositeGraph,
    capabilities: Capabilities,
    cost: TilingCost,
    measure: Measure | None = None,
    exact: Callable[[TilingOption], bool] | None = None,
    joined: JoinedPrices | None = None,
    beside: PlansBeside | None = None,
) -> RegionChoice:
    """Returns what becomes of each composite, by the prices of tilings and, where these lie close, by their cycles.

    Where the price of the cheapest is ``exact``, it decides. ``joined`` says what else is asked where launches run as
    one. ``beside`` plans composites of this graph too, once there is one whose plan no earlier job has begun.
    """
    reasons, behind = dict(graph.reasons), None if joined is None else joined.behind
    uses = {name: placed.use for name, placed in graph.composites.items()}
    options, taken_in = fused_additions(graph.pairs, uses, reasons, capabilities, cost)
    lowest = {name: placed.lowest for name, placed in graph.composites.items()}
    if beside is not None and graph.pooled and capabilities.target.derived(kept_answers).given:
        beside.begin(_others(graph, reasons, taken_in, options))
    pooled, convolutions = fused_poolings(graph.pooled, uses, lowest, reasons, capabilities, cost)
    options, taken_in = options | pooled, taken_in | convolutions
    wanted = _others(graph, reasons, taken_in, options)
    for name, plan in _plans(graph, wanted, capabilities, cost, behind, beside).items():
        if isinstance(plan, str):
            reasons[name] = plan
        else:
            options[name] = plan
    launches = launches_of(graph, taken_in, options)
    # a trial times a launch alone, which says less of joined ones than their own prices do
    alone = options.keys() if behind is None else without_neighbours(launches)
    chosen = autotune({name: options[name] for name in options if name in alone}, measure, exact)
    chosen |= autotune({name: options[name] for name in options if name not in alone}, None)
    if joined is not None and joined.measure is not None:
        chosen |= tune_joined(
            options, chosen, launches, joined.measure, joined.trials, joined.least_tile, joined.expect
        )
    chosen = {name: chosen[name] for name in options}
    return RegionChoice(chosen, taken_in, reasons)


def _others(graph: CompositeGraph, *settled: Iterable[str]) -> list[str]:
    """The composites of a graph that are none of these."""
    known = set().union(*settled)
    return [name for name in graph.composites if name not in known]


def plan_composite(
    placed: PlacedComposite, capabilities: Capabilities, cost: TilingCost, behind: TilingCost | None
) -> Plan:
    """Returns the plan of a composite; ``behind`` prices one whose data do not come from the host, if it is given."""
    price = cost if behind is None or placed.use.from_host else behind
    return plan_region(PlanRequest(placed.composite, placed.use, placed.lowest, capabilities, price))


def _plans(
    graph: CompositeGraph,
    names: Sequence[str],
    capabilities: Capabilities,
    cost: TilingCost,
    behind: TilingCost | None,
    beside: PlansBeside | None,
) -> dict[str, Plan]:
    """The plans of composites, those that another process has made among them."""
    plans, answers = dict[str, Plan](), capabilities.target.derived(kept_answers)
    for place, name in enumerate(names):
        found = None if beside is None else beside.find(name)
        if found is None:
            found = plan_composite(graph.composites[name], capabilities, cost, behind)
            if beside is not None and answers.given:
                beside.begin(names[place + 1 :])
        plans[name] = found
    if beside is not None:
        beside.end()
    return plans


def marked(module: ir.IRModule, choice: RegionChoice) -> ir.IRModule:
    """Returns the integer graph with an attribute on each composite that says what becomes of it."""
    marks: dict[str, tuple[str, Any]] = {name: (HOST_REASON, reason) for name, reason in choice.reasons.items()}
    marks |= {name: (JOINED, place) for name, place in choice.joined.items()}
    marks |= {name: (REGION, dump_region(region)) for name, region in choice.regions.items()}
    result = ir.IRModule(dict(module.functions.items()), attrs=module.attrs)
    for name, mark in marks.items():
        variable = module.get_global_var(name)
        result.update_func(variable, module[variable].with_attr(*mark))
    return result
