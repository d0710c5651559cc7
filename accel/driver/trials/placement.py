"""Which nodes are left to the host because the whole is faster so: launches, host steps and movement together.

The whole is estimated as a dry run does. Nodes of a launch are left together, and what that changes is estimated anew:
layouts, launches that are parted, tensors that cross.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tvm import ir

from accel.accelerator.document import Accelerator
from accel.accelerator.host_costs import HostCosts
from accel.accelerator.target import Target
from accel.driver.launch_estimate import joined_cycles, launch_cycles
from accel.driver.trials.region_timer import RegionTimer
from accel.errors import CompileError, InvalidProgram
from accel.host.host_graph_reader import check_graph
from accel.host.operator_work import graph_work
from accel.isa.family_registry import family_of
from accel.joining.joined_launches import with_joined_steps
from accel.lowering.codegen.program_linking import outline
from accel.lowering.ir.function_attributes import LAUNCHES, LaunchInfo, dump_region, load_launches, region_of
from accel.lowering.ir.host_runs import LaunchRun, split_main
from accel.report.documents.end_to_end_documents import EndToEnd, EndToEndStep
from accel.report.end_to_end import planned_end_to_end

Reasons = Mapping[str, str]
"""Nodes that are left to the host, each with the reason."""

_MOST_TRIALS = 32  # other placements that are estimated, each by packing the graph anew


def estimated_end_to_end(packed: ir.IRModule, accelerator: Accelerator, cycles: Sequence[int]) -> EndToEnd | None:
    """Returns the end-to-end time of a graph whose launches take ``cycles``, in their order; None where it is unknown.

    Args:
        packed: after the stage ``pack``.
        accelerator: whose document says what its host costs.
        cycles: of each launch.
    """
    try:
        program, graphs = outline(packed, accelerator)
        program = with_joined_steps(program, family_of(accelerator))
        works = [graph_work(check_graph(graph)) for graph in graphs]
    except (CompileError, InvalidProgram):
        return None
    return planned_end_to_end(program, works, cycles)


@dataclass(frozen=True)
class _Placement:
    """A placement: its end-to-end time, and its launches in their order."""

    time: EndToEnd
    launches: tuple[LaunchInfo, ...]

    @property
    def nodes(self) -> list[tuple[str, ...]]:
        """The nodes of each launch."""
        return [launch.host_nodes or launch.nodes for launch in self.launches]

    def beside(self, nodes: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Returns the nodes of the launches before and behind the one of ``nodes``."""
        all_nodes, place = self.nodes, self.nodes.index(nodes)
        return all_nodes[max(place - 1, 0) : place] + all_nodes[place + 1 : place + 2]


class FastestPlacement:
    """Leaves nodes to the host, launch by launch, as long as the estimated whole gets faster."""

    def __init__(self, pack: Callable[[Reasons], ir.IRModule], target: Target, timer: RegionTimer) -> None:
        """Begin with no placement.

        Args:
            pack: returns the packed module, with these nodes left to the host.
            target: whose document says what its host costs.
            timer: times regions, without a cache, so that it has all that it timed.
        """
        self._pack, self._target, self._timer = pack, target, timer
        self._accelerator = target.accelerator
        self._cycles: dict[str, int] = {}

    def left_to_host(self, given: Reasons) -> Reasons:
        """Returns ``given``, and what else the host shall run; nothing where the whole cannot be estimated."""
        host = self._accelerator.host
        assert host is not None
        left, best = dict(given), self._placement(given)
        tried: set[tuple[str, ...]] = set()
        for _ in range(_MOST_TRIALS):
            candidate = None if best is None else self._candidate(best, tried, host)
            if best is None or candidate is None:
                break
            tried.add(candidate)
            other = self._placement({**left, **dict.fromkeys(candidate, "")})
            if other is not None and other.time.cycles < best.time.cycles:
                why = (
                    f"the whole is faster so: {other.time.cycles:,} cycles end to end as estimated, with the host's "
                    f"modelled, instead of {best.time.cycles:,}"
                )
                left |= dict.fromkeys(candidate, why)
                tried -= set(best.beside(candidate))  # which may be worth another try
                best = other
        return left

    def _candidate(self, placement: _Placement, tried: set[tuple[str, ...]], host: HostCosts) -> tuple[str, ...] | None:
        """The nodes of the launch that may save most if it is left to the host; None if none may save anything."""
        steps = placement.time.steps
        places = [place for place, step in enumerate(steps) if step.kind == "launch"]
        found = [
            (self._most_saved(steps, place, launch.macs, host), nodes)
            for place, launch, nodes in zip(places, placement.launches, placement.nodes, strict=True)
            if nodes and nodes not in tried
        ]
        saved, nodes = max(found, default=(0.0, ()))
        return nodes if saved > 0 else None

    def _most_saved(self, steps: list[EndToEndStep], place: int, macs: int, host: HostCosts) -> float:
        """Cycles that leaving a launch to the host saves at most: all around it, but what its products take there."""
        around = sum(each.host + each.movement for each in steps[max(place - 1, 0) : place + 2])
        products = macs / host.elements_per_cycle.contraction
        clocks = self._accelerator.clock_mhz / host.clock_mhz
        return steps[place].accelerator + around - (host.operator_cycles + products) * clocks

    def _placement(self, left: Reasons) -> _Placement | None:
        """A placement with its time; None where something of it cannot be estimated."""
        packed = self._pack(left)
        infos = load_launches(str(packed["main"].attrs[LAUNCHES]))
        runs = [run for run in split_main(packed) if isinstance(run, LaunchRun)]
        cycles = [self._launch_cycles(packed, run) for run in runs]
        known = joined_cycles(packed, self._target, self._timer.lowered)
        known = [each for each in cycles if each is not None] if known is None else known
        time = estimated_end_to_end(packed, self._accelerator, known) if len(known) == len(cycles) else None
        return None if time is None else _Placement(time, tuple(infos[str(run.var.name)] for run in runs))

    def _launch_cycles(self, packed: ir.IRModule, run: LaunchRun) -> int | None:
        region = region_of(packed[run.call.args[0]])
        assert region is not None
        key = dump_region(region)
        if key not in self._cycles:
            cycles = launch_cycles(region, self._timer)
            if cycles is None:
                return None
            self._cycles[key] = cycles
        return self._cycles[key]
