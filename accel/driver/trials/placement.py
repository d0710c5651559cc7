"""Which nodes are left to the host because the whole is faster so: launches, host steps and movement together.

The whole is estimated as a dry run does. Nodes of a launch are left together, and what that changes is estimated anew:
layouts, launches that are parted, tensors that cross.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from accel.program.program_model import Launch, Program, joined_groups
from accel.report.documents.end_to_end_documents import EndToEnd
from accel.report.end_to_end import HostWorks, planned_end_to_end

Reasons = Mapping[str, str]
"""Nodes that are left to the host, each with the reason."""

_Groups = Sequence[tuple[int, ...]]  # launches that are left to the host together, by their places, in order

_MOST_TRIALS = 32  # other placements that are estimated, each by packing the graph anew; one more, without any launch


def estimated_end_to_end(
    packed: ir.IRModule, accelerator: Accelerator, cycles: Sequence[int], *, join: bool
) -> EndToEnd | None:
    """Returns the end-to-end time of a graph whose launches take ``cycles``, in their order; None where it is unknown.

    Args:
        packed: after the stage ``pack``.
        accelerator: whose document says what its host costs.
        cycles: of each launch.
        join: whether launches run as one where they can.
    """
    outlined = _outlined(packed, accelerator, join=join)
    return None if outlined is None else planned_end_to_end(*outlined, cycles)


def _outlined(packed: ir.IRModule, accelerator: Accelerator, *, join: bool) -> tuple[Program, HostWorks] | None:
    """The program of a packed graph without instructions, and what its host steps have to do; None if unknown."""
    try:
        program, graphs = outline(packed, accelerator)
        program = with_joined_steps(program, family_of(accelerator)) if join else program
        return program, [graph_work(check_graph(graph)) for graph in graphs]
    except (CompileError, InvalidProgram):
        return None


@dataclass(frozen=True)
class _Placement:
    """A placement: its end-to-end time, and its launches in their order.

    Attributes:
        rows: the places of launches that run as one, each list in order; of all launches.
    """

    time: EndToEnd
    launches: tuple[LaunchInfo, ...]
    rows: tuple[tuple[int, ...], ...]

    def nodes(self, group: Sequence[int]) -> tuple[str, ...]:
        """Returns the nodes of the launches at these places."""
        launches = [self.launches[place] for place in group]
        return tuple(dict.fromkeys(node for each in launches for node in each.host_nodes or each.nodes))

    def groups(self) -> Iterator[_Groups]:
        """Yields what may be left together: each launch; those that run as one; all of them."""
        yield [(place,) for place in range(len(self.launches))]
        yield [row for row in self.rows if len(row) > 1]
        yield self.whole()

    def whole(self) -> _Groups:
        """Returns the one group of all launches."""
        return [tuple(range(len(self.launches)))]

    def beside(self, group: Sequence[int]) -> list[tuple[str, ...]]:
        """Returns the nodes of the launches before and behind those of a group, each by itself."""
        outside = (group[0] - 1, group[-1] + 1)
        return [self.nodes([place]) for place in outside if 0 <= place < len(self.launches)]


class FastestPlacement:
    """Leaves nodes to the host, by launches and by what runs as one, as long as the estimated whole gets faster."""

    def __init__(
        self, pack: Callable[[Reasons], ir.IRModule], target: Target, timer: RegionTimer, *, join: bool
    ) -> None:
        """Begin with no placement.

        Args:
            pack: returns the packed module, with these nodes left to the host.
            target: whose document says what its host costs.
            timer: times regions, without a cache, so that it has all that it timed.
            join: whether launches run as one where they can.
        """
        self._pack, self._target, self._timer, self._join = pack, target, timer, join
        self._accelerator = target.accelerator
        self._cycles: dict[str, int] = {}

    def left_to_host(self, given: Reasons) -> Reasons:
        """Returns ``given``, and what else the host shall run; nothing where the whole cannot be estimated."""
        host = self._accelerator.host
        assert host is not None
        left, best = dict(given), self._placement(given)
        tried: set[tuple[str, ...]] = set()
        for trial in range(_MOST_TRIALS + 1):
            if best is None:
                break
            groups = best.groups() if trial < _MOST_TRIALS else [best.whole()]
            group = self._candidate(best, groups, tried, host)
            if group is None:
                break
            nodes = best.nodes(group)
            tried.add(nodes)
            other = self._placement({**left, **dict.fromkeys(nodes, "")})
            if other is not None and other.time.cycles < best.time.cycles:
                why = (
                    f"the whole is faster so: {other.time.cycles:,} cycles end to end as estimated, with the host's "
                    f"modelled, instead of {best.time.cycles:,}"
                )
                left |= dict.fromkeys(nodes, why)
                tried -= set(best.beside(group))  # which may be worth another try
                best = other
        return left

    def _candidate(
        self, placement: _Placement, groups: Iterable[_Groups], tried: set[tuple[str, ...]], host: HostCosts
    ) -> tuple[int, ...] | None:
        """The launches that may save most if they are left to the host; None if none may save anything.

        Several are asked together once none is worth it by itself: those that run as one share what a launch costs.
        """
        for alike in groups:
            asked = [group for group in alike if (nodes := placement.nodes(group)) and nodes not in tried]
            saved = {group: self._most_saved(placement, group, host) for group in asked}
            most = max(saved, key=saved.__getitem__, default=())
            if saved.get(most, 0.0) > 0:
                return most
        return None

    def _most_saved(self, placement: _Placement, group: Sequence[int], host: HostCosts) -> float:
        """Cycles that leaving launches to the host saves at most: all around them, but what products take there."""
        steps = placement.time.steps
        launches = [place for place, step in enumerate(steps) if step.kind == "launch"]
        touched = steps[max(launches[group[0]] - 1, 0) : launches[group[-1]] + 2]
        around = sum(each.host + each.movement for each in touched)
        own = sum(steps[launches[place]].accelerator for place in group)
        products = sum(placement.launches[place].macs for place in group) / host.elements_per_cycle.contraction
        clocks = self._accelerator.clock_mhz / host.clock_mhz
        return own + around - (len(group) * host.operator_cycles + products) * clocks

    def _placement(self, left: Reasons) -> _Placement | None:
        """A placement with its time; None where something of it cannot be estimated."""
        packed = self._pack(left)
        infos = load_launches(str(packed["main"].attrs[LAUNCHES]))
        runs = [run for run in split_main(packed) if isinstance(run, LaunchRun)]
        cycles = [self._launch_cycles(packed, run) for run in runs]
        known = joined_cycles(packed, self._target, self._timer) if self._join else None
        known = [each for each in cycles if each is not None] if known is None else known
        outlined = _outlined(packed, self._accelerator, join=self._join)
        if outlined is None or len(known) != len(cycles):
            return None
        numbered = enumerate(step.joined for step in outlined[0].steps if isinstance(step, Launch))
        rows = joined_groups(numbered, lambda each: each[1])
        return _Placement(
            time=planned_end_to_end(*outlined, known),
            launches=tuple(infos[str(run.var.name)] for run in runs),
            rows=tuple(tuple(place for place, _ in row) for row in rows),
        )

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
