"""Tilings for results that stay on the chip: what loads them is then no reason for one tiling or another.

Where whole results do not fit, tiles are to be stripes of them: small enough for several layers' beside each other.
Which tilings are taken is decided by the programs that they become.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accel.accelerator.contraction import Contraction
from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.isa.family import KeepsResults, dram_traffic
from accel.isa.family_registry import family_of
from accel.joining.resident_tensors import can_keep, nodes_in_dram
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.codegen.region_lowering import LoweredRegion
from accel.lowering.partition.composite_graph import CompositeGraph
from accel.lowering.partition.graph_partition import JoinedPrices, RegionChoice, choose_regions
from accel.program.program_model import Program
from accel.region.epilogue import Epilogue
from accel.region.shapes import Convolution
from accel.region.tilings import Candidates, TilingCost
from accel.simulate.engine import simulate
from accel.util.arrays import Float64

_STRIPES = (4, 12)  # numbers of stripes that tilings are chosen for
_TOO_LARGE = 1e6  # times its cycles, for a tile that is no stripe: one is taken where no smaller tile is possible


@dataclass(frozen=True)
class TriedProgram:
    """What a choice of regions becomes: a program, the one with all results in DRAM if another, and its regions."""

    program: Program
    in_dram: Program | None
    regions: Mapping[str, LoweredRegion]


@dataclass(frozen=True)
class TriedChoice:
    """A choice, the program that it becomes, and the cycles and bytes of DRAM of all its launches."""

    choice: RegionChoice
    program: Program
    cycles: int
    dram_bytes: int


Compiled = Callable[[RegionChoice, Mapping[str, LoweredRegion], bool], TriedProgram]
"""Makes a program of a choice, given the regions compiled before, and whether launches may run depth first."""


class ChoiceTrials:
    """Choices of regions as whole programs; ``tried`` and ``programs`` are what was compiled for them.

    These are regions by their attribute, and programs by the instructions of the ones with all results in DRAM.
    """

    def __init__(self, compiled: Compiled) -> None:
        """Begin with none."""
        self._compiled = compiled
        self._found: dict[str, TriedChoice] = {}
        self.tried: dict[str, LoweredRegion] = {}
        self.programs: dict[str, Program] = {}

    def add(self, choice: RegionChoice, *, depth_first: bool = False) -> None:
        """Compile and time a choice that was not tried yet, its launches depth first perhaps."""
        text = choice.dump()
        if text in self._found and not depth_first:
            return
        made = self._compiled(choice, dict(self.tried), depth_first)
        run = simulate(made.program, {}, function=False)
        boxes = family_of(made.program.accelerator).boxes
        moved = sum(sum(dram_traffic(boxes(launch.decoded))) for launch in run.launches)
        self._found[text] = TriedChoice(choice, made.program, run.cycles, moved)
        self.tried |= made.regions
        self.programs[words_digest(made.in_dram or made.program)] = made.program

    def best(self, *, by_bytes: bool = False) -> TriedChoice:
        """Returns the choice of the fewest cycles or bytes, the first of equals."""
        return min(self._found.values(), key=lambda each: each.dram_bytes if by_bytes else each.cycles)


def tried_choices(
    choices: Sequence[RegionChoice],
    graph: CompositeGraph,
    target: Target,
    compiled: Compiled,
    *,
    depth_first: bool,
) -> ChoiceTrials:
    """Returns choices with all data in DRAM, and others, as programs with results on the chip.

    One is priced as if all data stayed; and where some results do not fit, others have stripes of these for tiles.
    """
    capabilities, cost = Capabilities.of(target), family_of(target.accelerator).tiling_cost
    trials = ChoiceTrials(compiled)
    for choice in choices:
        trials.add(choice)
    trials.add(choose_regions(graph, capabilities, cost, joined=JoinedPrices(staying_cost(target.accelerator))))
    best = trials.best()
    nodes = nodes_in_dram(best.program) if depth_first else frozenset[str]()
    if nodes:
        trials.add(best.choice, depth_first=True)
    for stripes in _STRIPES if nodes else ():
        price = striped_cost(cost, stripes)
        striped = choose_regions(graph, capabilities, price, joined=JoinedPrices(price))
        trials.add(mixed_choice(best.choice, striped, graph, nodes), depth_first=True)
    return trials


def words_digest(program: Program) -> str:
    """Returns the SHA-256 of a program's instructions, which for one model and document say all that it does."""
    return hashlib.sha256(np.ascontiguousarray(program.words).tobytes()).hexdigest()


def staying_cost(accelerator: Accelerator) -> TilingCost | None:
    """Returns the price of tilings whose data is on the chip before; None where no result can stay there."""
    family = family_of(accelerator)
    if not can_keep(accelerator, family):
        return None
    assert isinstance(family, KeepsResults)
    cost, stays = family.tiling_cost, family.while_results_stay(accelerator)

    def price(
        candidates: Candidates, conv: Convolution, epilogue: Epilogue, gemm: Contraction, _document: Accelerator
    ) -> Float64:
        return cost(candidates, conv, epilogue, gemm, stays)

    return price


def striped_cost(price: TilingCost, stripes: int) -> TilingCost:
    """Returns the price of tilings whose tiles are no more than one of so many stripes of an image's rows."""

    def striped(
        candidates: Candidates, conv: Convolution, epilogue: Epilogue, gemm: Contraction, document: Accelerator
    ) -> Float64:
        cycles = price(candidates, conv, epilogue, gemm, document)
        rows = max(1, conv.out_height // stripes)
        most = rows * conv.out_width if conv.out_height >= stripes else -(-conv.out_width // stripes)
        small = (candidates.out_rows <= rows) & (candidates.out_rows * candidates.out_columns <= most)
        return np.asarray(np.where(small, cycles, cycles * _TOO_LARGE), np.float64)

    return striped


def mixed_choice(
    choice: RegionChoice, striped: RegionChoice, graph: CompositeGraph, nodes: Collection[str]
) -> RegionChoice:
    """Returns a choice with the tilings of ``striped`` for the layers of some nodes of the model.

    That is ``striped`` itself where they do not leave the same to the host, or to additions.
    """
    if (choice.regions.keys(), choice.joined) != (striped.regions.keys(), striped.joined):
        return striped
    theirs: Mapping[str, bool] = {
        name: not set(nodes).isdisjoint(placed.composite.nodes) for name, placed in graph.composites.items()
    }
    regions = {name: striped.regions[name] if theirs.get(name) else region for name, region in choice.regions.items()}
    return replace(choice, regions=regions)
