"""What regions cost: cycles, each kind of region once."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from accel.accelerator.target import Target
from accel.errors import CompileError
from accel.lowering.ir.function_attributes import dump_region, flat_views, without_numbers
from accel.lowering.ir.known_prices import KnownPrices
from accel.lowering.kinds.program_operations import DoneAlike, ProgramOperations
from accel.lowering.movement.movement_programs import may_move, movement_programs
from accel.lowering.movement.program_orders import mixed_orders_of, orders_of, split_orders_of
from accel.lowering.movement.split_axes import parts_of
from accel.lowering.vector.tiles.program_bounds import program_bound
from accel.lowering.vector.tiles.program_cycles import ProgramCycles
from accel.lowering.vector.tiles.program_tiles import tiles_beside
from accel.region.affine_view import AffineView
from accel.region.kinds import AnyRegion, Prices, Region, VectorRegion, Views
from accel.region.vector_program import VectorProgram

_NEAR_BOUND = 1.2  # times the bound: so near nothing else is tried
_FAR = 1.5  # times the least estimate: where estimates were compared with the clock, none was a fifth from it

Move = tuple[AffineView, AffineView, str]
"""A tensor as it lies where it is, as it shall lie, and the type of its elements."""

ProgramForm = tuple[VectorProgram, tuple[DoneAlike, ...], Views]
"""A program without its statements, how they are done, and where its tensors lie."""


class RegionPrices:
    """The best of a region's orders, once for all regions that differ in numbers alone."""

    def __init__(self, target: Target, prices: Prices) -> None:
        self._target = target
        self._operations = target.derived(ProgramOperations)
        self._estimates = target.derived(ProgramCycles)
        self._known: dict[str, tuple[int, int] | None] = {}
        self._split: dict[str, tuple[int, int] | None] = {}
        self._priced_as_done = KnownPrices(prices, self._form)  # of programs that are done alike one is asked for
        self._priced = KnownPrices(self._priced_as_done, without_numbers)
        self._moving: dict[Move, VectorRegion | None] = {}
        self._movable: dict[str, bool] = {}

    def price(self, region: AnyRegion) -> int | None:
        """Returns the cycles of a region, or of one that differs in numbers alone."""
        return self._priced([region])[0]

    def price_all(self, regions: Sequence[AnyRegion]) -> None:
        """Prices regions that :meth:`can` will be asked of, together as :meth:`foresee` does."""
        self._priced(regions)

    def foresee(self, regions: Sequence[AnyRegion], moves: Sequence[Move] = ()) -> None:
        """Prices what will be asked for, programs in all orders, together: another process may take half."""
        orders: dict[str, list[VectorRegion]] = {}
        split: dict[str, list[VectorRegion]] = {}
        for region in regions:
            if not isinstance(region, VectorRegion) or (key := without_numbers(region)) in self._known:
                continue
            if key not in orders:
                orders[key] = list(orders_of(region, self._target))
                split[key] = list(self._settled_ways(region))
        programs = {move: list(movement_programs(*move, self._target)) for move in moves if move not in self._moving}
        every = *orders.values(), *split.values(), *programs.values()
        self._priced([each for several in every for each in self._near(several)])
        self._known |= {key: self._cheapest(several) for key, several in orders.items()}
        self._split |= {key: self._cheapest(several) for key, several in split.items()}
        for move, several in programs.items():
            found = self._cheapest(several)
            self._moving[move] = None if found is None else several[found[1]]

    def _form(self, region: AnyRegion) -> ProgramForm | str:
        """What regions of the same cycles have in common; a contraction has its numbers in it."""
        if not isinstance(region, VectorRegion):
            return dump_region(region)
        program = region.shape
        return replace(program, statements=()), self._operations.done_alike(program), flat_views(region.views)

    def best(self, region: VectorRegion) -> tuple[int, VectorRegion] | None:
        """Returns the cycles, and the region in the order that takes the fewest; None where no instructions do it.

        Regions that differ in numbers alone are priced alike. With its axes split it may take fewer cycles, which are
        returned then: it is split when all its views are settled (:meth:`as_settled`).
        """
        cycles, found = self.cycles(region), self._best(region)
        if cycles is None or found is None:
            return None
        return cycles, next(islice(orders_of(region, self._target), found[1], None))

    def as_settled(self, region: VectorRegion) -> VectorRegion:
        """Returns a region whose views stay with other axes or buffers, if it takes fewer cycles so; else as it is.

        One that is far from its bound may have other tiles, too.
        """
        # listed for this region: one that is priced alike may have a view in blocks, and other ways
        ways = list(self._settled_ways(region))
        found, settled = self._best(region), self._cheapest(ways) if ways else None
        if settled is not None and (found is None or settled[0] < found[0]) and self.can(ways[settled[1]]):
            region = ways[settled[1]]
        return self._in_other_tiles(region)

    def _in_other_tiles(self, region: VectorRegion) -> VectorRegion:
        """A region in the best of the tiles that are estimated to be nearly as good, if it is far from its bound."""
        cycles = self.price(region)
        if cycles is None or cycles <= _NEAR_BOUND * program_bound(region.shape, self._target, region.views).cycles:
            return region
        programs = tiles_beside(region.shape, self._target, parts_of(region), region.views)
        others = [replace(region, shape=program) for program in programs]
        best = self._cheapest(others) if others else None
        return others[best[1]] if best is not None and best[0] < cycles else region

    def _settled_ways(self, region: VectorRegion) -> Iterator[VectorRegion]:
        """The ways that :meth:`as_settled` has."""
        yield from split_orders_of(region, self._target)
        yield from mixed_orders_of(region, self._target)

    def in_best_order(self, region: AnyRegion) -> AnyRegion | None:
        """Returns a region in the order that takes the fewest cycles; None where no instructions do it."""
        if not isinstance(region, VectorRegion):
            return region
        found = self.best(region)
        return None if found is None else found[1]

    def cycles(self, region: VectorRegion) -> int | None:
        """Returns the cycles of a region in its best order; None where no instructions do it."""
        found, split = self._best(region), self._split[without_numbers(region)]
        if found is None or split is None:
            return None if found is None else found[0]
        return min(found[0], split[0])

    def _best(self, region: VectorRegion) -> tuple[int, int] | None:
        """The cycles of the best order, and its place among all."""
        key = without_numbers(region)
        if key not in self._known:
            self.foresee([region])
        return self._known[key]

    def may_store(self, region: AnyRegion, view: AffineView) -> bool:
        """Returns whether a region's result may lie so: an element of a memory is in one place."""
        if isinstance(region, VectorRegion):
            return True
        return view.keeps_together(self._target.contraction.dst.memory.element_count)

    def may_move(self, dtype: str) -> bool:
        """Returns whether a program may move a tensor of a type at all."""
        if dtype not in self._movable:
            self._movable[dtype] = may_move(dtype, self._target.accelerator)
        return self._movable[dtype]

    def moving(self, source: AffineView, result: AffineView, dtype: str) -> VectorRegion | None:
        """Returns the program that moves a tensor in the fewest cycles; None where no instructions move it.

        Args:
            source: how it lies where it is.
            result: how it shall lie.
            dtype: of its elements.
        """
        key = source, result, dtype
        if key not in self._moving:
            self.foresee([], [key])
        return self._moving[key]

    def _cheapest(self, regions: Sequence[VectorRegion]) -> tuple[int, int] | None:
        """The cycles of the cheapest, and its place; the first of several.

        Those that are estimated to take far longer are priced where no other can be compiled.
        """
        near = self._near(regions)
        for several in (near, regions) if len(near) < len(regions) else (regions,):
            priced = zip(several, self._priced(several), strict=True)
            cycles = {id(region): found for region, found in priced if found is not None}
            if cycles:
                return min((cycles[id(each)], place) for place, each in enumerate(regions) if id(each) in cycles)
        return None

    def _near(self, regions: Sequence[VectorRegion]) -> list[VectorRegion]:
        """Of ways to do the same those that are not estimated to take far longer than another."""
        if len(regions) < 2 or any(each.shape.stream is not None for each in regions):
            return list(regions)
        estimates = [self._estimate(each) for each in regions]
        return [each for each, cycles in zip(regions, estimates, strict=True) if cycles <= _FAR * min(estimates)]

    def _estimate(self, region: VectorRegion) -> float:
        """The cycles of a region as tiles are chosen by them; infinitely many where no instruction does a statement."""
        try:
            return self._estimates.of(region.shape, region.views)
        except CompileError:
            return math.inf

    def can(self, region: AnyRegion) -> bool:
        """Returns whether instructions do a region with the numbers that it has, and its views are worth their cycles.

        Those that do another one's statements do them in the same way, whatever the numbers; so do a contraction's.
        """
        if isinstance(region, VectorRegion):
            return self._priced_as_done([region])[0] is not None
        cycles = self.price(region)
        return cycles is not None and self._is_worth_views(region, cycles)

    def _is_worth_views(self, region: Region, cycles: int) -> bool:
        """Whether a contraction takes no more cycles for its views than to move the tensors may take.

        It may have to be cut into far smaller pieces where they lie otherwise. To move them is to read and to write
        them once more, at the bus's rate.
        """
        plain = self.price(replace(region, views=()))
        moved = sum(math.prod(view.tensor) for view in region.views if view is not None)
        return plain is None or cycles <= plain + 2 * moved / self._target.accelerator.dram.bus_bytes
