"""Concatenations: what one joins is stored side by side, where it is, or where it is moved to behind.

Parts are stored by the launches that make them, or by programs that move them. Where one layer alone reads what is
joined, they may be stored as it lies for that: in tiles, within a border.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from tvm import relax

from accel.lowering.movement.launch_costs import LaunchCosts, with_view
from accel.lowering.movement.launch_graph import Launch, LaunchGraph, Window
from accel.lowering.movement.movement_operators import shape_of_value, windows_of
from accel.lowering.movement.region_prices import RegionPrices
from accel.region.affine_view import NotAffineError, pieces
from accel.region.kinds import VectorRegion


class _Joined(NamedTuple):
    """A way to join parts: readers that cannot read it and cycles, how near it is, its variable, and its parts."""

    cost: tuple[int, int]
    rank: int
    var: relax.Var
    parts: list[Launch]


class Joins:
    """The concatenations of a graph."""

    def __init__(self, graph: LaunchGraph, prices: RegionPrices, costs: LaunchCosts, tiles: Collection[int]) -> None:
        """Begin with the costs of a graph; ``tiles`` are the extents of tiles, of which blocks of channels are."""
        self._graph, self._prices, self._costs, self._tiles = graph, prices, costs, tiles

    def makers(self, var: relax.Var, stored: set[relax.Var]) -> Iterator[Launch]:
        """Yields the launches whose results only a concatenation reads."""
        for operand, _ in windows_of(self._graph.values[var]):
            chain = self._graph.chain(operand, stored) or []
            if chain and self._graph.is_alone(chain) and chain[-1] in self._graph.launches:
                yield self._graph.launches[chain[-1]]

    def is_worthwhile(self, var: relax.Var, stored: set[relax.Var]) -> bool:
        """Returns whether a concatenation is the model's, or each part of it is made by a launch for it alone.

        Patches, which packing joins, repeat elements, and would be many programs.
        """
        makers = {str(launch.var.name) for launch in self.makers(var, stored)}
        return str(var.name) in self._graph.nodes or len(makers) == len(list(windows_of(self._graph.values[var])))

    def join(self, whole_var: relax.Var, stored: set[relax.Var]) -> bool:
        """Lets what a concatenation joins be stored side by side, where that costs the least.

        Returns whether it is: not where the host has a part of it, or where one cannot.
        """
        found = min(self._ways(whole_var, stored), key=lambda way: (way.cost, way.rank), default=None)
        if found is None:
            return False
        for part in found.parts:
            if part.was is not None:
                stored.discard(part.was)
                self._graph.launches[part.was] = part
        self._graph.joined[found.var] = found.parts
        stored.add(found.var)
        return True

    def _ways(self, whole_var: relax.Var, stored: set[relax.Var]) -> Iterator[_Joined]:
        """The ways to join: where the model has it, and at the ends of the movement behind; farther is better."""
        ends = [(whole_var,), *((whole_var, *each.passed) for each in self._graph.destinations(whole_var, None))]
        for distance, behind in enumerate(ends):
            parts = self._parts(behind, stored)
            if parts is None:
                continue
            programs = [part.region for part in parts if isinstance(part.region, VectorRegion)]
            cycles = sum(self._prices.price(region) or 0 for region in programs)
            readers = self._graph.readers_of(behind[-1], directly=True)
            unable, read = self._costs.of_readers(behind[-1], readers)
            yield _Joined((unable, cycles + read), -distance, behind[-1], parts)

    def _parts(self, behind: tuple[relax.Var, ...], stored: set[relax.Var]) -> list[Launch] | None:
        """The launches that store the parts of the first variable as they lie in the last; None if one has none."""
        whole_var, shape = behind[0], shape_of_value(behind[0]) or ()
        parts: list[Launch] = []
        for number, (operand, first) in enumerate(windows_of(self._graph.values[whole_var])):
            var = relax.DataflowVar(f"{behind[-1].name}_part{number}", behind[-1].ty)
            if str(whole_var.name) in self._graph.nodes:
                self._graph.nodes[str(var.name)] = self._graph.nodes[str(whole_var.name)]
            window = Window(shape, first, behind)
            part = self._part(operand, var, window, stored)
            made = self._pieces(operand, var, window, stored) if part is None else [part]
            if not made:
                return None
            parts += made
        # what is around them is there before any of them runs
        borders = {part.info.border for part in parts} - {None}
        return parts if len(borders) <= 1 else None

    def _part(self, operand: relax.Expr, var: relax.Var, window: Window, stored: set[relax.Var]) -> Launch | None:
        """The launch that stores an operand where it belongs in a concatenation: as it is made, or a program."""
        chain = self._graph.chain(operand, stored)
        if chain is None:
            return None
        launch = self._graph.launches.get(chain[-1]) if isinstance(chain[-1], relax.Var) else None
        if launch is not None and launch.var.same_as(launch.was) and self._graph.is_alone(chain):
            with suppress(NotAffineError):
                _, view, fill = self._graph.views_at(chain, len(chain) - 1, window)
                views = with_view(launch.region.views, len(launch.arguments), view)
                region = self._prices.in_best_order(replace(launch.region, views=views))
                alike = launch.info.border is None or fill is None or launch.info.border == fill
                if region is not None and self._prices.may_store(region, view) and alike and self._prices.can(region):
                    info = self._graph.with_nodes(launch.info, (*chain[:-1], var))
                    info = replace(info, border=info.border if fill is None else int(fill))
                    return replace(launch, var=var, region=region, info=info, changed=True)
        return next(self._costs.programs(chain, var, window), None)

    def _pieces(
        self, operand: relax.Expr, whole_part: relax.Var, window: Window, stored: set[relax.Var]
    ) -> list[Launch]:
        """The programs that store an operand in pieces, each in one block here and there; none if they cannot."""
        chain, shape = self._graph.chain(operand, stored), shape_of_value(operand)
        joined = [axis for axis, extent in enumerate(shape or ()) if extent < window.shape[axis]]
        if chain is None or shape is None or len(joined) != 1:
            return []
        (axis,) = joined
        for tile in sorted(self._tiles):
            parts = pieces(shape[axis], axis, tile, window.first[axis])
            if made := self._costs.in_pieces(chain, 0, whole_part, window, parts):
                return made
        return []
