"""Partition: which composites the accelerator runs, with their tiling, and why the others stay on the host."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tvm import ir

from accel.accelerator.target import Target
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.ir.function_attributes import HOST_REASON, JOINED, REGION, dump_region
from accel.lowering.kinds.region_kind import PlanRequest
from accel.lowering.kinds.registry import plan_region
from accel.lowering.partition.autotune import Measure, autotune
from accel.lowering.partition.composite_graph import CompositeGraph, read_graph
from accel.lowering.partition.joined_trials import ExpectRows, MeasureRow, tune_joined
from accel.lowering.partition.launch_rows import launches_of, without_neighbours
from accel.lowering.partition.residual_fusion import fused_additions
from accel.region.kinds import Region
from accel.region.tilings import TilingCost


@dataclass(frozen=True)
class RegionChoice:
    """What becomes of each composite: a region, an operand of the addition that takes it in, or the host's work.

    Attributes:
        regions: by the composite's name.
        joined: places among an addition's operands, by the name of the contraction.
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
    exact: Callable[[Region], bool] | None = None,
    joined: JoinedPrices | None = None,
) -> RegionChoice:
    """Returns what becomes of each composite, by the prices of tilings and, where these lie close, by their cycles.

    Where the price of the cheapest is ``exact``, it decides. ``joined`` says what else is asked where launches run as
    one.
    """
    reasons, behind = dict(graph.reasons), None if joined is None else joined.behind
    uses = {name: placed.use for name, placed in graph.composites.items()}
    options, taken_in = fused_additions(graph.pairs, uses, reasons, capabilities, cost)
    for name, placed in graph.composites.items():
        if name not in reasons and name not in taken_in and name not in options:
            price = cost if behind is None or placed.use.from_host else behind
            found = plan_region(PlanRequest(placed.composite, placed.use, placed.lowest, capabilities, price))
            if isinstance(found, str):
                reasons[name] = found
            else:
                options[name] = found
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
